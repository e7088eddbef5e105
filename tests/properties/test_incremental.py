"""The state that the master keeps up to date equals one that is made from scratch, whatever happens: the queue, the workers
with the executors on them, their needs of memory, the requests for further executors, the plans. Agents learn of each change
at once, and each is stored."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st
from msgspec import structs

from controller.machine.proc import boot_id
from controller.master.core import executors, planning, remaining
from controller.master.core.application import Application
from controller.master.core.placing import Placing
from controller.master.core.workers import STALE_S
from controller.wire.command import Change
from controller.wire.driver import ExecutorWish
from controller.wire.states import ExecutorState
from controller.wire.worker import ExecutorReport, WorkerInfo, WorkerReply
from master_memory.split import Need
from placement.fleet import Fleet
from placement.topology import Topology, parse_topology
from placement.worker import WorkerState
from stage_model.errors import BadInput, InfeasibleDeadline
from stage_model.history.events import AnyEvent, ExecutorRemoved, JobEnd, JobStart, StageInfo
from tests.fakes.cluster import answered, report, use
from tests.fakes.placed import Scene
from tests.properties.test_plan_cache import EVENTS, PROFILE, STAGES, TASKS

WORKERS = ("w1", "w2", "w3")
OFFERS: dict[str, dict[str, Any]] = {
    "w1": {"memory_mb": 3000, "host": "10.0.0.1"},
    "w2": {"cores": 2.0, "memory_mb": 14000, "host": "10.0.0.2", "resources": {"gpu": 1}, "labels": {"zone": "a"}},
}
GPU = {"placement_resources": "gpu=1", "priority": "low"}
NEAR = {"placement_prefer": "10.0.0.1", "locality_wait": "20s"}
NIGHTLY = {"profile": PROFILE.key, "pipeline": "nightly", "pipeline_by": "10min"}
SUBMISSION = "0a1b2c3d-0000-4000-8000-000000000000"


@dataclass(slots=True)
class Driver:
    """The numbers of the events that a driver has sent, of the next one of its run, and of its last job apart from the
    run."""

    sent: int = 0
    next: int = 0
    job: int = 1


class World(Scene):
    """A master to which things happen; `which` is the place of an application among the applications that have not ended."""

    def __init__(self, path: Path) -> None:
        self.drivers: dict[str, Driver] = {}
        self.number = 0
        super().__init__(path, **OFFERS)
        self.state.profiles.add(PROFILE)
        self.cluster.keep_runs = 1
        self.restarts()
        self.sync()
        paced, zoned = {"profile": PROFILE.key, "deadline": "1h"}, {"placement_labels": "zone=b"}
        for count, conf in ((2, {}), (None, paced), (1, GPU), (1, zoned), (1, zoned), (1, NEAR)):
            self.registers(count, None, conf)
        self.sync()

    def living(self) -> list[Application]:
        return [one for one in self.state.applications.values() if not one.ended]

    def one(self, which: int) -> Application | None:
        living = self.living()
        return living[which % len(living)] if living else None

    # ------------------------------------------------------------------ events

    def registers(self, count: int | None, after: int | None, conf: dict[str, str]) -> None:
        self.number += 1
        first = None if after is None else self.one(after)
        with suppress(BadInput, InfeasibleDeadline):
            later = {} if first is None else {"after": first.name}
            self.register(f"app{self.number}", count, **conf, **later)

    def wants(self, which: int, count: int | None, kills: bool) -> None:
        if (one := self.one(which)) is not None:
            live = [e.record.executor_id for e in one.live_executors()]
            self.say(one, wanted={"0": ExecutorWish(count=count)}, killed=tuple(live[:1]) if kills else ())

    def runs(self, which: int, events: int) -> None:
        if (one := self.one(which)) is not None:
            driver = self.driver(one)
            self.say(one, *EVENTS[driver.next : driver.next + events])
            driver.next += events

    def has_a_query(self, which: int, priority: str, ends: bool) -> None:
        """Let a job with a deadline and a priority of its own begin, or end."""
        if (one := self.one(which)) is not None:
            driver = self.driver(one)
            driver.job += not ends
            stage = StageInfo(stage=STAGES + driver.job, name="query at app.py:2", tasks=1)
            own = {"spark.pace.deadline": "50s", "spark.pace.priority": priority}
            begins = JobStart(job=driver.job, time_ms=0, stages=(stage,), properties=own)
            self.say(one, JobEnd(job=driver.job, time_ms=10, ok=True) if ends else begins)

    def loses_an_executor(self, which: int) -> None:
        if (one := self.one(which)) is not None:
            live = [e.record.executor_id for e in one.live_executors()]
            self.say(one, *(ExecutorRemoved(executor=name, reason="lost", time_ms=5) for name in live[:1]))

    def was_submitted_earlier(self, which: int) -> None:
        if (one := self.one(which)) is not None:
            elapsed_ms = 1000 * one.elapsed_s(self.cluster.now_s)
            self.say(one, steady_ms=round(elapsed_ms + one.submitted_ms + 3000))

    def ends(self, which: int, code: int | None) -> None:
        if (one := self.one(which)) is not None:
            if code is None:
                self.say(one, ended=True)
            else:
                self.state.commands.driver_ended(SUBMISSION, code, self.cluster.now_s)

    def is_killed(self, which: int) -> None:
        if (one := self.one(which)) is not None:
            self.state.commands.kill(one.id, self.cluster.now_s)

    def is_killed_and_stays(self, which: int) -> None:
        """Kill an application whose executors do not end, until the master waits no longer for them."""
        self.is_killed(which)
        for _ in range(4):
            self.cluster.now_s += 5
            for name in list(self.offers):
                self.reports(name, "again", 0, None)
            self.state.tick(self.cluster.now_s)

    def is_set(self, which: int, asked: Change) -> None:
        if (one := self.one(which)) is not None:
            with suppress(BadInput, InfeasibleDeadline):
                answered(self.state.commands.change(one.id, asked, self.cluster.clock))

    def reports(self, name: str, first: str, done: int, gone: int | None) -> None:
        """Let an agent report; `first` is what has become of the first executor that should run there, or "again" where it
        shows all that ever ran there; `gone` is an application whose driver it has seen die."""
        specs = self.state.core.agents.desired(name, self.cluster.now_s).executors
        seen = use(done % STAGES, 1.0 + done, done=min(done, TASKS))
        reports = [
            report(spec.application_id, spec.executor_id, stages=(seen,), memory_limit_mb=2000, off_heap_mb=64 * done)
            for spec in specs
        ]
        if first == "again":
            reports = [report(one.id, executor.record.executor_id) for one, executor in self.state.registry.on(name)]
        elif reports and first == "missing":
            reports = reports[1:]
        elif reports:
            state = ExecutorState(first)
            reports[0] = structs.replace(reports[0], state=state, exit_code=1 if state is ExecutorState.EXITED else None)
        dead = None if gone is None else self.one(gone)
        self.tell(name, reports, () if dead is None else (dead.id,))

    def offers_now(self, name: str, memory_mb: int, zone: str) -> None:
        self.offers[name] = {"cores": 1.0, "memory_mb": memory_mb, "host": f"10.0.0.{name[1:]}", "labels": {"zone": zone}}
        self.reports(name, ExecutorState.RUNNING, 0, None)

    def is_labelled(self, name: str, zone: str | None) -> None:
        with suppress(BadInput):
            self.state.commands.label(name, {"zone": zone}, self.cluster.now_s)

    def is_located(self, known: bool) -> None:
        topology = parse_topology("10.0.0.1 rack=r1\n") if known else Topology()
        self.state.commands.locate_by(topology, self.cluster.now_s)

    def passes(self, seconds: float, agents: bool) -> None:
        self.cluster.now_s += seconds
        if agents:
            self.sync()
        else:
            self.state.tick(self.cluster.now_s)

    def restarts(self) -> None:
        self.state.store.close()
        self.cluster.restart()

    # ------------------------------------------------------------------ messages

    def driver(self, one: Application) -> Driver:
        return self.drivers.setdefault(one.id, Driver())

    def say(self, one: Application, *events: AnyEvent, **changed: Any) -> None:
        driver = self.driver(one)
        changed.setdefault("wanted", dict(one.placement.wanted))
        self.cluster.driver(one.id, *events, first=driver.sent + 1, **changed)
        driver.sent += len(events)

    def report(self, name: str, *running: tuple[str, str]) -> WorkerReply:
        return self.tell(name, [report(*key) for key in running])

    def tell(self, name: str, reports: list[ExecutorReport], gone: tuple[str, ...] = ()) -> WorkerReply:
        boot = boot_id() if name == "w2" else f"boot of {name}"  # drivers run on the machine of one worker
        offer = self.offers.setdefault(name, {"cores": 1.0, "memory_mb": 8000, "host": f"10.0.0.{name[1:]}"})
        info = WorkerInfo(worker_id=name, runtime="fake", pid=1, boot_id=boot, **offer)
        return self.cluster.sync(info, *reports, drivers_gone=gone)


places, flags = st.integers(0, 6), st.booleans()
priorities, zones = st.sampled_from(("low", "normal", "high")), st.sampled_from(("a", "b"))
counts = st.sampled_from((None, 0, 1, 2))
confs = st.one_of(
    st.just({}),
    st.builds(dict, priority=priorities),
    st.just(GPU | {"priority": "high", "placement_evict": "true"}),
    st.builds(dict, placement_labels=zones.map("zone={}".format)),
    st.builds(dict, profile=st.just(PROFILE.key), deadline=st.sampled_from(("70s", "1h"))),
    st.sampled_from((GPU, NEAR, {"placement_apart": "app1"}, {"submission": SUBMISSION})),
    st.just(NIGHTLY),
)
changes = st.builds(
    Change,
    priority=st.none() | priorities,
    deadline_s=st.none() | st.sampled_from((60.0, 900.0)),
    labels=st.none() | zones.map("zone={}".format) | st.just(""),
    force=flags,
)
states = st.sampled_from(
    (ExecutorState.RUNNING, ExecutorState.RUNNING, ExecutorState.EXITED, ExecutorState.REFUSED, "missing", "again")
)
registers = st.tuples(st.just("registers"), counts, st.none() | places, confs)
passes = st.tuples(st.just("passes"), st.sampled_from((0.0, 0.5, 1.0, STALE_S + 1, 130.0)), flags)
second = st.tuples(st.just("passes"), st.just(1.0), st.just(True))
steps = st.one_of(
    registers,
    registers,
    passes,
    second,
    second,
    second,
    st.tuples(st.just("wants"), places, counts, flags),
    st.tuples(st.just("runs"), places, st.integers(1, 6)),
    st.tuples(st.just("has_a_query"), places, priorities, flags),
    st.tuples(st.just("loses_an_executor"), places),
    st.tuples(st.just("was_submitted_earlier"), places),
    st.tuples(st.just("ends"), places, st.sampled_from((None, 0, 1))),
    st.tuples(st.just("is_killed"), places),
    st.tuples(st.just("is_killed_and_stays"), places),
    st.tuples(st.just("is_set"), places, changes),
    st.tuples(st.just("reports"), st.sampled_from(WORKERS), states, st.integers(0, 4), st.none() | places),
    st.tuples(st.just("offers_now"), st.sampled_from(WORKERS), st.sampled_from((2000, 8000)), zones),
    st.tuples(st.just("is_labelled"), st.sampled_from(WORKERS), st.none() | zones),
    st.tuples(st.just("is_located"), flags),
    st.just(("restarts",)),
)
histories = st.lists(steps, min_size=5, max_size=25)


@contextmanager
def world() -> Iterator[World]:
    with tempfile.TemporaryDirectory() as folder:
        made = World(Path(folder))
        yield made
        made.state.store.close()


# ------------------------------------------------------------------ from scratch


def from_scratch(kept: Placing, now_s: float) -> Placing:
    """Return the placing that knew nothing but the applications, the workers and the topology."""
    registry, fleet = kept.registry, kept.fleet
    made = Placing(registry, Fleet(weights=fleet.weights, draw=fleet._draw), kept.policy)
    made.states.locate_by(kept.states.topology)
    registry.changes.dirty_applications.update(registry.applications)
    registry.changes.dirty_workers.update(registry.workers.by_id)
    made.refresh(now_s)
    return made


def shown(worker: WorkerState) -> tuple[object, ...]:
    offer = (worker.cores, worker.memory_mb, worker.host, worker.labels, worker.pieces, worker.location, worker.images)
    return *offer, worker.occupants


def unmeasured(needs: list[Need]) -> list[Need]:
    """Return the needs without the use of memory, which changes with each report and which no decision looks at."""
    return [replace(need, budget_mb=None, execution_mb=0, storage_mb=0) for need in needs]


def requests(placing: Placing, application: Application) -> dict[str, object]:
    found: dict[str, object] = {}
    for name, wish in application.placement.wanted.items():
        cached = placing._cached(application, name, wish)
        found[name] = (cached.request, cached.memory.each_mb, cached.ever)
    return found


def check_kept(world: World) -> None:
    state, now_s = world.state, world.cluster.now_s
    kept, applications = state.placing, list(state.applications.values())
    kept.refresh(now_s)
    lines = {a.id: (kept.queue.position(a), kept.queue.ahead(a), kept.queue.kept(a)) for a in applications}
    asked, asks = {a.id: requests(kept, a) for a in applications}, {a.id: a.placement.requests for a in applications}
    for application in applications:
        application.placement.requests = {}
    made = from_scratch(kept, now_s)
    assert {w.worker_id: shown(w) for w in kept.fleet.ordered} == {w.worker_id: shown(w) for w in made.fleet.ordered}
    assert all(unmeasured(kept.states.needs[name]) == unmeasured(made.states.needs[name]) for name in made.states.offers)
    assert lines == {a.id: (made.queue.position(a), made.queue.ahead(a), made.queue.kept(a)) for a in applications}
    assert asked == {a.id: requests(made, a) for a in applications}
    for application in applications:
        application.placement.requests = asks[application.id]
    workers = state.workers
    there = {name: w.info for name, w in workers.by_id.items() if now_s - w.seen_s < STALE_S and not w.closing}
    assert dict(workers.fresh(now_s)) == there


def check_plans(world: World) -> None:
    now_s = world.cluster.now_s
    for application in world.living():
        most = world.state.workers.capacity(application, now_s)
        kept = planning.application_plan(application, "w1", most, now_s), remaining.promises(application, most, now_s)
        application.plan.cache = None
        made = planning.application_plan(application, "w1", most, now_s), remaining.promises(application, most, now_s)
        assert kept == made


def check_lacking(world: World) -> None:
    lacking = world.state.registry.changes.lacking
    for application in world.living():
        assert application.id in lacking or executors.has_all_executors(application)


RUNNING = ExecutorState.RUNNING
SELDOM: tuple[list[tuple[Any, ...]], ...] = (
    [("passes", STALE_S + 1, False), ("reports", "w1", RUNNING, 0, None)],
    [("is_killed", 0), ("passes", 0.0, True), ("reports", "w1", "again", 0, None)],
    [("is_killed_and_stays", 0), ("is_killed_and_stays", 0), ("passes", 1.0, False)],
    [("registers", 1, None, NIGHTLY), ("registers", 1, 6, NIGHTLY), ("passes", 1.0, False)],
    [("runs", 1, 6), ("reports", "w2", RUNNING, 0, None)],
    [("restarts",), ("is_located", True)],
)
"""Histories that are tried each time, because chance finds them seldom."""


def each_time(test: Callable[..., None]) -> Callable[..., None]:
    for history in SELDOM:
        test = example(history)(test)
    return test


@settings(deadline=None, max_examples=40)
@each_time
@given(histories)
def test_the_kept_state_is_the_one_that_would_be_made_from_scratch(history: list[tuple[Any, ...]]) -> None:
    with world() as one:
        for kind, *how in history:
            getattr(one, kind)(*how)
            check_kept(one)
            check_plans(one)
            check_lacking(one)
            assert not any(application.faults for application in one.state.applications.values())
            assert not one.state.parts.failures


def orders(world: World, worker_id: str) -> tuple[object, set[str]]:
    """Return what an agent must learn at once: the executors of its worker with what their plans rest on, and the ends. An
    end that is no longer listed is no order."""
    desired = world.state.core.agents.desired(worker_id, world.cluster.now_s)
    plans = [
        (one.application_id, one.priority, one.deadline_s, [(stage.stage, stage.attempt) for stage in one.stages])
        for one in desired.applications
    ]
    return ([spec.executor_id for spec in desired.executors], plans), {*desired.stopped, *desired.ended}


@settings(deadline=None, max_examples=30)
@each_time
@given(histories)
def test_agents_learn_of_a_change_at_once_and_it_is_stored(history: list[tuple[Any, ...]]) -> None:
    with world() as one:
        for kind, *how in history:
            of = one.state.lifecycle.version
            before = {name: (orders(one, name), of(name)) for name in one.offers}
            getattr(one, kind)(*how)
            for name, ((wanted, ends), version) in before.items() if kind != "restarts" else ():
                # an agent that has just reported has its orders in the answer
                knows = name in how or kind == "is_killed_and_stays" or (kind == "passes" and how[1])
                wanted_now, ends_now = orders(one, name)
                assert knows or (wanted_now == wanted and ends_now <= ends) or of(name) > version, (kind, how, name)
            assert not one.state.store._later
