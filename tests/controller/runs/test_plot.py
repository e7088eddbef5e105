"""The picture of a run: the right numbers, and a file that is a picture."""

from __future__ import annotations

import math
import sys
from pathlib import Path
from typing import Any

import pytest

from controller.runs.plot import curves, new_figure, plot_run, title
from controller.runs.run_folder import append_samples, write_stages, write_summary
from controller.wire.course import StageCourse
from controller.wire.worker import Sample
from stage_model.errors import BadInput, Unavailable
from tests.fakes import views
from tests.fakes.refusals import assert_names


def sample(time_s: float, executor: str = "1", *, quota: float = 1.0, **changed: Any) -> Sample:
    plain = {"progress": 0.5, "set_point": 0.5, "usage": 0.8}
    return views.sample(time_s, executor, quota=quota, grant=quota, **{**plain, **changed})


def test_cores_are_summed_over_executors_per_tick() -> None:
    data = curves([sample(1.0, "1", quota=1.5), sample(1.02, "2", quota=0.5), sample(2.0, "1", quota=1.0)])
    # At 2 s executor 2 is between its samples: its last one counts.
    assert data.allocated == (2.0, 1.5)
    assert data.used == (1.6, 1.6)
    assert data.time_s == (1.02, 2.0)


def test_unmeasured_usage_is_a_gap_and_no_zero() -> None:
    data = curves([sample(1.0, usage=None), sample(2.0)])
    assert math.isnan(data.used[0])
    assert data.used[1] == 0.8


def test_an_executor_that_fell_silent_no_longer_counts() -> None:
    data = curves([sample(1.0, "1"), sample(1.0, "2"), sample(5.9, "1"), sample(6.5, "1")])
    assert data.allocated == (2.0, 2.0, 1.0)


def test_the_line_of_progress_breaks_between_stages() -> None:
    data = curves([sample(1, progress=0.9), sample(2, stage=1, progress=0.1), sample(3, stage=None, progress=None)])
    assert list(data.progress_time_s) == [1, 1, 2, 2]
    assert [None if math.isnan(value) else value for value in data.progress] == [0.9, None, 0.1, None]


def test_parallel_stages_keep_a_line_each_and_the_best_informed_executor_counts() -> None:
    samples = [sample(1, "1", progress=0.1), sample(1, "2", stage=1, progress=0.2), sample(2, "1", progress=0.3)]
    data = curves([*samples, sample(2, "2", progress=0.4)])
    assert [None if math.isnan(value) else value for value in data.progress] == [0.1, 0.4, None, 0.2, None]


def test_a_stage_without_a_set_point_has_a_gap_there() -> None:
    assert math.isnan(curves([sample(1, set_point=None)]).set_point[0])


def test_the_title_says_how_far_from_the_deadline_it_ended() -> None:
    summary = {"name": "pagerank", "law": "forecast", "deadline_s": 90.0, "end_s": 88.2, "error_pct": -2.0}
    assert title(summary) == "pagerank · law forecast · deadline 1m30s · end 1m28s · 2.0% early"
    assert title({"app_id": "app-1", "deadline_s": None, "end_s": 7}) == "app-1 · end 7s"


@pytest.mark.parametrize("stages", [0, 3, 40])
@pytest.mark.parametrize("deadline_s", [None, 12.0])
def test_a_run_becomes_a_picture(tmp_path: Path, stages: int, deadline_s: float | None) -> None:
    write_summary(tmp_path, {"name": "a", "deadline_s": deadline_s, "end_s": 11.0})
    append_samples(tmp_path, [sample(t, e, set_point=t / 12, progress=t / 11) for t in range(1, 11) for e in "12"])
    write_stages(
        tmp_path, [StageCourse(stage=i, attempt=0, name="s", start_s=i / 4, end_s=i / 4 + 1, tasks=4) for i in range(stages)]
    )
    plot_run(tmp_path, tmp_path / "f.png")
    assert (tmp_path / "f.png").read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_drawn_is_refused(tmp_path: Path) -> None:
    write_summary(tmp_path, {"name": "a"})
    with pytest.raises(BadInput, match=str(tmp_path)):
        plot_run(tmp_path, tmp_path / "f.png")
    append_samples(tmp_path, [sample(1)])
    with pytest.raises(BadInput, match=r"f\.doc"):
        plot_run(tmp_path, tmp_path / "f.doc")
    with pytest.raises(BadInput, match="No such file"):
        plot_run(tmp_path, tmp_path / "none" / "f.png")


def test_without_matplotlib_the_error_says_how_to_get_it_where_pipx_installed_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.backends.backend_agg", None)
    with pytest.raises(Unavailable) as refused:
        new_figure(height=1.0)
    assert_names(str(refused.value), "needs matplotlib", "pipx inject sparkpace matplotlib")
