"""The content of `/metrics`: the state of the cluster at this moment, in the text format of Prometheus.

Gauges are of applications that have not ended, of workers that have reported and of users with limits, so series end with
what they are of. Numbers of series are bounded, and labels that strangers choose are cut and cleaned.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Iterable, Iterator
from itertools import accumulate

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from controller.machine.printable import printable
from controller.master.cluster import ClusterState
from controller.master.core.application import Application
from controller.master.core.outcome import ERROR_BOUNDS
from controller.master.core.registry import AT_A_TIME
from controller.master.metric_table import METRICS
from controller.master.notify.deliveries import OUTCOMES_OF_SENDING
from controller.version import VERSION
from controller.wire.command import ApplicationView, UserShare
from controller.wire.durations import BOUNDS_S, PHASES, Durations
from controller.wire.states import ApplicationState, Outcome

MOST_EXECUTORS = 10_000
"""Most executors with a series of their own. Applications are bounded by `controller.wire.limits`, workers by the tokens made
for them."""
LONGEST_LABEL = 80
"""Most characters of a label's value; only printable ones are shown."""
MIB = 1 << 20
FORMAT = "text/plain; version=0.0.4; charset=utf-8"

_KINDS: dict[str, type[GaugeMetricFamily | CounterMetricFamily | HistogramMetricFamily]] = {
    "gauge": GaugeMetricFamily,
    "counter": CounterMetricFamily,
    "histogram": HistogramMetricFamily,
}


class Families(Collector):
    """One scrape's families, each declared in `METRICS`."""

    def __init__(self) -> None:
        self._by_name = {m.name: _KINDS[m.kind](m.name, m.meaning, labels=m.labels) for m in METRICS}

    def value(self, name: str, value: float, *labels: str) -> None:
        family = self._by_name[name]
        assert not isinstance(family, HistogramMetricFamily)
        family.add_metric([printable(label, LONGEST_LABEL) for label in labels], value)

    def histogram(self, name: str, bounds: Iterable[float], counts: Iterable[int], sum_: float, *labels: str) -> None:
        """Add a histogram; `counts` has one number for each bound and one beyond."""
        family = self._by_name[name]
        assert isinstance(family, HistogramMetricFamily)
        ends = [*map(str, map(float, bounds)), "+Inf"]
        buckets = list(zip(ends, map(float, accumulate(counts)), strict=True))
        family.add_metric([printable(label, LONGEST_LABEL) for label in labels], buckets, sum_)

    def collect(self) -> Iterator[Family]:
        yield from self._by_name.values()

    def text(self) -> bytes:
        registry = CollectorRegistry()
        registry.register(self)
        return generate_latest(registry)


async def metrics(cluster: ClusterState, now_s: float, epoch_s: float) -> bytes:
    """Return the text at `now_s` (monotonic), which is `epoch_s` by the wall clock; other tasks have their turn in between,
    and the text is put together off the loop."""
    families = Families()
    _of_the_master(families, cluster)
    _of_workers(families, cluster, now_s, epoch_s)
    for share in cluster.registry.shares.all_shown(now_s):
        _of_user(families, share)
    states, room = {ApplicationState.WAITING: 0, ApplicationState.RUNNING: 0}, MOST_EXECUTORS
    left_out = 0
    for number, application in enumerate(list(cluster.applications.values()), 1):
        if number % AT_A_TIME == 0:
            await asyncio.sleep(0)
        if application.ended or application.id not in cluster.applications:
            continue
        view = cluster.core.commands.view(application.id, now_s)
        states[view.state] = states.get(view.state, 0) + 1
        _of_application(families, view, epoch_s)
        shown, more = _of_executors(families, application, room)
        room, left_out = room - shown, left_out + more
    for state, count in states.items():
        families.value("sparkpace_applications", count, state)
    families.value("sparkpace_executors_left_out", left_out)
    return await asyncio.to_thread(families.text)


