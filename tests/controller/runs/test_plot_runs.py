"""Pictures of several jobs: runs on one axis from the first submission, cores summed; a night with a row for each job, also
without executors and without enough cores; and files that are pictures."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.runs.plot_runs import MOST_JOBS, CoreCurve, common_axis, core_curve, plot_night, plot_runs
from controller.runs.run_folder import append_samples, write_summary
from controller.wire.worker import Sample
from stage_model.errors import BadInput
from stage_model.forecast.night import LATEST_S, Night, NightJob
from stage_model.forecast.saving import Saving
from stage_model.history.held import Held
from tests.fakes import views
from tests.fakes.commands import assert_refused, run


def sample(time_s: float, executor: str = "1", *, grant: float = 0.5, debt: float = 0.0, **changed: float) -> Sample:
    return views.sample(time_s, executor, grant=grant, debt_core_s=debt, **changed)


def run_folder(path: Path, submitted: float, *, deadline_s: float | None = 60.0, debt: float = 0.0) -> Path:
    path.mkdir(parents=True)
    named = {"app_id": path.name, "name": path.name, "priority": 100 if deadline_s else 0}
    write_summary(path, {**named, "deadline_s": deadline_s, "end_s": 52.0, "submitted_epoch_s": submitted})
    append_samples(path, [sample(float(t), e, grant=0.85 - 0.4 * (t % 2), debt=debt) for t in range(5, 50) for e in "12"])
    return path


def test_grants_demands_and_debts_are_summed_over_the_executors() -> None:
    curve = core_curve([sample(1, "1"), sample(1.03, "2", demand=0.4, grant=0.1, debt=2.0), sample(2, "1", grant=1.0)])
    assert curve == CoreCurve(time_s=(1.03, 2), granted=(0.6, 1.1), demanded=(1.4, 1.4), debt=(2.0, 2.0))


def test_the_axis_begins_at_the_earliest_submission() -> None:
    late: dict[str, Any] = {"name": "late", "priority": 100, "submitted_epoch_s": 130.0, "deadline_s": 30.0, "end_s": 28.0}
    late["pipeline"] = {"name": "nightly", "by_s": None}
    early: dict[str, Any] = {"name": "early", "priority": 7, "submitted_epoch_s": 100.0, "deadline_s": None, "end_s": 90.0}
    first, second = common_axis([(Path("l"), late, [sample(9)]), (Path("e"), early, [sample(5)])])
    assert (first.arrival_s, first.deadline_s, first.end_s) == (0, None, 90)
    assert first.label == "early · priority 7 · arrives at 0s · ends after 1m30s"
    # submitted 30 s after the first: its deadline of 30 s is at 60 s, its end at 58 s
    assert (second.arrival_s, second.deadline_s, second.end_s) == (30, 60, 58)
    assert second.label == "late · in nightly · priority high · arrives at 30s · ends after 28s, 2s early"
    assert list(second.curve.time_s) == [9]
    assert (first.last_s, second.last_s) == (90, 60)


@pytest.mark.parametrize("debt", [0.0, 2.5])
@pytest.mark.parametrize("runs", [1, 2, 7])
def test_runs_become_one_picture(tmp_path: Path, runs: int, debt: float) -> None:
    folders = [
        run_folder(tmp_path / f"r{n}", 1000.0 + 13 * n, deadline_s=60.0 if n % 2 else None, debt=debt) for n in range(runs)
    ]
    plot_runs(folders, tmp_path / "f.png")
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_placed_on_the_axis_is_refused(tmp_path: Path) -> None:
    good, bad = run_folder(tmp_path / "good", 1.0), tmp_path / "bad"
    bad.mkdir()
    write_summary(bad, {"name": "bad", "submitted_epoch_s": 5.0})
    with pytest.raises(BadInput, match="bad "):
        plot_runs([good, bad], tmp_path / "f.png")
    append_samples(bad, [sample(1)])
    write_summary(bad, {"name": "bad"})
    with pytest.raises(BadInput, match="bad "):
        plot_runs([good, bad], tmp_path / "f.png")
    with pytest.raises(BadInput, match=r"f\.doc"):
        plot_runs([good, good], tmp_path / "f.doc")


def test_the_command_draws_one_run_or_several(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARKPACE_HOME", str(tmp_path))
    for number, name in enumerate(("one", "two")):
        run_folder(tmp_path / "runs" / name, 100.0 + number)
    for number, words in enumerate((["one"], ["one", "two"], ["one", "one"])):
        out = tmp_path / f"{number}.png"
        done = run("plot", *words, "-o", str(out))
        assert done.exit_code == 0, done.output
        assert out.read_bytes().startswith(b"\x89PNG")
    # a run that is named twice is one run: the picture of progress against set-point
    assert (tmp_path / "0.png").read_bytes() == (tmp_path / "2.png").read_bytes() != (tmp_path / "1.png").read_bytes()
    assert_refused(run("plot", "one", "three", "-o", str(out)), 2, "'three'")


# ---------------------------------------------------------------- a night

START_S = 1_800_000_000.0


def job(number: int, steps: tuple[tuple[float, float], ...], fewest: float | None) -> NightJob:
    end_s = None if fewest is None else 4000.0
    saving = Saving(within_s=5000.0, fewest_cores=fewest, end_s=end_s, held_core_s=1.0, saved_core_s=0.0)
    start_s = START_S + 600 * number
    return NightJob(name=f"job{number}", start_s=start_s, end_s=start_s + 3000, held=Held(steps, 3000.0), saving=saving)


def night(*jobs: NightJob) -> Night:
    return Night(deadline_s=START_S + 7200, jobs=jobs, held_core_s=1.0, needed_core_s=1.0)


@pytest.mark.parametrize("kind", ["png", "svg", "pdf"])
def test_a_night_becomes_a_picture(tmp_path: Path, kind: str) -> None:
    jobs = (job(0, ((10.0, 4.0), (900.0, 8.0)), 3.2), job(1, (), 1.0), job(2, ((5.0, 2.0),), None))
    plot_night(night(*jobs), tmp_path / f"n.{kind}", UTC)
    assert (tmp_path / f"n.{kind}").stat().st_size > 1000


def test_of_very_many_jobs_the_first_are_drawn(tmp_path: Path) -> None:
    plot_night(night(*(job(number % 7, ((5.0, 2.0),), 1.0) for number in range(MOST_JOBS + 1))), tmp_path / "n.png", UTC)
    assert (tmp_path / "n.png").read_bytes().startswith(b"\x89PNG")


def test_names_may_look_like_formulas_and_times_may_be_as_far_apart_as_they_are_taken(tmp_path: Path) -> None:
    first, last = job(0, ((5.0, 2.0),), 1.0), job(1, ((5.0, 2.0),), 1.0)
    first = msgspec.structs.replace(first, name="Jobs$Daily_$@app", start_s=0.0, end_s=3000.0)
    last = msgspec.structs.replace(last, start_s=LATEST_S - 3000.0, end_s=float(LATEST_S))
    plot_night(night(first, last), tmp_path / "n.png", UTC)
    assert (tmp_path / "n.png").read_bytes().startswith(b"\x89PNG")
