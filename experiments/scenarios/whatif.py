"""The accuracy of what `sparkpace plan EVENTLOG --curve` says. Each application runs on all cores and leaves an event log;
from only these logs its time with fewer cores is predicted. Then it runs with that many cores from start to end: with a quota
of Sparkpace's, or on stock Spark with workers of that many cores altogether.

Predicted and real times both come from event logs, so both begin and end at the same moments of the driver.
"""

from __future__ import annotations

import math
import statistics
from typing import Annotated

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import (
    Condition,
    Data,
    Goal,
    Order,
    answers_right,
    complete,
    judged,
    least_workers,
    within_capacity,
)
from experiments.scenarios.table4 import constant_options
from stage_model.forecast.curve import reference_slots, whole
from stage_model.forecast.estimate import estimate
from stage_model.forecast.fixed import with_cores
from stage_model.history.profile import profile

LOGGING = ("--conf", "spark.eventLog.enabled=true", "--conf", "spark.eventLog.dir={out}/eventlogs")
DEADLINE_S = 3600.0
"""Seconds of a deadline: laws rule applications with a deadline; under `constant`, the deadline has no other use."""


class WhatIf(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`logs`: runs on all cores that teach. `cores`: sizes that are predicted, and run `repetitions` times. `error_pct`: the
    most that real times may differ from predicted ones in the mean, `most_error_pct` in each application's mean at one size.
    `stock`: everything runs on stock Spark, whose workers have one executor each with `stock_slots` slots.
    `options`: further options of each application.
    Nothing is drawn at random here: `seed` is kept because every experiment has one."""

    applications: dict[str, tuple[str, ...]]
    cores: tuple[Annotated[float, msgspec.Meta(gt=0)], ...]
    logs: int = 2
    repetitions: int = 2
    error_pct: float = 6.0
    most_error_pct: float | None = None
    stock: bool = False
    stock_slots: int = 1
    options: tuple[str, ...] = ()
    seed: int = 1

    def steps(self) -> list[str]:
        return [*self._teaching(), *self._tests()]

    def _teaching(self) -> dict[str, str]:
        """Return the application of every step that leaves a log."""
        return {f"{_logs(app)}{number}": app for number in range(self.logs) for app in self.applications}

    def _tests(self) -> dict[str, tuple[str, float]]:
        return {
            f"{_runs(app, cores)}{number}": (app, cores)
            for number in range(self.repetitions)
            for app in self.applications
            for cores in self.cores
        }

    def orders(self, step: str, data: Data) -> list[Order]:  # noqa: ARG002 - nothing depends on the steps before
        taught = self._teaching().get(step)
        app, cores = (taught, None) if taught is not None else self._tests()[step]
        if self.stock:
            words, slots = self.applications[app], self.stock_slots
            return [Order(app, words, options=self.options, stock=True, stock_cores=cores, stock_slots=slots)]
        if cores is None:
            return [Order(app, self.applications[app], options=(*self.options, *LOGGING))]
        options = (*self.options, *LOGGING, *constant_options(cores))
        return [Order(app, self.applications[app], DEADLINE_S, options=options)]

    def conditions(self, data: Data) -> list[Condition]:
        steps = list(data.steps.values())
        return [
            complete(data, self.steps()),
            *(judged(goal, "all") for goal in self.goals(data)),
            *([] if self.stock else within_capacity(steps, data)),
            *answers_right(steps),
        ]

    def goals(self, data: Data) -> list[Goal]:
        cells = [self._pairs(data, app, cores) for app, cores in self._cells()]
        errors = [100 * abs(real_s / said_s - 1) for pairs in cells for said_s, real_s in pairs]
        if not errors:
            return []
        name, unit = "predicted from event logs, real: mean |error|", "% of the predicted time"
        mean = round(statistics.fmean(errors), 4)
        found = [Goal(goal=name, measured=mean, limit=self.error_pct, unit=unit, n=len(errors))]
        if self.most_error_pct is not None:
            name = "predicted from event logs, real: largest |mean error| of an application at one size"
            means = [
                abs(statistics.fmean(100 * (real_s / said_s - 1) for said_s, real_s in pairs)) for pairs in cells if pairs
            ]
            most = round(max(means), 4)
            found.append(Goal(goal=name, measured=most, limit=self.most_error_pct, unit=unit, n=len(means)))
        return found

    def _pairs(self, data: Data, app: str, cores: float) -> list[tuple[float, float]]:
        """Return the predicted and real seconds of every run with that many cores whose log is known; none without a log to
        predict from."""
        ran = [
            (data.logs[job.app_id], step.capacity)
            for step in data.starting(_logs(app))
            for job in step.jobs
            if job.app_id in data.logs
        ]
        if not ran:
            return []
        known = profile(app, [with_cores(log, math.fsum(had.values())) for log, had in ran])  # a log knows slots only
        most_each = max(ran[0][1].values())
        slots = least_workers(cores, most_each) * self.stock_slots if self.stock else reference_slots(known)
        said_s = whole(estimate(known), slots).time_s(cores)
        real = (job.app_id for step in data.starting(_runs(app, cores)) for job in step.jobs)
        return [(said_s, data.logs[app_id].duration_s) for app_id in real if app_id in data.logs]

    def _cells(self) -> list[tuple[str, float]]:
        return [(app, cores) for app in self.applications for cores in self.cores]

    def tables(self, data: Data) -> str:
        rows = []
        for app, cores in self._cells():
            if pairs := self._pairs(data, app, cores):
                rows.append((app, f"{cores:g}", len(pairs), f"{pairs[0][0]:.1f}", *_means(pairs)))
        by_cores = [
            (f"{cores:g}", len(pairs), *_means(pairs)[1:])
            for cores in self.cores
            if (pairs := [pair for app in self.applications for pair in self._pairs(data, app, cores)])
        ]
        errors = ("mean error %", "mean abs")
        lines = table(("application", "cores", "n", "predicted s", "real s", *errors), rows)
        return "\n".join([*lines, "All applications together:", "", *table(("cores", "n", *errors), by_cores)])

    def pictures(self, data: Data) -> dict[str, list[str]]:  # noqa: ARG002 - the table tells all
        return {}


def _logs(app: str) -> str:
    return f"log-{app}-"


def _runs(app: str, cores: float) -> str:
    return f"{app}-on-{cores:g}-"


def _means(pairs: list[tuple[float, float]]) -> tuple[str, str, str]:
    errors = [100 * (real_s / said_s - 1) for said_s, real_s in pairs]
    real_s = statistics.fmean(real for _, real in pairs)
    return f"{real_s:.1f}", f"{statistics.fmean(errors):+.2f}", f"{statistics.fmean(map(abs, errors)):.2f}"
