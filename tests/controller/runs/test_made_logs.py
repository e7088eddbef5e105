"""Plans from event logs of every kind, each against what its program takes by simple arithmetic, and what has to be said."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from click.testing import Result

from controller.runs.log_profile import logged_run
from controller.wire.command import PlanReply
from stage_model.forecast.estimate import estimate
from stage_model.history.profile import profile, profile_key
from tests.fakes.commands import assert_refused, run
from tests.fakes.log_cases import CASES, REFUSED, Case
from tests.fakes.log_figures import (
    check_cores_do_no_more_than_there_are,
    check_more_cores_never_take_longer,
    check_the_same_work,
    end_s,
)


def plan(folder: Path, case: Case, *options: str) -> Result:
    return run("plan", str(case.write(folder)), "--output", "json", *options)


@pytest.mark.parametrize("name", CASES)
def test_a_plan_from_a_log_has_the_figures_of_its_program_and_says_what_the_log_lacks(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    for number, (cores, end) in enumerate(case.ends.items()):
        answer = plan(tmp_path, case, *(["--cores", str(cores)] if number else []))
        assert answer.exit_code == 0, answer.output
        reply = msgspec.json.decode(answer.stdout, type=PlanReply)
        assert reply.cluster_cores == cores
        assert reply.least_deadline_s == pytest.approx(end, rel=0.005)
        assert [stage.work_core_s for stage in reply.stages] == pytest.approx(list(case.works))
        sentences = answer.stderr.splitlines()
        assert len(sentences) == len(case.phrases), sentences
        assert all(part in sentence for part, sentence in zip(case.phrases, sentences, strict=True))


@pytest.mark.parametrize("name", CASES)
def test_a_log_planned_with_its_own_cores_takes_as_long_as_its_run(name: str, tmp_path: Path) -> None:
    """A log's own cores are the cores that were there at each moment, where executors came or went."""
    case = CASES[name]
    record = logged_run(case.write(tmp_path)).record
    if record.cores_there:
        assert estimate(profile("made", [record])).rest_s == pytest.approx(0, abs=0.01 * record.duration_s)
    else:
        assert end_s(record, next(iter(case.ends))) == pytest.approx(record.duration_s, rel=0.01)


@pytest.mark.parametrize("name", CASES)
def test_more_cores_than_a_log_had_never_take_longer(name: str, tmp_path: Path) -> None:
    check_more_cores_never_take_longer(logged_run(CASES[name].write(tmp_path)).record)


@pytest.mark.parametrize("name", CASES)
def test_no_cores_do_more_of_a_log_than_there_are(name: str, tmp_path: Path) -> None:
    check_cores_do_no_more_than_there_are(logged_run(CASES[name].write(tmp_path)).record, CASES[name].lines())


@pytest.mark.parametrize("name", sorted(CASES.keys() - {"tasks done again for their lost output"}))
def test_the_work_of_a_log_is_that_of_one_from_a_cluster_twice_as_large(name: str, tmp_path: Path) -> None:
    """A larger cluster loses other output, so what is done again is other work."""
    case = CASES[name]
    one, other = (logged_run(case.write(tmp_path / str(sizes), sizes)).record for sizes in (1, 2))
    assert other.cores == 2 * one.cores
    check_the_same_work(one, other)


@pytest.mark.parametrize("name", CASES)
def test_a_log_belongs_to_the_profile_of_its_program(name: str, tmp_path: Path) -> None:
    record = logged_run(CASES[name].write(tmp_path)).record
    assert profile_key(None, record.name, record.main) == CASES[name].key


@pytest.mark.parametrize("name", REFUSED)
def test_a_log_that_tells_too_little_is_refused_with_the_true_reason(name: str, tmp_path: Path) -> None:
    case, sentence = REFUSED[name]
    answer = plan(tmp_path, case)
    assert_refused(answer, 2, sentence)
    assert answer.stderr.count("\n") == 1


@pytest.mark.parametrize(("name", "learned"), [("plain", True), ("retried", True), ("grown", True), ("no CPU time", False)])
def test_remarks_about_a_log_are_printed_when_it_teaches(name: str, learned: bool, tmp_path: Path) -> None:
    home = ("--home", str(tmp_path / "home"))
    answer = run("profile", "learn", *home, str(CASES[name].write(tmp_path)))
    assert answer.exit_code == (0 if learned else 2)
    assert all(part in answer.stderr for part in CASES[name].phrases)
    if not learned:
        return
    [learnt] = json.loads(run("profile", "show", *home, "made@program.py", "--output", "json").stdout)["runs"]
    assert [stage["teaches"] for stage in learnt["stages"]] == [name != "retried"] * len(CASES[name].works)
    points = json.loads(run("profile", "curve", *home, "made@program.py", "--output", "json").stdout)["points"]
    assert points[-1]["end_s"] == pytest.approx(next(iter(CASES[name].ends.values())), rel=0.005)
