"""Pictures of a night: a row for each job, also without executors and without enough cores, and a file that is a picture."""

from __future__ import annotations

from datetime import UTC
from pathlib import Path

import msgspec
import pytest

from controller.runs.plot_night import MOST_JOBS, plot_night
from stage_model.errors import BadInput
from stage_model.forecast.night import LATEST_S, Night, NightJob
from stage_model.forecast.saving import Saving
from stage_model.history.held import Held

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


def test_what_is_no_picture_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"n\.doc"):
        plot_night(night(job(0, ((5.0, 2.0),), 1.0)), tmp_path / "n.doc", UTC)
