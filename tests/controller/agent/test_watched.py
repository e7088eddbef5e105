"""Executors that are only watched, through the whole agent; with any state: `tests/properties/test_periods.py`."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.agent.open_quotas import open_all
from controller.runtime.base import ExecutorKey
from stage_model.progress import StageProgress
from tests.fakes.plans import plan
from tests.fakes.worker import FakeWorker, spec

KEY = ExecutorKey("app", "1")
OTHER = ExecutorKey("other", "1")


@pytest.fixture
def worker(tmp_path: Path) -> FakeWorker:
    """Provide a worker of two cores with a watched executor, which the law would give half a core, and a paced one."""
    worker = FakeWorker(tmp_path)
    worker.want([spec(watched=True), spec("other")], [plan(), plan("other", left_s=None)])
    worker.tick()
    worker.progress(KEY, StageProgress(stage=1, attempt=0, running=2, done=0))
    return worker


def test_its_samples_have_what_it_holds_and_what_the_law_would_ask_for(worker: FakeWorker) -> None:
    [sample] = [one for one in worker.tick().samples if one.application_id == "app"]
    assert (sample.grant, sample.ordered, sample.squeezed) == (2.0, (), False)
    assert sample.demand < 1.0


def test_neither_a_new_agent_nor_the_opening_of_quotas_changes_the_quota_that_is_there(worker: FakeWorker) -> None:
    worker.runtime.set_quota(KEY, 1.5)  # from outside
    worker.restart()
    for _ in range(3):
        worker.tick(10.0)  # the master is away
    assert open_all(worker.launcher.runtime, 2.0)
    assert worker.quotas() == {KEY: 1.5, OTHER: 2.0}


def test_it_ends_when_the_master_orders_that(worker: FakeWorker) -> None:
    worker.want([spec(watched=True)], [plan()], stopped=[KEY.text])
    worker.tick()
    worker.tick(5.0)
    assert KEY not in worker.running()
