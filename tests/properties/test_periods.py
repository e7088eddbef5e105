"""Periods of an agent, whatever the plans and the progress: quotas stay within the worker and above the floor, nothing is
written for executors that are only watched, and the same look in the same state gives the same orders and changes neither."""

from __future__ import annotations

import math
import tempfile
from copy import deepcopy
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from controller.agent.core.step import ExecutorInput, LoopState, Snapshot, TimedPlan, step
from controller.agent.open_quotas import open_all
from controller.runtime.base import ExecutorKey, Observed
from stage_model.laws import LAWS
from stage_model.plan import ApplicationPlan, StagePlan
from stage_model.progress import SCHEMA, Progress, StageProgress
from stage_model.settings import QuotaSettings
from tests.fakes.worker import FakeWorker, spec

FLOOR = 0.1
QUANTUM = 0.05
cores = st.floats(0, 50)


@st.composite
def stages(draw: st.DrawFn) -> StagePlan:
    return StagePlan(
        stage=draw(st.integers(0, 2)),
        attempt=0,
        tasks=draw(st.integers(0, 50)),
        work_core_s=draw(st.floats(0, 500)),
        records=draw(st.none() | st.floats(0, 1e6)),
        task_cv=draw(st.floats(0, 2)),
        fixed_s=draw(st.floats(0, 9)),
        left_s=draw(st.none() | st.floats(-9, 99)),
        length_s=draw(st.none() | st.floats(0, 99)),
        initial_cores=draw(st.none() | st.floats(0.05, 2)),
        elsewhere_running=draw(st.integers(0, 9)),
        elsewhere_done=draw(st.integers(0, 60)),
        elsewhere_cpu_core_s=draw(cores),
        elsewhere_speed=draw(st.floats(0, 4)),
    )


@st.composite
def plans(draw: st.DrawFn, application: str) -> ApplicationPlan:
    deadline_s = draw(st.none() | st.floats(1, 500))
    return ApplicationPlan(
        application_id=application,
        name=application,
        law=draw(st.sampled_from(list(LAWS))),
        priority=draw(st.sampled_from([0, 50, 100])),
        known=draw(st.booleans()),
        deadline_s=deadline_s,
        left_s=None if deadline_s is None else draw(st.floats(-50, 500)),
        stages=tuple(draw(st.lists(stages(), max_size=2, unique_by=lambda s: s.stage))),
        future_busy=tuple(draw(st.lists(cores, max_size=4))),
        future_fixed_s=draw(st.floats(0, 50)),
        slots=draw(st.integers(1, 12)),
        executors=draw(st.integers(1, 3)),
        cores=draw(st.floats(0.5, 8)),
        speed_limit=draw(st.sampled_from([0.5, 1.0])),
        pace=draw(st.floats(0.8, 2.0)),
        debt_core_s=draw(cores),
    )


progress = st.builds(
    StageProgress,
    stage=st.integers(0, 2),
    attempt=st.just(0),
    running=st.integers(0, 5),
    done=st.integers(0, 70),
    records_done=st.integers(0, 10**6),
    records_running=st.integers(0, 10**6),
)


@settings(max_examples=60)
@given(st.data(), st.floats(0.5, 8), st.integers(1, 5))
def test_the_sum_of_quotas_never_exceeds_the_worker_and_every_executor_keeps_its_floor(
    data: st.DataObject, capacity: float, applications: int
) -> None:
    names = [f"app-{n}" for n in range(applications)]
    with tempfile.TemporaryDirectory() as folder:
        worker = FakeWorker(Path(folder), cores=capacity)
        whole = math.floor(capacity / QUANTUM + 1e-9) * QUANTUM
        wanted = names[: data.draw(st.integers(1, applications))]
        for _ in range(data.draw(st.integers(2, 6))):
            # applications come, plans change, starts are slow, executors end
            wanted = names[: max(len(wanted), data.draw(st.integers(1, applications)))]
            worker.want(
                [spec(name, slots=data.draw(st.integers(1, 4))) for name in wanted],
                [data.draw(plans(name)) for name in wanted if data.draw(st.booleans())],
            )
            for key in worker.running():
                if data.draw(st.booleans()):
                    worker.progress(key, *data.draw(st.lists(progress, max_size=2)))
            worker.tick(data.draw(st.floats(0.05, 30)), work=data.draw(st.booleans()))
            if data.draw(st.integers(0, 9)) == 0:
                worker.host.exit(ExecutorKey(data.draw(st.sampled_from(wanted)), "1"), 1)
            quotas = worker.quotas()
            assert math.fsum(quotas.values()) <= whole + 1e-6
            if FLOOR * len(wanted) <= whole:
                assert all(cores >= FLOOR - 1e-9 for cores in quotas.values())


