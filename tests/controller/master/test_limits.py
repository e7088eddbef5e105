"""An application that reports or asks for more than is kept: it goes on, and its neighbour as before."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.agent.core.accounting import Account
from controller.agent.executors.known import read_progress
from controller.master.core import drivers, event_stream, executors
from controller.master.core.application import Application
from controller.master.storage import recorder
from controller.wire import limits
from controller.wire.command import Change, PlanRequest
from controller.wire.driver import MOST_CREDENTIALS, DriverSync, ExecutorWish, Registration
from experiments.bench.overhead.made_up import sequenced
from stage_model.errors import BadInput, TooMuch
from stage_model.history.events import AnyEvent, JobEnd, JobStart, StageCompleted, StageInfo, StageSubmitted
from stage_model.plan import ApplicationPlan
from stage_model.progress import MAX_STAGES
from tests.fakes.cluster import FakeCluster, one_stage_run, registration, report, sample


def submitted(stage: int, **more: object) -> StageSubmitted:
    return StageSubmitted(info=StageInfo(stage=stage, name="s", tasks=1, **more), time_ms=1000)  # type: ignore[arg-type]


def many_attempts() -> Iterator[AnyEvent]:
    for stage in range(event_stream.STAGES + 1):
        yield submitted(stage)
        yield StageCompleted(stage=stage, attempt=0, time_ms=1000)


def many_jobs() -> Iterator[AnyEvent]:
    for job in range(event_stream.STAGES + 1):
        yield JobStart(job=job, time_ms=1000)
        yield JobEnd(job=job, time_ms=1000, ok=True)


def many_at_a_time() -> Iterator[AnyEvent]:
    return map(submitted, range(event_stream.ACTIVE + 1))


def many_parents() -> Iterator[AnyEvent]:
    yield submitted(1, parents=tuple(range(2, event_stream.SIZE + 2)))


def many_bytes() -> Iterator[AnyEvent]:
    for job in range(20):
        yield JobStart(job=job, time_ms=1000, properties={"spark.job.description": "x" * 1000})


def tell_all(cluster: FakeCluster, application_id: str, events: Iterator[AnyEvent]) -> int:
    """Send events in messages of 2,000, as a bridge does; return their number."""
    listed = list(events)
    for begin in range(0, len(listed), 2000):
        reply = cluster.driver(application_id, *listed[begin : begin + 2000], first=begin + 1)
        assert reply.acknowledged == min(begin + 2000, len(listed))
        assert reply.stop is None
    return len(listed)


def plans(cluster: FakeCluster) -> dict[str, ApplicationPlan]:
    return {plan.application_id: plan for plan in cluster.worker("w1").desired.applications}


@pytest.mark.parametrize("flood", [many_attempts, many_jobs, many_at_a_time, many_parents, many_bytes])
def test_an_application_that_tells_too_much_goes_on_without_a_deadline(
    cluster: FakeCluster, flood: Callable[[], Iterator[AnyEvent]], monkeypatch: pytest.MonkeyPatch
) -> None:
    if flood is many_bytes:
        monkeypatch.setattr(limits, "EVENT_BYTES", 10_000)
    cluster.worker("w1")
    mine, neighbour = (cluster.register(name=name, conf={"spark.pace.deadline": "600s"}) for name in ("mine", "neighbour"))
    cluster.driver(neighbour, *one_stage_run(1000)[:3])
    number = tell_all(cluster, mine, flood())

    def check() -> Application:
        application = cluster.state.applications[mine]
        assert application.stream.overflow
        assert len([line for line in application.notices.lines if application.stream.overflow in line]) == 1
        plan, other = plans(cluster)[mine], plans(cluster)[neighbour]
        assert (plan.deadline_s, plan.known, plan.stages) == (None, False, ())
        assert (other.deadline_s, len(other.stages)) == (600.0, 1)
        assert not application.ended
        assert [one.record.executor_id for one in application.live_executors()] == ["1"]
        return application

    application = check()
    kept, stored = application.run.size, len(cluster.state.store.events(mine))
    assert cluster.driver(mine, submitted(10**6), first=number + 1).acknowledged == number + 1, "its bridge need not keep it"
    snapshot = tuple(one.event for one in sequenced(tuple(many_at_a_time()), 1))
    assert cluster.driver(mine, snapshot=snapshot, next_seq=number + 9).acknowledged == number + 8
    assert (application.run.size, len(cluster.state.store.events(mine))) == (kept, stored), "nothing more is kept"
    cluster.restart()
    assert (check().stream.overflow, check().run.size) == (application.stream.overflow, kept), "a restart finds the same"
    cluster.driver(mine, snapshot=(), next_seq=number + 9, ended=True)
    assert cluster.state.applications[mine].record.end_reason == ""


def test_stages_that_a_progress_file_invents_are_not_kept(cluster: FakeCluster, tmp_path: Path, application_id: str) -> None:
    cluster.worker("w1")
    cluster.driver(application_id, *one_stage_run(1000)[:2])
    executor = cluster.state.applications[application_id].executors["1"]
    account, number, rounds = Account(1), 0, 40
    for second in range(rounds):
        named = [0, *range(number + 1, number + MAX_STAGES)]
        number += MAX_STAGES
        stages = [{"stage": stage, "attempt": 0, "running": 0, "done": second + 1} for stage in named]
        progress = {"schema": 1, "executor": "1", "sequence": second, "stages": stages}
        (tmp_path / "progress.json").write_bytes(msgspec.json.encode(progress))
        account = account.observed(float(second), 0.9 * second, 0.5, read_progress(tmp_path, "1", os.getuid()))
        cluster.now_s += 1
        cluster.worker("w1", report(application_id, "1", stages=tuple(account.uses())))
    [kept] = executor.record.uses.values()
    assert number > 4 * limits.STAGES_UNREPORTED, "the executor invented more stages than may be kept"
    assert len(kept) <= limits.STAGES_UNREPORTED + 1
    assert kept["0.0"].done == rounds, "all is kept of the stage that its driver reported"
    assert len(msgspec.json.encode(executor.record)) < 250 * limits.STAGES_UNREPORTED


def test_one_user_does_not_fill_the_list_of_applications(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(drivers, "OF_A_USER", 3)
    cluster.worker("w1")
    first = [cluster.register(instance=f"driver {number}") for number in range(3)]
    with pytest.raises(TooMuch, match=rf"3 .* uid {os.getuid()}"):
        cluster.register(instance="driver 3")
    monkeypatch.setattr(drivers, "APPLICATIONS", 2)
    with pytest.raises(TooMuch, match="3 applications"):
        cluster.register(instance="driver 3")
    monkeypatch.setattr(drivers, "APPLICATIONS", 3)
    cluster.kill(first[0])
    cluster.register(instance="driver 3")


def test_executors_one_after_the_other_have_an_end(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(executors, "EXECUTORS", 2)
    cluster.worker("w1")
    application_id = cluster.register()
    for executor_id in ("1", "2"):
        cluster.worker("w1", report(application_id, executor_id))
        cluster.exits(application_id, executor_id, exit_code=0)
    assert cluster.worker("w1").desired.executors == ()
    application = cluster.state.applications[application_id]
    assert ("2 executors" in application.placement.waiting, application.ended) == (True, False)


def test_executors_that_never_were_cannot_be_killed(cluster: FakeCluster, application_id: str) -> None:
    cluster.driver(application_id, killed=("1", *(f"invented {number}" for number in range(100))))
    assert cluster.state.applications[application_id].placement.unwanted == {"1"}


def test_lines_for_a_terminal_have_an_end(cluster: FakeCluster, application_id: str) -> None:
    jobs = [JobStart(job=job, time_ms=1000, properties={"spark.pace.deadline": f"{job} " + "x" * 2000}) for job in range(300)]
    reply = cluster.driver(application_id, *jobs)
    assert cluster.driver(application_id).notices == ()
    notices = cluster.state.applications[application_id].notices.lines
    assert len(notices) == limits.NOTICES + 1
    assert max(map(len, notices)) <= limits.NOTICE_LENGTH
    assert "200" in reply.notices[-1]


def test_a_runs_table_has_an_end(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, application_id: str) -> None:
    rows = [sample(application_id, "1", float(number)) for number in range(4)]
    cluster.worker("w1", report(application_id, "1"), samples=tuple(rows[:2]))
    table = cluster.path / "runs" / application_id / "samples.csv"
    monkeypatch.setattr(recorder, "SAMPLES_BYTES", table.stat().st_size - 1)
    before = table.read_bytes()
    answer = cluster.worker("w1", report(application_id, "1"), samples=tuple(rows[2:]), sample_seq=2)
    assert (table.read_bytes(), answer.samples_acknowledged) == (before, 4)
    assert any("recorded" in line for line in cluster.state.applications[application_id].notices.lines)


def test_changes_have_an_end(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster.worker("w1")
    application = cluster.registered()
    application_id = application.id
    cluster.change(application_id, deadline_s=1000.0)
    application.record.changes *= limits.CHANGES
    with pytest.raises(BadInput, match="1000"):
        cluster.change(application_id, deadline_s=1001.0)


LONG = "x" * 1001


@pytest.mark.parametrize(
    ("kind", "field", "value"),
    [
        (Registration, "name", LONG),
        (Registration, "host", LONG),
        (Registration, "jars_dir", 5 * LONG),
        (Registration, "conf", {str(number): "" for number in range(5001)}),
        (Registration, "data", {str(number): 1 for number in range(10_001)}),
        (Registration, "wanted", {str(number): {} for number in range(1001)}),
        (Registration, "credentials", base64.b64encode(bytes(MOST_CREDENTIALS + 1)).decode()),
        (Registration, "age_s", 1e308),
        (DriverSync, "wanted", {str(number): {} for number in range(1001)}),
        (DriverSync, "wanted", {"0": {"count": 2**31}}),
        (DriverSync, "killed", [str(number) for number in range(10_001)]),
        (DriverSync, "killed", [LONG]),
        *((DriverSync, "serves", port) for port in (0, 65536, -1, "15002", 1.5)),
        (DriverSync, "events", [{"seq": 1, "event": 0}] * 10_001),
        (DriverSync, "snapshot", [0] * 10_001),
        (PlanRequest, "executors", -1),
        (PlanRequest, "deadline_s", 1e308),
        (Change, "deadline_s", 1e308),
        (Change, "labels", LONG),
    ],
)
def test_what_no_job_needs_is_refused_where_it_is_read(kind: Any, field: str, value: object) -> None:
    good = {"Registration": msgspec.to_builtins(registration()), "DriverSync": {"instance": "i"}}.get(kind.__name__, {})
    msgspec.json.decode(msgspec.json.encode(good), type=kind)
    with pytest.raises(msgspec.ValidationError, match=rf"\$\.{field}"):
        msgspec.json.decode(msgspec.json.encode({**good, field: value}), type=kind)


def test_wishes_are_for_few_kinds_of_executors(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    application_id = cluster.register(wanted={str(number): ExecutorWish() for number in range(64)})
    assert len(list(cluster.state.applications[application_id].live_executors())) <= 64
