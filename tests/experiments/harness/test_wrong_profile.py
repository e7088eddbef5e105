"""Wrong profiles from stored runs: only from the runs that are named, with works and times off and shapes kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.runs.profile_store import ProfileStore
from experiments.harness.wrong_profile import taught_by
from stage_model.errors import BadInput
from tests.fakes.records import run, stage

STAGES = (stage("read"), stage("sort", work_core_s=4.0, name="sort at /home/of/someone/app.py:3"))


def test_only_the_runs_named_teach_and_works_and_times_are_off(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    store.learn("sort@sort.py", run("base", 1, *STAGES))
    store.learn("sort@sort.py", run("later", 2, *STAGES))
    wrong = taught_by(store, ["base"], 0.5)
    assert wrong.key == "sort@sort.py"
    [only] = wrong.runs
    assert only.id == "base"
    for halved, true in zip(only.stages, STAGES, strict=True):
        assert (halved.work_core_s, halved.duration_s) == (true.work_core_s / 2, true.duration_s / 2)
        assert (halved.tasks, halved.records, halved.task_cv) == (true.tasks, true.records, true.task_cv)
    assert only.stages[1].name == "sort at app.py"


def test_runs_that_taught_nothing_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="gone"):
        taught_by(ProfileStore(tmp_path), ["gone"], 1.0)
