"""Several jobs on real Spark and Docker: priority, squeezes without loss, compensation, promises, changes while they run."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from controller.messages import Sample
from tests.integration.conftest import Learned
from tests.integration.engine import Engine
from tests.integration.local_cluster import LocalCluster, eventually
from tests.integration.test_failures import assert_unharmed
from tests.integration.test_jobs import AIM

pytestmark = [pytest.mark.spark, pytest.mark.docker, pytest.mark.timeout(600)]

LONG = ("stages.py", "--work", "600", "--tasks", "8", "--rounds", "3")
"""About 24 core-seconds in Python workers."""


@pytest.fixture
def long(learned: Callable[..., Learned]) -> Learned:
    return learned("long", *LONG)


def granted(samples: list[Sample], start_s: float, end_s: float) -> float:
    """Mean cores granted to all executors between two times after submission."""
    rows = [s for s in samples if start_s <= s.time_s < end_s]
    ticks = len({round(s.time_s) for s in rows})
    return sum(s.grant for s in rows) / max(1, ticks)


def test_a_job_of_high_priority_squeezes_another_that_loses_nothing_and_is_compensated(
    cluster: LocalCluster, engine: Engine, long: Learned
) -> None:
    profile = ("--profile", long.summary["profile"])
    tight = f"{1.35 * long.end_s:.1f}s"
    low = cluster.submit("--name", "squeezed", "--priority", "low", "--deadline", tight, *profile, *long.words)
    before = cluster.running("squeezed")
    eventually(lambda: cluster.client().application(before.application_id).used_cores > 0.5, "work of the first job")

    refused = cluster.command(
        *("submit", "--name", "third", "--priority", "low", "--deadline", f"{1.15 * long.end_s:.1f}s", *profile, *long.words),
        check=75,
    )
    assert "beside 1 promised of the same or a higher priority" in refused.stderr
    assert "accepted: " in refused.stderr

    easy = f"{1.6 * long.end_s:.1f}s"
    high = cluster.run("--name", "first", "--priority", "high", "--deadline", easy, *AIM, *profile, *long.words).ok()
    assert high.answer["ok"]
    assert cluster.summary("first")["violated"] is False
    assert low.finish().ok().answer["ok"]

    summary = cluster.summary("squeezed")
    assert_unharmed(summary, before.application_id)
    assert summary["withheld_core_s"] > 1
    first = cluster.summary("first")
    came_s = first["submitted_epoch_s"] - summary["submitted_epoch_s"]
    samples = cluster.samples(before.application_id)
    squeezed = [s for s in samples if s.debt_core_s > 0 and s.quota > 0]
    assert min(s.grant for s in squeezed) == pytest.approx(0.1), "a squeezed executor keeps its floor"
    gone_s = came_s + first["end_s"]
    if summary["end_s"] > gone_s + 4:
        # back at once: more than while the other one was there
        assert granted(samples, gone_s + 1, gone_s + 3) > 1.5 * granted(samples, gone_s - 6, gone_s - 2)


def test_priority_and_deadline_of_running_jobs_can_be_set(cluster: LocalCluster, engine: Engine, long: Learned) -> None:
    """Two jobs that take what there is share it, until one is set above the other, and later the other way round."""
    jobs = [cluster.submit("--name", name, "--profile", f"new-{name}", *long.words) for name in ("one", "other")]
    ids = {name: cluster.running(name).application_id for name in ("one", "other")}

    def quotas(name: str) -> list[int]:
        return [engine.quota(container) for container in engine.containers(ids[name], ended=False)]

    def shared(above: str, below: str) -> bool:
        return len(quotas(above)) == 2 and min(quotas(above)) >= 80_000 and max(quotas(below)) <= 20_000

    for above, below in (("one", "other"), ("other", "one")):
        cluster.command("set", below, "--priority", "low")
        said = cluster.command("set", above, "--priority", "high").stdout
        assert said == f"Application {ids[above]}: no deadline, priority 100.\n"
        eventually(partial(shared, above, below), f"the cores of {above}")
    cluster.command("set", "one", "--deadline", "1h", "--priority", "normal")
    view = cluster.client().application(ids["one"])
    assert (view.deadline_s, view.priority) == (3600.0, 50)
    refused = cluster.command("set", "one", "--deadline", "0.5s", check=2)
    assert "has passed: the application has run for" in refused.stderr
    for job in jobs:
        job.kill()


def test_jobs_of_one_session_have_deadlines_of_their_own(cluster: LocalCluster, learned: Callable[..., Learned]) -> None:
    taught = learned("actions", "actions.py")
    assert taught.summary["actions"] == []
    # all three take about as long; the start-up is no action's
    alone_s = (taught.summary["last_task_s"] - taught.summary["first_task_s"]) / 3
    deadline_s = 3 * alone_s
    done = cluster.run("--name", "actions", *AIM, "actions.py", f"{deadline_s:.2f}s").ok()
    assert done.answer["ok"]
    summary = cluster.summary("actions")
    [action] = summary["actions"]
    assert action["violated"] is False
    assert summary["deadline_s"] is None
    took_s = action["end_s"] - action["start_s"]
    # aimed at 70% of three times as long: clearly slower than with all cores
    assert took_s > 1.3 * alone_s
    assert summary["tasks_failed"] == 0
