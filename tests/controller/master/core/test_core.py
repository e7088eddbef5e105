"""The core by itself: events and the time go in, effects come out as plain data, and nothing outside is touched."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from msgspec import structs

from controller.master.core.application import Application
from controller.master.core.application_record import ApplicationRecord
from controller.master.core.arrival import Arrival, LookedUp, make_application, new_record
from controller.master.core.core import ClusterOptions, Core
from controller.master.core.driver_events import take, unstored
from controller.master.core.effects import (
    DropDetails,
    Effect,
    StoreApplication,
    StoreExecutor,
    StoreMeta,
    Wake,
    WriteRecord,
    WriteSamples,
)
from controller.master.core.life import LifeState
from controller.master.core.registry import MasterLife
from controller.wire.driver import DriverSync, ExecutorWish
from controller.wire.states import Outcome
from controller.wire.worker import ExecutorReport, WorkerInfo, WorkerReply, WorkerSync
from experiments.bench.overhead.made_up import sequenced
from stage_model.errors import NotStored
from tests.fakes.cluster import one_stage_run, registration, report, sample

LIFE = MasterLife(cluster_id="c", generation=1, boot_id="boot", pid_namespace="pid:[1]", begun_s=0.0)
FOUND = LookedUp("app", None, None, UTC)


@pytest.fixture
def core() -> Core:
    """Provide the core of a master with a worker of one core."""
    made = Core(LIFE, ClusterOptions(), lambda: 0.5, "/runs")
    _, effects = agent(made, 1.0)
    assert StoreMeta("workers") in effects
    return made


def record(core: Core, now_s: float) -> ApplicationRecord:
    local = datetime(2026, 11, 26, tzinfo=UTC)
    arrival = Arrival("pace-20261126-000000-000001", "hash", 1_795_651_200.0, local, now_s)
    asked = registration(boot_id="boot", pid_namespace="pid:[1]", age_s=0.0)
    return new_record(structs.replace(asked, credentials=None), arrival, core.registry.life.boot_id, "forecast")


def admit(core: Core) -> tuple[Application, list[Effect]]:
    application = make_application(record(core, 2.0), FOUND, {}, 2.0, 2.0)
    assert core.admission.check(application, 2.0) is None, "no deadline is to be judged"
    core.drivers.add(application)
    return application, core.follow_up(2.0)


def agent(core: Core, now_s: float, *reports: ExecutorReport, **more: Any) -> tuple[WorkerReply, list[Effect]]:
    info = WorkerInfo(worker_id="w1", host="h", cores=1.0, memory_mb=8192, runtime="fake", pid=1, boot_id="boot")
    sync = WorkerSync(instance="life", cluster_id="c", generation=1, worker=info, executors=reports, **more)
    core.agents.take("w1", sync, now_s)
    effects = core.follow_up(now_s)
    return core.agents.reply("w1", now_s), effects


def kinds(effects: list[Effect]) -> set[type]:
    return {type(effect) for effect in effects}


def test_an_application_gets_an_executor_and_what_is_to_be_stored_and_written_is_said_once(core: Core) -> None:
    application, effects = admit(core)
    assert effects[-3:] == [StoreApplication(application.id), StoreExecutor(application.id, "1"), Wake(frozenset({"w1"}))]
    assert core.take_effects() == core.follow_up(2.0) == []
    reported = report(application.id, "1")
    reply, effects = agent(core, 3.0, reported, samples=(sample(application.id, "1", 1.0),))
    assert ([spec.executor_id for spec in reply.desired.executors], reply.desired.cluster_id) == (["1"], "c")
    [written] = [effect for effect in effects if isinstance(effect, WriteSamples)]
    assert (written.application_id, [one.time_s for one in written.samples]) == (application.id, [1.0])


def test_events_that_are_not_stored_are_taken_in_and_not_acknowledged(core: Core) -> None:
    application, _ = admit(core)
    sync = DriverSync(instance="driver", wanted={"0": ExecutorWish()}, events=sequenced(one_stage_run(1000)[:2], 1))
    new = unstored(application, sync)
    assert new is not None
    take(application, sync, None, core.registry, 3.0)
    assert (application.stream.acknowledged, application.stream.taken, list(application.run.jobs)) == (0, 2, [0])
    assert unstored(application, sync) == new, "the driver sends them once more"
    take(application, sync, new, core.registry, 4.0)
    assert (application.stream.acknowledged, application.stream.taken) == (2, 2)
    assert unstored(application, sync) is None


def test_a_driver_is_dead_only_if_the_shell_has_looked_for_it(core: Core) -> None:
    application, _ = admit(core)
    assert core.lifecycle.silent(3.0) == []
    assert core.lifecycle.silent(9.0) == [application]
    core.lifecycle.turns((), 9.0)
    assert not application.ended
    core.lifecycle.turns({application.id}, 9.0)
    assert application.record.cut_off is Outcome.DRIVER_DIED


@pytest.fixture
def ended(core: Core) -> Application:
    """Provide an application whose record is to be written."""
    application, _ = admit(core)
    core.commands.kill(application.id, 3.0)
    core.follow_up(3.0)
    core.lifecycle.turns({application.id}, 30.0)
    return application


def test_a_record_is_asked_for_details_are_dropped_then_the_application_is_finished(core: Core, ended: Application) -> None:
    [asked] = [effect for effect in core.follow_up(30.0) if isinstance(effect, WriteRecord)]
    assert asked.ending.summary["outcome"] is Outcome.KILLED
    core.lifecycle.turns((), 31.0)
    assert WriteRecord not in kinds(core.follow_up(31.0)), "it is being written"
    core.lifecycle.records.written(ended, None, ["old"])
    assert core.take_effects() == [DropDetails(ended.id, ["old"])]
    assert not ended.finished
    core.registry.finished(ended, ["old"])
    core.lifecycle.records.over(ended)
    assert ended.life.state is LifeState.FINISHED


@pytest.mark.parametrize("passes", [True, False])
def test_a_record_is_tried_again_and_only_a_full_disk_is_waited_for(core: Core, ended: Application, passes: bool) -> None:
    now_s, tries, effects = 30.0, 0, list[Effect]()
    for _ in range(40):
        core.lifecycle.turns((), now_s)
        effects = core.follow_up(now_s)
        if WriteRecord in kinds(effects):
            tries += 1
            core.lifecycle.records.failed(ended, NotStored("the disk is full"), now_s, passes=passes)
            effects = core.take_effects()
        if DropDetails in kinds(effects):
            break
        now_s += 61
    assert (tries, DropDetails in kinds(effects)) == ((40, False) if passes else (20, True))
    assert bool(ended.record.unrecorded) is not passes
