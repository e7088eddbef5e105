"""Several jobs on real Spark and Docker: priority, squeezes without loss, compensation, changes while they run.

Not covered: a deadline refused because of promises. On a machine that has become too slow for a promise another one is
rightly admitted, so that is counted in virtual time (`tests/controller/master/test_cluster.py`).
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.integration.conftest import Learned
from tests.integration.engine import Engine
from tests.integration.local_cluster import LocalCluster, eventually
from tests.integration.pacing import AIM, AIM_SHARE, assert_late_only_with_all, assert_squeezed, contest

pytestmark = [pytest.mark.spark, pytest.mark.docker]

LONG = ("stages.py", "--work", "600", "--tasks", "8", "--rounds", "2")
"""About 16 core-seconds in Python workers."""
HANDED_ON = 8
"""Samples of a job with two executors, from another job's last task on, until one shows that job's cores: they stay with it
for two periods, and an agent that a busy machine holds up takes no samples."""


@pytest.fixture
def long(learned: Callable[..., Learned]) -> Learned:
    return learned("long", *LONG)


def test_a_job_of_high_priority_squeezes_another_that_loses_nothing_and_is_compensated(
    cluster: LocalCluster, engine: Engine, long: Learned, stop_file: Path
) -> None:
    """The last rounds of both begin together."""
    words = ("--profile", long.summary["profile"], *long.words, "--hold", str(stop_file))
    low, high = (cluster.submit(*options, *words) for options in contest(long.end_s))
    ids = [cluster.running(name).application_id for name in ("squeezed", "first")]
    eventually(lambda: all(cluster.client().application(one).stages_done == 2 for one in ids), "the first rounds of both")
    stop_file.touch()
    assert high.finish().ok().answer["ok"]
    first = cluster.summary("first")
    assert_late_only_with_all(first["violated"], cluster.samples(first["app_id"]))
    assert low.finish().ok().answer["ok"]

    summary, samples = cluster.summary("squeezed"), cluster.samples(ids[0])
    assert_squeezed(summary, samples, ids[0])
    came_s = first["submitted_epoch_s"] - summary["submitted_epoch_s"]
    # it has its cores back when the other one works no more, unless it has ended by then
    alone_s = came_s + first["last_task_s"]
    alone = [s.grant for s in samples if alone_s < s.time_s < summary["last_task_s"] and s.quota > 0]
    assert max(alone, default=0.0) > 0.5 or len(alone) <= HANDED_ON


def test_priority_and_deadline_of_running_jobs_can_be_set(cluster: LocalCluster, engine: Engine) -> None:
    """Two jobs that take what there is share it, until one is set above the other, and later the other way round."""
    jobs = [cluster.submit("--name", name, "sleeping.py") for name in ("one", "other")]
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
    assert "passed" in refused.stderr
    for job in jobs:
        job.kill()


def test_no_stage_waits_for_a_task_on_a_worker_that_another_job_has(cluster: LocalCluster) -> None:
    """Rounds of a stage of six short tasks and one of four. Spark gives each executor a task of every stage, until an
    important job has one of the workers."""
    shown = ("--conf", "spark.ui.enabled=true")
    small = cluster.submit("--name", "small", *shown, "stages.py", "--work", "5", "--tasks", "6", "--rounds", "100000")
    view = cluster.running("small")
    one = ("--conf", "spark.executor.instances=1")
    important = cluster.submit("--name", "important", "--priority", "high", *one, "sleeping.py")
    seen: list[dict[str, int]] = []

    def tasks() -> dict[str, int]:
        of = f"{view.ui_url}/api/v1/applications/{view.application_id}/executors"
        listed = json.loads(urllib.request.urlopen(of, timeout=60).read())
        return {executor["id"]: executor["totalTasks"] for executor in listed if executor["id"] != "driver"}

    def one_runs_five_rounds_alone() -> bool:
        seen.append(tasks())
        more = [{name: seen[-1][name] - count for name, count in earlier.items()} for earlier in seen]
        return any(min(of_each.values()) == 0 and max(of_each.values()) >= 50 for of_each in more)

    first = tasks()
    eventually(lambda: all(count > first[name] for name, count in tasks().items()), "tasks on both")
    cluster.running("important", 1)
    eventually(one_runs_five_rounds_alone, "stages that leave an executor out")
    for job in (small, important):
        job.kill()


@pytest.mark.slow
def test_jobs_of_one_session_at_once_have_deadlines_of_their_own(
    cluster: LocalCluster, learned: Callable[..., Learned]
) -> None:
    """A small one and a large one in FAIR pools: the large one may take twice as long, so neither needs all cores."""
    fair = ("--conf", "spark.scheduler.mode=FAIR")
    taught = learned("at-once", *fair, "at_once.py", "4", "8")
    assert taught.summary["actions"] == []
    alone_s = taught.summary["last_task_s"] - taught.summary["first_task_s"]
    deadlines_s = (2 * alone_s / AIM_SHARE, 4 * alone_s / AIM_SHARE)
    words = [f"{size}:{deadline_s:.2f}s" for size, deadline_s in zip((4, 8), deadlines_s, strict=True)]
    done = cluster.run("--name", "at-once", *AIM, *fair, "at_once.py", *words).ok()
    assert done.answer["ok"]
    summary = cluster.summary("at-once")
    actions = sorted(summary["actions"], key=lambda action: float(action["deadline_s"]))
    assert [action["deadline_s"] for action in actions] == pytest.approx(deadlines_s, abs=0.01)
    assert summary["deadline_s"] is None
    assert summary["profile_match"] == 1.0
    assert summary["tasks_failed"] == 0
    samples = cluster.samples(summary["app_id"])
    for action in actions:
        during = [s for s in samples if s.progress and action["start_s"] < s.time_s < action["end_s"]]
        assert_late_only_with_all(action["violated"], during)
        took_s = action["end_s"] - action["start_s"]
        assert took_s > AIM_SHARE * action["deadline_s"] or any(s.demand < 1 for s in during)