WATCHED, PACED = ExecutorKey("watched", "1"), ExecutorKey("paced", "1")


def written(worker: FakeWorker) -> object:
    """Return all that could have been written for the watched executor."""
    seen = worker.runtime.observe()[WATCHED]
    orders = {path: path.read_bytes() for path in worker.site.orders_dir(WATCHED).rglob("*") if path.is_file()}
    return seen.running, seen.quota_cores, seen.memory_limit_bytes, orders


@settings(max_examples=60)
@given(st.data(), st.floats(0.5, 8), st.none() | st.integers(64, 2000))
def test_nothing_is_written_for_a_watched_executor_whatever_the_state(
    data: st.DataObject, capacity: float, floor_mb: int | None
) -> None:
    slots = data.draw(st.integers(1, 4))
    specs = [
        spec("watched", slots=slots, watched=True, off_heap_floor_mb=floor_mb),
        spec("paced", off_heap_floor_mb=floor_mb and 64),
    ]
    with tempfile.TemporaryDirectory() as folder:
        worker = FakeWorker(Path(folder), cores=capacity)
        worker.want(specs[:1])
        worker.tick()
        before = written(worker)
        assert worker.quotas() == {WATCHED: capacity}
        for _ in range(data.draw(st.integers(2, 6))):
            if data.draw(st.booleans()):
                worker.restart()
            if data.draw(st.booleans()):  # else the master is away
                known = [name for name in ("watched", "paced") if data.draw(st.booleans())]
                budgets = {key.text: data.draw(st.integers(0, 5000)) for key in (WATCHED, PACED)}
                worker.want(specs, [data.draw(plans(name)) for name in known], budgets_mb=budgets)
            worker.host.set_memory(WATCHED, data.draw(st.integers(0, 2**32)))
            worker.progress(WATCHED, *data.draw(st.lists(progress, max_size=2)))
            worker.over_limit = {"watched": "it keeps too much"} if data.draw(st.booleans()) else {}
            report = worker.tick(data.draw(st.floats(0.05, 30)))
            assert not any(sample.ordered for sample in report.samples if sample.application_id == "watched")
            assert written(worker) == before
        assert open_all(worker.launcher.runtime, capacity / 2)
        assert written(worker) == before
        assert worker.quotas().get(PACED) in (None, capacity / 2)


# ---------------------------------------------------------------- a period by itself


@st.composite
def looks(draw: st.DrawFn, number: int, now_s: float) -> Snapshot:
    executors, timed = {}, {}
    for name in (f"app-{n}" for n in range(number)):
        key = ExecutorKey(name, "1")
        observed = Observed(key, draw(st.booleans()), draw(st.none() | st.floats(0.1, 4)), draw(st.floats(0, 50)), 0)
        reported = Progress(schema=SCHEMA, executor="1", sequence=1, stages=tuple(draw(st.lists(progress, max_size=3))))
        executors[key] = ExecutorInput(
            draw(st.integers(1, 4)),
            draw(st.none() | st.just(observed)),
            draw(st.none() | st.just(reported)),
            draw(st.sampled_from([0.1, 0.5])),
            draw(st.booleans()),
        )
        if draw(st.booleans()):
            timed[name] = TimedPlan(draw(plans(name)), now_s - draw(st.floats(0, 5)))
    return Snapshot(draw(st.floats(0.5, 8)), QuotaSettings(), executors, timed)


@settings(max_examples=60)
@given(st.data(), st.integers(1, 4))
def test_a_step_changes_nothing_and_repeats_itself(data: st.DataObject, number: int) -> None:
    state, now_s = LoopState(), 0.0
    for _ in range(data.draw(st.integers(1, 5))):
        now_s += data.draw(st.floats(0.05, 5))
        look = data.draw(looks(number, now_s))
        before = deepcopy((look, state))
        first = step(look, state, now_s)
        assert (look, state) == before
        assert step(look, state, now_s) == first
        assert first[0].troubles == {}
        state = first[1]
