"""The reason why a run ended late, in one word and one sentence; and since when a run under way is late. Pure.

Each reason explains some seconds of the lateness. The first that explains half of it is given, in this order: the deadline
was shorter than the forecast with all cores; others had the cores; the work was more than planned; the first task came later
than planned. Where no reason explains half, the forecast was wrong, or there was no forecast.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from controller.machine.printable import printable
from controller.master.core.application import Application
from controller.master.core.executor_state import Executor
from controller.wire.basis import Lateness
from controller.wire.worker import Sample
from stage_model.units import format_duration

EXPLAINS = 0.5
"""A reason that explains less of the lateness is not the reason."""
LARGER = 1.01
"""An input that is larger than the largest one by a smaller ratio explains nothing."""
MOST_NAMED = 3
LONGEST_NAME = 100


@dataclass(frozen=True, slots=True)
class RunEnd:
    """All that is known of a run at its end; seconds count from submission, works are core-seconds.

    `least_s` is the end that was forecast with all `cores` that the application can get (None without any). `planned_core_s`
    is the planned work; `other_arguments` says that the run was planned from runs with other arguments; `planned_start_s`
    is the planned time of the first task. Without a profile they are None, None, False and None. `used_core_s` is the
    work of its stages. `owed_core_s` are the core-seconds that squeezes withheld and no one gave back, `squeezed_by` the
    core-seconds withheld by the name of the application that had cores then. `first_task_s` is None if no task began.
    `waited_for` is the last reason to wait before the first task, in the words that the user saw. `under_way`: the run
    goes on; its end and its work are expected ones. `most_input_records` is the largest input of the runs known, None
    without one."""

    deadline_s: float
    end_s: float
    cores: float
    used_core_s: float
    least_s: float | None = None
    planned_core_s: float | None = None
    other_arguments: bool = False
    planned_start_s: float | None = None
    first_task_s: float | None = None
    waited_for: str = ""
    owed_core_s: float = 0.0
    squeezed_by: Mapping[str, float] = field(default_factory=dict)
    late_since_s: float | None = None
    under_way: bool = False
    input_records: int = 0
    most_input_records: int | None = None


def why_late(facts: RunEnd) -> Lateness | None:
    """Return the reason; None for a run that was not late."""
    late_s = facts.end_s - facts.deadline_s
    if late_s <= 0:
        return None
    found = (_too_short(facts, late_s), _squeezed(facts, late_s), _more_work(facts, late_s), _waited(facts, late_s))
    reasons = (reason for reason in found if reason is not None and reason.explained_s >= EXPLAINS * late_s)
    return next(reasons, None) or _none_of_these(facts, late_s)


def _too_short(facts: RunEnd, late_s: float) -> Lateness | None:
    """Return the reason that the deadline was too short. It is compared with the forecast with all cores if there is one,
    else with the time in which all cores could have done the work."""
    if facts.cores <= 0:
        return None
    cores = f"all {facts.cores:.2f} cores"
    if facts.least_s is not None:
        least_s, says = facts.least_s, f"{format_duration(facts.least_s)} was the forecast with {cores}"
    else:
        least_s = (facts.first_task_s or 0.0) + facts.used_core_s / facts.cores
        says = f"its work takes {format_duration(least_s)} with {cores}"
    return Lateness(
        reason="deadline_too_short",
        late_s=round(late_s, 3),
        explained_s=round(min(late_s, least_s - facts.deadline_s), 3),
        planned_s=round(least_s, 3),
        cores=facts.cores,
        sentence=f"the deadline of {format_duration(facts.deadline_s)} was too short: {says}",
    )


def _squeezed(facts: RunEnd, late_s: float) -> Lateness | None:
    if facts.cores <= 0 or facts.owed_core_s <= 0:
        return None
    names = sorted(facts.squeezed_by, key=lambda name: -facts.squeezed_by[name])
    shown = ", ".join(printable(name, LONGEST_NAME) for name in names[:MOST_NAMED])
    shown += f" and {len(names) - MOST_NAMED} more" if len(names) > MOST_NAMED else ""
    by = shown or "others, or by a shortage of its machine"
    return Lateness(
        reason="squeezed",
        late_s=round(late_s, 3),
        explained_s=round(min(late_s, facts.owed_core_s / facts.cores), 3),
        by=tuple(names[:MOST_NAMED]),
        core_s=round(facts.owed_core_s, 3),
        sentence=f"it was squeezed by {by}: {facts.owed_core_s:.1f} core-seconds were withheld from it",
    )


def _more_work(facts: RunEnd, late_s: float) -> Lateness | None:
    if facts.cores <= 0 or not facts.planned_core_s:
        return None
    more = facts.used_core_s / facts.planned_core_s - 1
    which = ", which had other arguments" if facts.other_arguments else ""
    was = "is expected to be" if facts.under_way else "was"
    did = f"the work, {facts.used_core_s:.1f} core-seconds, {was} {more:.0%} more"
    return Lateness(
        reason="more_work",
        late_s=round(late_s, 3),
        explained_s=round(min(late_s, (facts.used_core_s - facts.planned_core_s) / facts.cores), 3),
        core_s=round(facts.used_core_s, 3),
        more=round(more, 4),
        sentence=f"{did} than in the runs that it was planned from{which}{_larger_input(facts)}",
    )


def _larger_input(facts: RunEnd) -> str:
    if facts.most_input_records is None or facts.input_records <= LARGER * facts.most_input_records:
        return ""
    return f"; its input, {facts.input_records} records, is larger than ever ({facts.most_input_records} at most before)"


def _waited(facts: RunEnd, late_s: float) -> Lateness | None:
    if facts.planned_start_s is None or facts.first_task_s is None:
        return None
    waited_s = facts.first_task_s - facts.planned_start_s
    why = f" ({facts.waited_for})" if facts.waited_for else ""
    return Lateness(
        reason="waited",
        late_s=round(late_s, 3),
        explained_s=round(min(late_s, waited_s), 3),
        sentence=f"it waited{why}: its first task began {format_duration(max(0.0, waited_s))} later than planned",
    )


def _none_of_these(facts: RunEnd, late_s: float) -> Lateness:
    if facts.planned_core_s is None:
        return Lateness(
            reason="no_forecast",
            late_s=round(late_s, 3),
            explained_s=round(late_s, 3),
            sentence="no earlier run had taught, so nothing was forecast: it took what was free",
        )
    since_s = facts.late_since_s
    kept = since_s is not None and since_s < facts.deadline_s
    said = f"until {format_duration(since_s or 0.0)}" if kept else "to the deadline"
    return Lateness(
        reason="forecast_wrong",
        late_s=round(late_s, 3),
        explained_s=round(late_s, 3),
        kept_until_s=round(since_s or 0.0, 3) if kept else None,
        sentence=f"the forecast was wrong: {said} it said that the deadline would be kept",
    )


def late_since(before_s: float | None, forecast_end_s: float | None, due_s: float | None, at_s: float) -> float | None:
    """Return the time since when the forecast has been past the deadline without a break; None if it is not.

    `at_s` is the time of the newest forecast, `before_s` the answer for the forecast before it. A deadline that has passed is
    missed since it passed at the latest. All times are seconds after submission."""
    if due_s is None:
        return None
    if at_s > due_s:
        return due_s if before_s is None else min(before_s, due_s)
    if forecast_end_s is None:
        return before_s
    if forecast_end_s <= due_s:
        return None
    return at_s if before_s is None else before_s


def watch_forecast(application: Application, executor: Executor, sample: Sample) -> None:
    """Keep the time since when an executor's forecasts have been past the deadline, and warn once in the terminal of a stock
    spark-submit; `sparkpace submit` has a warning of its own."""
    target, before_s = application.target(), executor.record.late_since_s
    due_s = None if target is None else target.due_s
    executor.record.late_since_s = late_since(before_s, sample.forecast_end_s, due_s, sample.time_s)
    if target is None or sample.forecast_end_s is None:
        return
    late = sample.forecast_end_s > target.due_s + 0.005 * target.deadline_s
    if application.options.submission is None and application.plan.warns(late=late):
        application.notify(
            f"the forecast end, {format_duration(sample.forecast_end_s)}, is past the deadline, "
            f"{format_duration(target.due_s)}; the application goes on"
        )
