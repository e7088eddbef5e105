"""The fewest workers are asked for, and never more than the limits allow, however a deadline and a cluster are."""

from __future__ import annotations

import math
from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from controller.master.core.capacity import Capacity, capacity
from controller.master.core.feasibility import feasibility, judged_with, make_offer
from controller.wire.command import PlanReply
from controller.wire.worker import WorkerInfo
from placement.growth import Growth, Limits, WorkerType
from stage_model.forecast.estimate import estimate
from stage_model.forecast.promises import Claim, Promised
from stage_model.forecast.virtual_time import Forecast
from stage_model.history.profile import profile
from stage_model.units import NORMAL_PRIORITY
from tests.fakes.records import run, stage

STAGES = st.lists(st.tuples(st.integers(1, 12), st.floats(1, 100)), min_size=1, max_size=3)
"""Tasks and core-seconds."""
LIMITS = st.builds(Limits, workers=st.integers(0, 5), cores=st.sampled_from((math.inf, 1.0, 3.0)))
KINDS = st.builds(WorkerType, st.sampled_from((0.5, 1.0, 2.0)), st.just(1024))
CLAIMS = st.lists(st.tuples(st.floats(1, 50), st.floats(1, 100)), max_size=2)
"""Core-seconds of others, in tasks for one core, and the seconds that they have left."""


def worker(cores: float) -> WorkerInfo:
    return WorkerInfo(worker_id="w", host="h", cores=cores, memory_mb=1024, runtime="r", pid=1, boot_id="b")


@given(STAGES, LIMITS, KINDS, CLAIMS, st.floats(0, 30), st.floats(0.1, 0.9), st.none() | st.integers(1, 3))
def test_the_asked_workers_are_the_least_and_within_the_limits(
    stages: list[tuple[int, float]],
    limits: Limits,
    kind: WorkerType,
    claims: list[tuple[float, float]],
    start_s: float,
    share: float,
    executors: int | None,
) -> None:
    records = [stage(f"s{n}", tasks=tasks, work_core_s=work) for n, (tasks, work) in enumerate(stages)]
    what = estimate(profile("k", [run("r", 1, *records)]))
    there = [worker(1.0)]
    promised = Promised([Claim(Forecast((work,)), left_s, NORMAL_PRIORITY) for work, left_s in claims], 1.0)

    def grown(further: Sequence[WorkerInfo]) -> Capacity:
        return capacity([*there, *further], lambda info: math.ceil(info.cores), executors)

    def judge(deadline_s: float, most: Capacity, promised: Promised) -> PlanReply:
        return feasibility(what, deadline_s, most, promised=promised)

    alone_s = feasibility(what, None, grown(())).least_deadline_s
    assert alone_s is not None
    deadline_s = share * alone_s
    refused = judge(deadline_s, grown(()), promised)
    offer = make_offer([kind] * Growth(limits).room_for(kind), kind, start_s, "no more may be", grown)
    assert limits.hold(offer.kinds)
    assert executors is None or len(offer.kinds) < executors

    def kept(number: int) -> bool:
        """Judge the deadline by itself with that many further workers."""
        if number == 0:
            return refused.feasible is True
        most, cores = grown([worker(kind.cores)] * number), 1.0 + number * kind.cores
        return judge(deadline_s - start_s, most, Promised(promised.claims, cores)).feasible is True

    reply, number = judged_with(offer, judge, deadline_s, promised, refused)
    assert number <= len(offer.kinds)
    assert (reply.feasible, reply.further_workers) == (number > 0, number)
    if number:
        assert kept(number)
        assert not kept(number - 1)
    else:
        assert not kept(len(offer.kinds))
        assert "accepted: " in reply.reason
