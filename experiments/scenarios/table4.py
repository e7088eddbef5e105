"""The paper's Table 4: how close to their deadlines applications end, under each law, compared with an oracle's constant
quota.

Base: each application on all cores, without a deadline (which also teaches its profile). Then, repetition by repetition, each
gets its base time, stretched, as its deadline: once under every law, once under the static size that the base run asks for,
and once under the constant quota that an oracle chooses from earlier runs. The oracle's runs know the answer beforehand and
follow nothing: their differences are the machine's noise. Runs on stock Spark, on workers as large, show noise as well. Noise
is no limit. A test may also give a wrong profile, another input size, or words that make the run unlike its profile.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from typing import Any

import msgspec

from experiments.harness.markdown import table
from experiments.harness.recorded import (
    Condition,
    Data,
    Goal,
    Order,
    StepRecord,
    Taught,
    answers_right,
    complete,
    within_capacity,
)

BASE, STATIC, ORACLE, STOCK = "base", "static", "oracle", "stock"
SIZES = ("--millions", "--copies")
"""Options of workloads that set the size of the input."""
COLUMNS = (
    *("application", "test", "under", "n", "deadline s", "least error %", "most", "mean", "std", "mean abs", "violated"),
    *("allocated core-s", "used core-s", "allocated / used"),
)
Summary = Mapping[str, Any]


class ErrorLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Limits. Percent of the deadline, of one run and (`error_pct`) on average; a ratio, of all runs together."""

    late_pct: float = 0.5
    early_pct: float = 2.5
    error_pct: float = 0.75
    allocated_to_used: float = 1.03


