"""Event logs as a profile: several runs of one application, and what stands in the way."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from types import FrameType

import msgspec
import pytest
from click.testing import Result

from controller.runs.log_profile import logged_profile, logged_run, slowed
from controller.wire.command import PlanReply
from stage_model.errors import BadInput
from stage_model.forecast.curve import Curve, curve, reference_slots
from stage_model.forecast.estimate import _stage
from tests.fakes.commands import assert_refused, run
from tests.fakes.refusals import assert_names

LOGS = Path(__file__).parents[2] / "data" / "eventlogs"
ROLLING, SHIFTED = LOGS / "eventlog_v2_golden", LOGS / "spark43.gz"
KIND = "SparkListener"


def lines() -> list[bytes]:
    return gzip.decompress(SHIFTED.read_bytes()).splitlines(keepends=True)


def without(content: list[bytes], *kinds: str, but: int = 0) -> list[bytes]:
    """Remove the lines of these kinds, after the first `but` of them."""
    marks = [f'"{KIND}{kind}"'.encode() for kind in kinds]
    seen, kept = 0, []
    for line in content:
        if any(mark in line for mark in marks):
            seen += 1
            if seen > but:
                continue
        kept.append(line)
    return kept


def learn(log: Path | str, home: Path, *words: str) -> Result:
    return run("profile", "learn", "--home", str(home), *words, str(log))


def plan(*words: str | Path) -> Result:
    return run("plan", *map(str, words))


def write(path: Path, content: list[bytes]) -> Path:
    path.write_bytes(b"".join(content))
    return path


def test_several_logs_are_runs_of_one_profile() -> None:
    runs = [logged_run(log) for log in (ROLLING, SHIFTED)]
    known = logged_profile(runs)
    assert (known.key, len(known.runs), [run.notes for run in runs]) == ("golden@app.py", 2, [(), ()])


def test_the_plan_of_one_log_estimates_each_stage_once() -> None:
    estimated: list[str] = []

    def count(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code is _stage.__code__:
            estimated.append(frame.f_locals["record"].signature)

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        assert plan(ROLLING).exit_code == 0
    finally:
        sys.setprofile(before)
    assert estimated == [record.signature for record in logged_run(ROLLING).record.stages]


def test_a_curve_needs_no_cluster_and_no_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKPACE_HOME", str(tmp_path / "none"))
    picture = tmp_path / "curve.png"
    result = plan(ROLLING, "--curve", "--output", "json", "-o", picture)
    assert (result.exit_code, result.stderr) == (0, "")
    reply = msgspec.json.decode(result.stdout, type=PlanReply)
    known = logged_profile([logged_run(ROLLING)])
    assert reply.curve == curve(known, reference_slots(known), 2.0)
    assert (reply.known, reply.feasible, reply.cluster_cores) == (True, None, 2.0)
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert [path.name for path in tmp_path.iterdir()] == ["curve.png"]
    assert "CORES" in plan(ROLLING, "--curve").stdout


def test_cores_give_the_earliest_deadline_and_that_gives_no_more_cores_back() -> None:
    earliest = msgspec.json.decode(plan(ROLLING, "--cores", "0.5", "--output", "json").stdout, type=PlanReply)
    assert earliest.least_deadline_s is not None
    assert earliest.cluster_cores == 0.5
    deadline = f"{earliest.least_deadline_s + 0.1:.1f}s"
    kept = plan(ROLLING, "--deadline", deadline, "--cores", "0.5", "--output", "json")
    fewest = msgspec.json.decode(kept.stdout, type=PlanReply)
    assert (kept.exit_code, fewest.feasible, fewest.cores) == (0, True, 0.5)
    on_all = msgspec.json.decode(plan(ROLLING, "--deadline", deadline, "--output", "json").stdout, type=PlanReply)
    assert on_all.cores is not None
    assert 0.4 <= on_all.cores <= 0.55


def test_a_deadline_that_some_cores_do_not_keep_is_refused_with_one_that_they_do() -> None:
    result = plan(ROLLING, "--cores", "0.5", "--deadline", "1s")
    assert result.exit_code == 75
    assert_names(result.stdout, "1s", "0.50 cores")
    accepted = result.stdout.partition("accepted: ")[2].partition(" or more")[0]
    assert plan(ROLLING, "--cores", "0.5", "--deadline", accepted).exit_code == 0


def test_with_the_quota_of_the_logged_run_less_time_is_fixed() -> None:
    whole = logged_run(ROLLING)
    held_back = slowed(whole, 1.0)
    assert (whole.record.cores, held_back.record.cores) == (2.0, 1.0)
    assert (whole.held.most_cores, held_back.held.most_cores) == (2.0, 1.0)
    assert all(s.work_core_s <= s.duration_s + 1e-9 for s in held_back.record.stages)
    with pytest.raises(BadInput, match=r"--log-cores 3 .* 2"):
        slowed(whole, 3.0)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda content: without(content, "StageSubmitted", but=20), "never submitted"),
        (lambda content: without(content, "JobStart", but=16), "never began"),
    ],
)
def test_a_log_with_gaps_is_planned_from_and_each_is_a_sentence(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], sentence: str
) -> None:
    result = plan(write(tmp_path / "log", change(lines())), "--curve", "--output", "json")
    assert result.exit_code == 0, result.output
    sentences = result.stderr.splitlines()
    assert all(f"{tmp_path / 'log'} has gaps" in line for line in sentences)
    assert any(sentence in line for line in sentences), sentences
    reply = msgspec.json.decode(result.stdout, type=PlanReply)
    assert reply.curve is not None
    assert min(point.end_s for point in reply.curve.points) >= 0


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda content: without(content, "ApplicationEnd"), "truncated"),
        (lambda content: without(content, "JobEnd", but=16), "cut short (2 jobs"),
        (lambda content: [line.replace(b'"JobSucceeded"', b'"JobFailed"') for line in content], "cut short (18 jobs failed)"),
        (lambda content: without(content, "JobStart"), "cut short (it has no job)"),
        (lambda content: without(content, "ExecutorAdded"), "no executor"),
        (lambda content: without(content, "TaskEnd"), "no task"),
        (lambda content: [line.replace(b'"Executor Run Time":', b'"Executor Run Time":-9') for line in content], "corrupt"),
        (lambda content: content[1:], "no Spark event log"),
    ],
)
def test_a_log_that_teaches_nothing_is_refused_in_one_sentence(
    tmp_path: Path, change: Callable[[list[bytes]], list[bytes]], sentence: str
) -> None:
    log = write(tmp_path / "log", change(lines()))
    for result in (plan(log, "--curve"), learn(log, tmp_path / "home")):
        assert_refused(result, 2, sentence)
        assert result.stderr.count("\n") == 1


def test_a_log_with_gaps_does_not_teach(tmp_path: Path) -> None:
    log = write(tmp_path / "log", without(without(lines(), "TaskEnd", but=20), "ApplicationStart"))
    assert_refused(learn(log, tmp_path / "home"), 2, log, "gaps", "no SparkListenerApplicationStart", "fewer ends of tasks")
    assert not (tmp_path / "home").exists()
    assert learn(SHIFTED, tmp_path / "home").exit_code == 0


def test_more_cores_than_the_run_had_are_extrapolated(tmp_path: Path) -> None:
    known = logged_profile([logged_run(ROLLING)])
    reply = msgspec.json.decode(plan(ROLLING, "--curve", "--cores", "4.5", "--output", "json").stdout, type=PlanReply)
    assert reply.cluster_cores == 4.5
    assert reply.curve == curve(known, 5, 4.5)
    assert reply.least_deadline_s is not None
    assert reply.least_deadline_s <= curve(known, 2, 2.0).points[-1].end_s + 0.1
    home = tmp_path / "home"
    assert learn(ROLLING, home).exit_code == 0
    drawn = run("profile", "curve", known.key, "--home", str(home), "--cores", "4.5", "--output", "json")
    assert msgspec.json.decode(drawn.stdout, type=Curve) == reply.curve


def test_a_deadline_at_a_time_is_shown_with_its_day() -> None:
    tomorrow = datetime.now().astimezone() + timedelta(days=1)
    result = plan(ROLLING, "--deadline", f"{tomorrow:%Y-%m-%d}T23:59")
    assert f"{tomorrow:%A, %Y-%m-%d} 23:59 " in result.stdout


def test_a_log_may_be_named_by_a_url(tmp_path: Path) -> None:
    path = write(tmp_path / "a log", lines())
    for url in (f"file:{path}", f"file://{path}", f"file://localhost{path}", f"file://{path}".replace(" ", "%20")):
        assert plan(url).exit_code == 0, url
        assert learn(url, tmp_path / "home").exit_code == 0
    assert_refused(plan("file://other/a"), 2, "'other'", "file:///PATH")


def dated(day: int) -> list[bytes]:
    return [line.replace(b'"App Name":"golden"', b'"App Name":"load-2026-11-%d"' % day) for line in lines()]


def test_logs_whose_names_hold_dates_are_taught_to_one_profile(tmp_path: Path) -> None:
    logs = [write(tmp_path / f"log{day}", dated(day)) for day in (25, 26)]
    for words in ((), ("--curve",), ("--deadline", "10min")):  # the last two are refused for different applications
        assert_names(plan(*logs, *words).stderr, "`sparkpace profile learn --name load-2026-11-25@app.py EVENTLOG`")
    for log in logs:
        assert learn(log, tmp_path / "home", "--name", "load-2026-11-25@app.py").exit_code == 0
    assert run("profile", "show", "--home", str(tmp_path / "home"), "load-2026-11-25@app.py").exit_code == 0


def test_a_clock_that_was_set_back_gives_no_negative_time(tmp_path: Path) -> None:
    found = []
    for line in lines():
        event = json.loads(line)
        if event["Event"] == f"{KIND}StageCompleted":
            event["Stage Info"]["Completion Time"] -= 3_600_000
        found.append(json.dumps(event, separators=(",", ":")).encode() + b"\n")
    result = plan(write(tmp_path / "log", found), "--curve", "--output", "json")
    assert_names(result.stderr, "23 stages", "clock")
    reply = msgspec.json.decode(result.stdout, type=PlanReply)
    assert reply.curve is not None
    assert min(point.end_s for point in reply.curve.points) >= 0
