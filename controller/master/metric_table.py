"""The table of metrics: name, kind, labels and meaning. `metrics` fills them in, docs/metrics.md shows this table."""

from __future__ import annotations

from typing import Literal, NamedTuple


class Metric(NamedTuple):
    """A metric; `name` is without the endings that a kind brings (`series`)."""

    name: str
    kind: Literal["gauge", "counter", "histogram"]
    labels: tuple[str, ...]
    meaning: str

    @property
    def shown(self) -> str:
        return f"{self.name}_total" if self.kind == "counter" else self.name

    @property
    def series(self) -> tuple[str, ...]:
        """Names that a query may use."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{end}" for end in ("bucket", "sum", "count"))
        return (self.shown,)


_APPLICATION = ("application",)
_WORKER = ("worker",)
_USER = ("user", "kind")

METRICS = (
    Metric("sparkpace_build_info", "gauge", ("version",), "1; the label has the master's release"),
    Metric("sparkpace_store_writable", "gauge", (), "1, or 0 while master.db cannot be written"),
    Metric("sparkpace_applications", "gauge", ("state",), "Applications that have not ended, waiting or running"),
    Metric("sparkpace_applications_ended", "counter", ("outcome",), "Applications that ended since the master started"),
    Metric(
        "sparkpace_application_deadline_error_ratio",
        "histogram",
        (),
        "(end - deadline) / deadline of applications that succeeded; negative is early; no sum and no count",
    ),
    Metric(
        "sparkpace_application_info",
        "gauge",
        ("application", "name", "law"),
        "1; name and law of an application that has not ended",
    ),
    Metric("sparkpace_application_priority", "gauge", _APPLICATION, "Priority, -1 (backfill) to 100; larger wins"),
    Metric(
        "sparkpace_application_deadline_timestamp_seconds",
        "gauge",
        _APPLICATION,
        "When it has to end, Unix time; missing without a deadline",
    ),
    Metric(
        "sparkpace_application_forecast_end_timestamp_seconds",
        "gauge",
        _APPLICATION,
        "When its law expects it to end, Unix time; missing without a forecast",
    ),
    Metric(
        "sparkpace_application_progress_ratio",
        "gauge",
        _APPLICATION,
        "Expected work done / expected work; missing without a profile",
    ),
    Metric(
        "sparkpace_application_cores",
        "gauge",
        ("application", "kind"),
        "Cores granted to, demanded by and used by its executors",
    ),
    Metric("sparkpace_application_executors", "gauge", _APPLICATION, "Executors that run"),
    Metric("sparkpace_application_memory_bytes", "gauge", _APPLICATION, "What its executors may use"),
    Metric(
        "sparkpace_application_debt_core_seconds",
        "gauge",
        _APPLICATION,
        "Core-seconds that squeezes withheld and that are not repaid yet",
    ),
    Metric(
        "sparkpace_executor_cpu_seconds",
        "counter",
        ("application", "executor", "worker"),
        "Core-seconds that an executor has used",
    ),
    Metric(
        "sparkpace_executor_throttled_seconds",
        "counter",
        ("application", "executor", "worker"),
        "Seconds that an executor's quota held its threads back, summed over CPUs; missing where that is not known",
    ),
    Metric(
        "sparkpace_notifications",
        "counter",
        ("outcome",),
        "Notifications of the web hook that were sent, given up or dropped",
    ),
    Metric("sparkpace_notifications_waiting", "gauge", (), "Notifications that wait to be sent, or to be sent again"),
    Metric("sparkpace_executors_left_out", "gauge", (), "Executors without a series, because there are too many"),
    Metric(
        "sparkpace_user_applications",
        "gauge",
        _USER,
        "Applications of a user with limits that run (used), and that may (limit, missing without one)",
    ),
    Metric(
        "sparkpace_user_cores",
        "gauge",
        _USER,
        "Cores that are promised to the deadlines of a user with limits (used), and that may be (limit, missing without one)",
    ),
    Metric(
        "sparkpace_user_memory_bytes",
        "gauge",
        _USER,
        "Memory that the executors of a user with limits need at least (used), and may need (limit, missing without one)",
    ),
    Metric("sparkpace_worker_cores", "gauge", _WORKER, "Cores for executors"),
    Metric("sparkpace_worker_memory_bytes", "gauge", _WORKER, "Memory for executors"),
    Metric(
        "sparkpace_worker_last_report_timestamp_seconds",
        "gauge",
        _WORKER,
        "When the worker last reported to the master, Unix time; missing until it has reported since the master's start",
    ),
    Metric(
        "sparkpace_worker_relief_steps",
        "gauge",
        _WORKER,
        "Steps by which executors of lower priority make room, because its machine is under pressure; 0 if it is not",
    ),
    Metric("sparkpace_agent_tick_seconds", "histogram", ("worker", "phase"), "How long each phase of a period took"),
    Metric("sparkpace_quota_write_seconds", "histogram", _WORKER, "How long it took to write a quota, or to fail"),
    Metric("sparkpace_quota_write_failures", "counter", _WORKER, "Quotas that could not be written"),
)