class Trial(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A deadline of the base time, `stretch` times, in one of `every` repetitions. `size`: the input in sizes of the plain
    one, with base runs of its own; `profile`: the profile is off by this factor; `words`: further words than the base runs
    had, say to make tasks straggle. With any of these the profile is only that of the base runs of the plain input. `under`
    None: all laws and yardsticks but stock Spark, which only runs in plain tests."""

    stretch: float
    every: int = 1
    size: float = 1.0
    profile: float = 1.0
    words: tuple[str, ...] = ()
    under: tuple[str, ...] | None = None

    @property
    def plain(self) -> bool:
        return self.size == self.profile == 1.0 and not self.words


class Table4(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`applications`: words of each; `laws`: options of `sparkpace submit`. The law `judged` must keep to `limits`; the ratio
    of some applications has a limit of its own (`allocated_to_used`). Nothing here is drawn at random: `seed` is kept because
    every experiment has one."""

    applications: dict[str, tuple[str, ...]]
    tests: dict[str, Trial]
    laws: dict[str, tuple[str, ...]]
    judged: str = "forecast"
    limits: ErrorLimits = ErrorLimits()
    allocated_to_used: dict[str, float] = {}
    repetitions: int = 3
    bases: int = 1
    options: tuple[str, ...] = ()
    seed: int = 1

    def __post_init__(self) -> None:
        if unknown := self.allocated_to_used.keys() - self.applications.keys():
            raise ValueError(f"a limit of {', '.join(sorted(unknown))}, which is no application")
        known = (*self.laws, STATIC, ORACLE, STOCK)
        for name, test in self.tests.items():
            if not set(known).issuperset(test.under or ()):
                raise ValueError(f"test {name} names a law or yardstick that is not one of {', '.join(known)}")
            if STOCK in (test.under or ()) and not test.plain:
                raise ValueError(f"test {name} is to run on stock Spark, whose input and profile are the plain ones")
            for words in self.applications.values():
                sized(words, test.size)

    def steps(self) -> list[str]:
        return [*self._alone(), *self._paced()]

    def _alone(self) -> dict[str, tuple[str, float]]:
        """Return the application and input size of every base step."""
        sizes = {1.0, *(test.size for test in self.tests.values())}
        return {
            f"{base(app, size)}{number}": (app, size)
            for app in self.applications
            for size in sorted(sizes, key=lambda size: (size != 1.0, size))
            for number in range(self.bases)
        }

    def under(self, test: str) -> tuple[str, ...]:
        """Return the laws and yardsticks of that test."""
        return self.tests[test].under or (*self.laws, STATIC, ORACLE)

    def _paced(self) -> dict[str, tuple[str, str, str]]:
        """Return the application, test and law of every step with a deadline; compared steps stand side by side."""
        return {
            f"{group(app, test, law)}{number}": (app, test, law)
            for number in range(self.repetitions)
            for app in self.applications
            for test, what in self.tests.items()
            if number % what.every == 0
            for law in self.under(test)
        }

    def orders(self, step: str, data: Data) -> list[Order]:
        alone = self._alone()
        if step in alone:
            app, size = alone[step]
            return [Order(app, sized(self.applications[app], size), options=self.options)]
        app, name, law = self._paced()[step]
        test = self.tests[name]
        if law == STOCK:
            return [Order(app, self.applications[app], options=self.options, stock=True)]
        deadline_s = test.stretch * base_s(data, app, test.size)
        options = self.laws.get(law) or constant_options(self._constant_cores(app, name, law, deadline_s, data))
        taught = None if test.plain else Taught(tuple(_base_runs(data, app)), test.profile)
        words = (*sized(self.applications[app], test.size), *test.words)
        return [Order(app, words, deadline_s, options=(*self.options, *options), profile=taught)]

    def _constant_cores(self, app: str, test: str, law: str, deadline_s: float, data: Data) -> float:
        """Return the constant cores that end at the deadline: work / (deadline - fixed time), as far as the base runs show
        (static), or as far as runs at constant cores before show (oracle; the first time as far as the laws' runs show)."""
        capacity = max(sum(step.capacity.values()) for step in data.steps.values())
        before = found(data, app, test, ORACLE)
        if law == STATIC:
            alone = _summaries(data.starting(base(app, self.tests[test].size)))
            guesses = [s["used_core_s"] / max(1.0, span_s(s) + deadline_s - s["end_s"]) for s in alone]
        elif before:
            guesses = [constant_work(s) / max(1.0, span_s(s) + deadline_s - s["end_s"]) for s in before]
        else:
            guesses = [s["allocated_core_s"] / span_s(s) for law in self.laws for s in found(data, app, test, law)]
        return float(min(capacity, statistics.median(guesses)))

    # ------------------------------------------------------------------ findings

    def conditions(self, data: Data) -> list[Condition]:
        steps = list(data.steps.values())
        on_stock = {step for step, (_, _, law) in self._paced().items() if law == STOCK}
        return [
            complete(data, self.steps()),
            *(c for app, test in self._cells() for c in self._judge(app, test, data)),
            *within_capacity([step for step in steps if step.step not in on_stock], data),
            *answers_right(steps),
        ]

    def _cells(self) -> list[tuple[str, str]]:
        return [(app, test) for app in self.applications for test in self.tests]

    def _judge(self, app: str, test: str, data: Data) -> list[Condition]:
        """Return the conditions of a test. A deadline that leaves no spare time is looked at, not judged: start-up by itself
        may differ by more than that. Another input size is not judged either. With a wrong profile, or words that make the
        run unlike it, only lateness is."""
        runs = found(data, app, test, self.judged)
        what = self.tests[test]
        if not runs or what.stretch <= 1 or what.size != 1:
            return []
        most, errors, count = self.limits, [s["error_pct"] for s in runs], f"n={len(runs)}"

        def condition(name: str, measured: float, limit: float, unit: str) -> Condition:
            return Condition(f"{self.judged}: {name}", f"{app} {test}", measured <= limit, f"{measured:.3f}{unit}, {count}")

        late = condition(f"none late by more than {most.late_pct:g}%", max(errors), most.late_pct, "%")
        if not what.plain:
            return [late]
        ratio = self._most_allocated(app)
        apart = statistics.fmean(map(abs, errors))
        return [
            late,
            condition(f"none early by more than {most.early_pct:g}%", -min(errors), most.early_pct, "%"),
            condition(f"mean |error| within {most.error_pct:g}%", apart, most.error_pct, "%"),
            condition(f"allocated / used within {ratio:g}", allocated_per_used(runs), ratio, ""),
        ]

    def goals(self, data: Data) -> list[Goal]:
        """Return the goals of the judged law at deadlines with spare time, each over all applications."""
        found_goals = []
        for test, what in self.tests.items():
            ran = {app: runs for app in self.applications if (runs := found(data, app, test, self.judged))}
            if not ran or what.stretch <= 1 or what.size != 1:
                continue
            errors = [s["error_pct"] for runs in ran.values() for s in runs]
            n, most, of = len(errors), self.limits, f"{self.judged}, real, {test}"
            found_goals.append(_goal(f"{of}: most late by", max(errors), most.late_pct, "% of the deadline", n))
            if not what.plain:
                continue
            apart = statistics.fmean(map(abs, errors))
            found_goals += [
                _goal(f"{of}: most early by", -min(errors), most.early_pct, "% of the deadline", n),
                _goal(f"{of}: mean |error|", apart, most.error_pct, "% of the deadline", n),
            ]
            for most_allocated, apps in groupby(sorted(ran, key=self._most_allocated), key=self._most_allocated):
                alike = list(apps)
                runs = [s for app in alike for s in ran[app]]
                whose = f" ({', '.join(alike)})" if len(alike) < len(ran) else ""
                name = f"{of}: allocated / used{whose}"
                found_goals.append(_goal(name, allocated_per_used(runs), most_allocated, "ratio", len(runs)))
            found_goals += self._compared(of, test, ran, data)
        return found_goals

    def _most_allocated(self, app: str) -> float:
        return self.allocated_to_used.get(app, self.limits.allocated_to_used)

    def _compared(self, of: str, test: str, ran: Mapping[str, Sequence[Summary]], data: Data) -> list[Goal]:
        """Return the goals compared with the other laws, if there are any."""
        against = [s for app in ran for s in self._others(app, test, data)]
        if not against:
            return []
        others = {app: self._least_ratio(app, test, data) for app in ran}
        above = sum(least is not None and allocated_per_used(ran[app]) >= least for app, least in others.items())
        name = f"{of}: applications with allocated / used not below the other laws'"
        compared = _goal(name, above, 0, "applications", sum(map(len, ran.values())))
        if hidden := withdrawn(data, against):
            why = f"{hidden} of the other laws' {len(against)} runs are withdrawn: {data.withdrawn.why}"
            compared = msgspec.structs.replace(compared, measured=None, not_measured=why)
        return [compared]

    def _least_ratio(self, app: str, test: str, data: Data) -> float | None:
        """Return the least allocated / used of the other laws; None where no other law ran, or one of their runs is
        withdrawn."""
        if withdrawn(data, self._others(app, test, data)):
            return None
        others = [found(data, app, test, law) for law in self.laws if law != self.judged]
        return min((allocated_per_used(runs) for runs in others if runs), default=None)

    def _others(self, app: str, test: str, data: Data) -> list[Summary]:
        """Return the runs of the laws that are not judged."""
        return [s for law in self.laws if law != self.judged for s in found(data, app, test, law)]

    def tables(self, data: Data) -> str:
        each, together = [], []
        for app, test in self._cells():
            ran = {law: found(data, app, test, law) for law in self.under(test) if law != STOCK}
            each += [(app, test, law, *_numbers(data, runs)) for law, runs in ran.items() if runs]
        for test in self.tests:
            for law in self.under(test):
                if law == STOCK:
                    continue
                runs = [s for app in self.applications for s in found(data, app, test, law)]
                if runs:
                    count, _, *errors, _, _, ratio = _numbers(data, runs)
                    together.append((test, law, count, *errors, ratio))
        with_oracle = [test for test in self.tests if ORACLE in self.under(test)]
        alone = []
        for app in self.applications:
            noises = [f"{noise_pct(found(data, app, test, ORACLE)):.2f}" for test in with_oracle]
            stock = [s["end_s"] for test in self.tests for s in found(data, app, test, STOCK)]
            for where, ends, noise in (
                ("Sparkpace", _bases(data, app, 1.0), noises),
                ("stock Spark", stock, [""] * len(noises)),
            ):
                if ends:
                    times = [f"{seconds:.1f}" for seconds in (statistics.median(ends), min(ends), max(ends))]
                    spread = f"{100 * statistics.stdev(ends) / statistics.fmean(ends):.2f}" if len(ends) > 1 else "-"
                    alone.append((app, where, len(ends), *times, spread, *noise))
        noise_of = (f"noise % of {test}" for test in with_oracle)
        gone = [step for step, what in data.steps.items() if withdrawn(data, [job.summary for job in what.jobs])]
        named = f"Withdrawn, {len(gone)} of {len(data.steps)} runs: {', '.join(gone)}. Why: {data.withdrawn.why}."
        lines = [named, ""] if gone else []
        lines += [*table(COLUMNS, each), "All applications together:", ""]
        lines += table((*COLUMNS[1:4], *COLUMNS[5:11], *COLUMNS[13:]), together)
        lines += table(("alone on all cores", "on", "n", "seconds, median", "least", "most", "std %", *noise_of), alone)
        return "\n".join(lines)

    def pictures(self, data: Data) -> dict[str, list[str]]:
        """Return the first run of each application under the judged law, in detail."""
        first = {(app, test): data.starting(group(app, test, self.judged)) for app, test in self._cells()}
        return {f"{app}-{test}": [steps[0].jobs[0].app_id] for (app, test), steps in first.items() if steps}


def base(app: str, size: float = 1.0) -> str:
    """Return the common beginning of names of the application's base runs."""
    return f"{BASE}-{app}-" if size == 1.0 else f"{BASE}-{app}-x{size:g}-"


def sized(words: Sequence[str], size: float) -> tuple[str, ...]:
    """Return the workload's words with `size` times the input. Raise `ValueError` when no word gives a size."""
    if size == 1.0:
        return tuple(words)
    for place, word in enumerate(words[:-1]):
        if word in SIZES:
            more = size * float(words[place + 1])
            return (*words[: place + 1], f"{max(1, round(more)) if word == '--copies' else more:g}", *words[place + 2 :])
    raise ValueError(f"{' '.join(words)} tells no size; another input size needs one of {', '.join(SIZES)}")


def group(app: str, test: str, law: str) -> str:
    """Return the common beginning of names of runs that differ only by their repetition."""
    return f"{app}-{test}-{law}-"


def constant_options(cores: float) -> tuple[str, ...]:
    return ("--law", "constant", "--conf", f"spark.pace.law.constant.cores={cores:.3f}")


def found(data: Data, app: str, test: str, law: str) -> list[Summary]:
    return _summaries(data.starting(group(app, test, law)))


def _summaries(steps: Iterable[StepRecord]) -> list[Summary]:
    return [step.jobs[0].summary for step in steps]


def base_s(data: Data, app: str, size: float = 1.0) -> float:
    """Return the application's seconds by itself on all cores, the median of the base runs."""
    return float(statistics.median(_bases(data, app, size)))


def _bases(data: Data, app: str, size: float) -> list[float]:
    return [s["end_s"] for s in _summaries(data.starting(base(app, size)))]


def _base_runs(data: Data, app: str) -> list[str]:
    """Return the application ids of the base runs."""
    return [step.jobs[0].app_id for step in data.starting(base(app))]


def span_s(summary: Summary) -> float:
    """Return the seconds from the first task to the last: when cores matter."""
    return float(summary["last_task_s"] - summary["first_task_s"])


def constant_work(summary: Summary) -> float:
    """Return the core-seconds that a run at constant cores was given."""
    return float(summary["settings"]["constant.cores"] * span_s(summary))


def noise_pct(oracle: Sequence[Summary]) -> float:
    """Return the standard deviation of the core-seconds that the same work took at constant cores, in percent; 0 below two
    runs.

    The oracle's errors do not count: they also show how well it guessed, and its first guess has only other laws' runs.
    """
    work = [constant_work(summary) for summary in oracle]
    return 100 * statistics.stdev(work) / statistics.fmean(work) if len(work) > 1 else 0.0


def allocated_per_used(runs: Sequence[Summary]) -> float:
    """Return allocated / used of all runs together."""
    return math.fsum(s["allocated_core_s"] for s in runs) / math.fsum(s["used_core_s"] for s in runs)


def withdrawn(data: Data, runs: Iterable[Summary]) -> int:
    """Return the number of these runs that are withdrawn."""
    return data.withdrawn.count(s["app_id"] for s in runs)


def _numbers(data: Data, runs: Sequence[Summary]) -> list[str]:
    """Return the columns from n on; no figure over a run that is withdrawn."""
    if hidden := withdrawn(data, runs):
        return [str(len(runs)), "", f"not shown: {hidden} of {len(runs)} withdrawn", *("" for _ in COLUMNS[6:])]
    errors = [s["error_pct"] for s in runs]
    mean = statistics.fmean
    deviation = f"{statistics.stdev(errors):.2f}" if len(errors) > 1 else "-"
    return [
        str(len(runs)),
        f"{mean(s['deadline_s'] for s in runs):.1f}",
        *(f"{error:+.2f}" for error in (min(errors), max(errors), mean(errors))),
        deviation,
        f"{mean(map(abs, errors)):.2f}",
        str(sum(s["violated"] for s in runs)),
        *(f"{mean(s[key] for s in runs):.1f}" for key in ("allocated_core_s", "used_core_s")),
        f"{allocated_per_used(runs):.3f}",
    ]


def _goal(goal: str, measured: float, limit: float, unit: str, n: int) -> Goal:
    return Goal(goal=goal, measured=round(measured, 4), limit=limit, unit=unit, n=n)
