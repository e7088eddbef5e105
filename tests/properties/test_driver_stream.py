"""The master takes in whatever a driver says, goes on for all others, and knows the same after a restart."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.master.core.application import Application
from controller.wire.driver import DriverSync
from tests.fakes.cluster import FakeCluster, answered, one_stage_run, report
from tests.properties.test_plan_cache import taught

ids = st.integers(0, 3)
times = st.integers(0, 10_000) | st.sampled_from((-1, 2**31, 2**53, 253_402_300_799_999, 2**63, 10**400))
amounts = st.integers(-5, 1000) | st.sampled_from((2**62, 2**63 - 1, -(2**63), 2**64))
words = st.sampled_from(("", "step1 at app.py:1", "count at /x/app.py:3", "\ud7ff", "a" * 300))
deadlines = st.sampled_from(
    ("10s", "0001-01-01T00:00+14:00", "9999-12-31T23:59:59-14:00", "2030-01-01", "1e400", "-", "9" * 5000)
)
infos = st.fixed_dictionaries(
    {"stage": ids, "tasks": st.integers(0, 3) | amounts},
    optional={"attempt": ids, "name": words, "parents": st.lists(ids, max_size=3), "scopes": st.lists(words, max_size=2)},
)


def tagged(kind: str, required: dict[str, st.SearchStrategy[Any]], **optional: st.SearchStrategy[Any]) -> Any:
    return st.fixed_dictionaries({"type": st.just(kind), **required}, optional=optional)


properties = st.fixed_dictionaries({}, optional={"spark.pace.deadline": deadlines, "spark.pace.priority": words})
started = tagged(
    "job_start",
    {"job": ids, "time_ms": times, "stages": st.lists(infos, max_size=3)},
    properties=properties,
    sql_execution=words,
)
submitted = tagged("stage_submitted", {"info": infos, "time_ms": times})
events = st.one_of(
    started,
    submitted,
    tagged("job_end", {"job": ids, "time_ms": times, "ok": st.booleans()}),
    tagged("stage_completed", {"stage": ids, "attempt": st.just(0), "time_ms": times}, failure=words),
    tagged(
        "task_end",
        {"stage": ids, "attempt": st.just(0), "task": ids, "index": ids, "executor": st.just("1")}
        | {"launch_ms": times, "finish_ms": times, "ok": st.booleans()},
        run_ms=amounts,
        cpu_ns=amounts,
        input_records=amounts,
        reason=words,
        waits=st.fixed_dictionaries({}, optional={"fetch_ms": amounts, "write_ns": amounts, "remote_bytes": amounts}),
    ),
    tagged("executor_added", {"executor": st.just("1"), "host": words, "cores": amounts, "time_ms": times}),
    tagged("executor_removed", {"executor": st.sampled_from(("1", "2", "")), "reason": words, "time_ms": times}),
    tagged("application_end", {"time_ms": times}),
    # of another version, and nothing at all
    st.sampled_from(({"type": "stage_speculated", "stage": 1}, {"type": "job_end"}, {}, [], "job_end", None, 7)),
)
messages = st.one_of(
    st.fixed_dictionaries({"events": st.lists(events, min_size=1, max_size=8)}),
    st.fixed_dictionaries({"snapshot": st.lists(started | submitted, max_size=4), "lost": st.integers(0, 5)}),
    st.just("restart"),
)


class Driver:
    """A driver that numbers its events as a bridge does, and skips numbers where it has lost events."""

    def __init__(self, cluster: FakeCluster, application_id: str) -> None:
        self.cluster, self.application_id, self.next = cluster, application_id, 1

    def say(self, said: dict[str, Any]) -> None:
        message: dict[str, Any] = {"instance": "driver", "wanted": {"0": {}}}
        if "snapshot" in said:
            self.next += said["lost"]
            message |= {"snapshot": said["snapshot"], "next_seq": self.next}
        else:
            message["events"] = [{"seq": self.next + i, "event": event} for i, event in enumerate(said["events"])]
            self.next += len(said["events"])
        sync = msgspec.json.decode(json.dumps(message), type=DriverSync)
        reply = answered(self.cluster.state.drivers.sync(self.application_id, sync, self.cluster.clock))
        assert reply.acknowledged == self.next - 1


@contextmanager
def cluster_of_one() -> Iterator[tuple[FakeCluster, Driver]]:
    """Run a cluster with a profile of its application, which has an executor and a deadline."""
    with tempfile.TemporaryDirectory() as folder:
        cluster = FakeCluster(Path(folder))
        cluster.state.profiles.add(taught())
        cluster.worker("w1")
        application_id = cluster.register(conf={"spark.pace.deadline": "1h"})
        yield cluster, Driver(cluster, application_id)
        cluster.state.store.close()


def known(application: Application) -> dict[str, Any]:
    """Return all that a driver's events have made of it."""
    run = application.run
    return {
        "acknowledged": application.stream.acknowledged,
        "jobs": {number: repr(job) for number, job in run.jobs.items()},
        "stages": {key: repr(stage) for key, stage in run.attempts.items()},
        "active": [stage.key for stage in run.active_stages()],
        "complete": run.complete,
        "ended": (run.ended_ms, application.record.ended_s, application.record.end_reason),
        "tasks": (application.stream.first_task_ms, application.stream.last_task_ms, run.tasks_failed),
        "actions": repr(application.actions.by_key),
        "gone": [e.record.gone for e in application.executors.values() if e.record.gone is not None],
        "goals": sorted(application.plan.goals.keys() | application.plan.awaiting_goals.keys()),
        "faults": application.faults > 0,
    }


@settings(deadline=None, max_examples=30)
@given(st.lists(messages, max_size=8))
def test_after_a_restart_the_master_knows_what_it_knew(said: list[Any]) -> None:
    with cluster_of_one() as (cluster, driver):
        for one in [*said, "restart"]:
            if one != "restart":
                driver.say(one)
                continue
            before = known(cluster.state.applications[driver.application_id])
            cluster.state.store.close()
            cluster.restart()
            assert known(cluster.state.applications[driver.application_id]) == before


@settings(deadline=None, max_examples=30)
@given(st.lists(messages, max_size=8))
def test_whatever_a_driver_says_another_application_runs_and_its_record_is_written(said: list[Any]) -> None:
    with cluster_of_one() as (cluster, driver):
        other = cluster.register(instance="other", name="other", conf={"spark.pace.priority": "low"})
        for one in said:
            if one != "restart":
                driver.say(one)
            else:
                cluster.state.store.close()
                cluster.restart()
            cluster.now_s += 1
            reply = cluster.worker("w1", report(driver.application_id, "1"), report(other, "1"))
            assert other in {plan.application_id for plan in reply.desired.applications}
            cluster.tick()
            assert {view.application_id for view in answered(cluster.state.commands.views(cluster.now_s))} >= {other}
        cluster.driver(other, *one_stage_run(1000), ended=True)
        cluster.worker("w1")
        cluster.tick()
        assert cluster.view(other).finished
        assert not cluster.state.parts.failures