def _of_the_master(families: Families, cluster: ClusterState) -> None:
    families.value("sparkpace_build_info", 1, VERSION)
    families.value("sparkpace_store_writable", 0 if cluster.store.failing else 1)
    tally = cluster.registry.tally
    for outcome in Outcome:
        families.value("sparkpace_applications_ended", tally.ended[outcome], outcome)
    families.histogram("sparkpace_application_deadline_error_ratio", ERROR_BOUNDS, tally.errors, 0.0)
    counts, waiting = cluster.notifying.counts() if cluster.notifying is not None else ({}, 0)
    for sending in OUTCOMES_OF_SENDING:
        families.value("sparkpace_notifications", counts.get(sending, 0), sending)
    families.value("sparkpace_notifications_waiting", waiting)


def _of_workers(families: Families, cluster: ClusterState, now_s: float, epoch_s: float) -> None:
    for worker_id, worker in cluster.workers.by_id.items():
        if worker.seen_s == -math.inf:
            continue
        families.value("sparkpace_worker_cores", worker.info.cores, worker_id)
        families.value("sparkpace_worker_memory_bytes", worker.info.memory_mb * MIB, worker_id)
        heard = round(epoch_s - (now_s - worker.seen_s), 3)
        families.value("sparkpace_worker_last_report_timestamp_seconds", heard, worker_id)
        families.value("sparkpace_worker_relief_steps", worker.relief_steps, worker_id)
        timings = worker.timings
        if timings is None:
            continue
        for phase in PHASES:
            if phase in timings.phases:
                _durations(
                    families, "sparkpace_agent_tick_seconds", timings.phases[phase], worker_id, phase.replace(" ", "_")
                )
        _durations(families, "sparkpace_quota_write_seconds", timings.quota_writes, worker_id)
        families.value("sparkpace_quota_write_failures", timings.quota_failures, worker_id)


def _of_user(families: Families, share: UserShare) -> None:
    most_bytes = None if share.most_memory_mb is None else share.most_memory_mb * MIB
    each: tuple[tuple[str, float, float | None], ...] = (
        ("applications", share.applications, share.most_applications),
        ("cores", share.cores, share.most_cores),
        ("memory_bytes", share.memory_mb * MIB, most_bytes),
    )
    for name, used, limit in each:
        families.value(f"sparkpace_user_{name}", used, share.user, "used")
        if limit is not None:
            families.value(f"sparkpace_user_{name}", limit, share.user, "limit")


def _durations(families: Families, name: str, durations: Durations, *labels: str) -> None:
    families.histogram(name, BOUNDS_S, durations.counts, durations.sum_s, *labels)


def _of_application(families: Families, view: ApplicationView, epoch_s: float) -> None:
    one, submitted_s = view.application_id, epoch_s - view.elapsed_s
    families.value("sparkpace_application_info", 1, one, view.name, view.law)
    families.value("sparkpace_application_priority", view.priority, one)
    for name, due_s in (("deadline", view.deadline_s), ("forecast_end", view.forecast_end_s)):
        if due_s is not None:
            families.value(f"sparkpace_application_{name}_timestamp_seconds", round(submitted_s + due_s, 3), one)
    if view.progress is not None:
        families.value("sparkpace_application_progress_ratio", view.progress, one)
    for kind, cores in (("granted", view.granted_cores), ("demanded", view.demand_cores), ("used", view.used_cores)):
        families.value("sparkpace_application_cores", cores, one, kind)
    families.value("sparkpace_application_executors", view.executors, one)
    families.value("sparkpace_application_memory_bytes", view.memory_mb * MIB, one)
    families.value("sparkpace_application_debt_core_seconds", view.debt_core_s, one)


def _of_executors(families: Families, application: Application, room: int) -> tuple[int, int]:
    """Return how many executors are shown, and how many are not."""
    live = list(application.live_executors())
    for executor in live[:room]:
        record = executor.record
        labels = application.id, record.executor_id, record.worker_id
        families.value("sparkpace_executor_cpu_seconds", record.cpu_core_s, *labels)
        if executor.report is not None and executor.report.throttled_s is not None:
            families.value("sparkpace_executor_throttled_seconds", executor.report.throttled_s, *labels)
    return min(room, len(live)), max(0, len(live) - room)
