"""A made-up cluster with as many applications as a test or a picture asks for."""

from __future__ import annotations

import math
import time
from functools import partial

from controller.wire.driver import ExecutorWish
from controller.wire.worker import ExecutorReport, OrderedQuota, Sample
from stage_model.history.events import AnyEvent
from tests.controller.ui.made_runs import ended_run
from tests.fakes.cluster import one_stage_run, report, sample, use
from tests.fakes.served import ServedPage

COUNTS = (1, 20, 200)
"""Numbers of applications with which the page is tested and drawn."""

NAMES = ("pagerank", "nightly-report", "sessions", "tpch-q5", "wordcount")
TASKS = 40
WORKERS = 4
"""Number of workers. Memory is short where 20 applications run, so that some of them wait."""

KEPT = 100
"""Number of ended runs that the master keeps."""

WISH = {"0": ExecutorWish(count=1, cores=1)}


class Job:
    """A running job: each tick it has done more, its quota moves, and now and then its law says why."""

    def __init__(self, page: ServedPage, number: int) -> None:
        self.page, self.number, self.tick, self.used = page, number, 0, 0.0
        self.ordered: float | None = None
        self.deadline_s = 100 + 10 * (number % 7)
        name = NAMES[number % len(NAMES)]
        conf = {"spark.pace.deadline": f"{self.deadline_s}s", "spark.pace.force": "true"}
        self.id = page.master.cluster.register(name=name, main=f"{name}.py", conf=conf, wanted=WISH)
        self.events = one_stage_run(1000, TASKS, 2500)[:-3]
        self.reported = 0

    def tell(self, *events: AnyEvent) -> None:
        self.page.master.cluster.driver(self.id, *events, first=self.reported + 1, wanted=WISH)
        self.reported += len(events)

    def next(self) -> tuple[ExecutorReport, Sample]:
        self.tick += 1
        due = 2 + int(self.tick / 2.5)
        self.tell(*self.events[self.reported : max(self.reported, due)])
        progress, aim = self.tick / 100, min(1.0, self.tick / (0.9 * self.deadline_s))
        quota = round(0.6 + 0.35 * math.sin(self.tick / 9 + self.number), 2)
        self.used += 0.9 * quota
        ordered: tuple[OrderedQuota, ...] = ()
        if self.tick % 6 == 0:
            reason = f"forecast: {quota:.2f} cores for the application"
            ordered = (OrderedQuota(time_s=float(self.tick), before=self.ordered, cores=quota, reason=reason),)
            self.ordered = quota
        row = sample(
            self.id, "1", float(self.tick), quota=quota, grant=quota, usage=round(0.9 * quota, 3), demand=quota + 0.1,
            progress=progress, set_point=aim, cpu_core_s=self.used, ordered=ordered,
            forecast_end_s=95.0 + 3 * (self.number % 9),
        )  # fmt: skip
        stage = use(0, self.used, done=max(0, self.reported - 2))
        running = report(
            self.id, "1", quota_cores=quota, demand_cores=round(quota + 0.1, 2), memory_limit_mb=1408, stages=(stage,)
        )
        return running, row


def crowd(page: ServedPage, count: int, *, ended: int, ticks: int) -> str:
    """Make `ended` runs that have ended, then `count` applications that have run for `ticks` seconds at most; return the id
    of the first of these."""
    cluster, start_s = page.master.cluster, time.time() - ticks
    for number in range(ended):
        ended_run(cluster, NAMES[number % min(len(NAMES), count)], number)
    nodes = max(8, count // WORKERS)
    memory = 4 * 1536 if count == COUNTS[1] else 1 << 20
    for index in range(WORKERS):
        cluster.worker(f"w{index + 1}", memory_mb=memory, nodes=nodes)
    jobs = [Job(page, number) for number in range(count)]
    for job in jobs:
        job.tell(*job.events[:2])
    places, taken = dict[str, str](), dict[str, int]()
    for index in range(WORKERS):
        worker = f"w{index + 1}"
        reply = cluster.worker(worker, memory_mb=memory, nodes=nodes)
        taken[worker] = reply.samples_acknowledged
        places |= {one.application_id: worker for one in reply.desired.executors}
    page.signed_in()
    for tick in range(ticks):
        cluster.now_s += 1
        page.poller.clock = partial(float, start_s + tick)
        placed = dict[str, list[tuple[ExecutorReport, Sample]]]()
        for number, job in enumerate(jobs):
            if job.id in places and tick > number % (ticks // 4):
                placed.setdefault(places[job.id], []).append(job.next())
        for index in range(WORKERS):
            worker, reported = f"w{index + 1}", placed.get(f"w{index + 1}", [])
            cluster.worker(
                worker, *(one for one, _ in reported), memory_mb=memory, nodes=nodes,
                samples=tuple(row for _, row in reported), sample_seq=taken[worker],
            )  # fmt: skip
            taken[worker] += len(reported)
        page.look()
    return jobs[0].id
