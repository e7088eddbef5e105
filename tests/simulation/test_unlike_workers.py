"""Workers of unlike sizes, some smaller than a core: an application has all that each of them can give."""

from __future__ import annotations

import random

import pytest

from experiments.simulator.engine import Engine
from experiments.simulator.learn import learned, pre_run
from experiments.simulator.pacing import Pacing
from experiments.simulator.state import IDEAL, SimSubmission, SimWorker
from tests.fakes.jobs import log_normal_job

SMALL_AND_LARGE = [*(SimWorker(f"small-{number}", 0.25, 1) for number in range(4)), SimWorker("large", 1.0, 1)]
FOUR_UNLIKE = [SimWorker(f"w{number}", cores, 1) for number, cores in enumerate((0.8, 0.4, 0.3, 0.2))]


@pytest.mark.parametrize("workers", [SMALL_AND_LARGE, FOUR_UNLIKE], ids=["small-and-large", "four-unlike"])
class TestUnlikeWorkers:
    def ends(self, workers: list[SimWorker], stretch: float | None) -> tuple[float, float]:
        """Return the end of a job on all cores, and its end under our agents; with a deadline of `stretch` times the
        first."""
        job = log_normal_job(random.Random(1), [40, 40], [1.0, 1.0], cv=0.2)
        before, record = pre_run(job, workers, effects=IDEAL, seed=0)
        assert before.end_s is not None
        deadline_s = None if stretch is None else stretch * before.end_s
        [app] = Engine(workers, [SimSubmission(job, deadline_s=deadline_s)], Pacing({job.name: learned(record, job)})).run()
        assert app.end_s is not None
        return before.end_s, app.end_s

    def test_without_a_deadline_it_takes_as_long_as_on_all_cores(self, workers: list[SimWorker]) -> None:
        all_s, end_s = self.ends(workers, None)
        assert end_s == pytest.approx(all_s, rel=0.05)

    @pytest.mark.parametrize("stretch", [1.2, 2.0])
    def test_a_deadline_that_all_cores_keep_is_kept(self, workers: list[SimWorker], stretch: float) -> None:
        all_s, end_s = self.ends(workers, stretch)
        assert 0.95 * stretch * all_s < end_s <= stretch * all_s
