"""The cost of control itself, by part: a planning pass of the master, an agent's period, a decide step, a quota's way into
the kernel; and where master and agent spend their time.

Every figure is of the production's code; the tables say what is made up. Sizes are settings, limits are the goals for the
full sizes.
"""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from experiments.bench.overhead import crowded_agent, decisions, quotas
from experiments.bench.overhead.crowd import Crowd, PassRow, TurnsRow, passes, period, turns
from experiments.bench.overhead.crowded_agent import Spent
from experiments.bench.overhead.quotas import QuotaRow
from experiments.harness.markdown import table
from experiments.harness.recorded import Condition, Data, Goal, complete, judged, percentile

Row = TypeVar("Row")

PASS_MS, FEW_MS, TURNS_MS = 1000.0, 20.0, 100.0
AGENT_SHARE = 0.03
DECIDE_MS = 1.0
"""Milliseconds for 100 executors; other numbers in proportion."""
STEP, STEP_BEFORE = "`core.step`", "`decide`, `arbitrate`"
"""Code that a row of the decide step has timed. Rows that do not name it are older than the core: without accounts and
samples."""
QUOTA_MS = {"quota-idle": 50.0, "quota-loaded": 150.0}
TOGETHER_S, RECORDED_S = 0.3, 2.0
"""Seconds for the quotas of all containers: until the kernel has them, and until the engine's record has them (two
periods)."""
PARTS = ("decide", "quota-idle", "quota-loaded", "agent", "agent-woken", "master", "queue")
PROFILED = "agent-profiled"
LONG_STAGE_S, SHORT_STAGE_S = 1000.0, 20.0
"""Seconds of stages of the agent's applications: no stage event in the time measured, or one every ten seconds in each of
them."""


class Master(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`kinds`: profiles among the applications; `few` of them change in a small pass; `passes`: number of the large ones.
    `turns`: number of the master's periodic passes, with as many applications waiting besides."""

    applications: int
    workers: int
    kinds: int
    few: int
    passes: int
    turns: int = 40


class AgentLoad(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    executors: int
    seconds: float


class Decide(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    executors: int
    steps: int


class Quota(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One change is made for each of the `containers`; loaded means `busy` further containers that compute."""

    containers: int
    busy: int


class Overhead(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    master: Master
    agent: AgentLoad
    decide: Decide
    quota: Quota
    repetitions: int = 1
    seed: int = 1

    def steps(self) -> list[str]:
        return [*(f"{part}-{n}" for n in range(self.repetitions) for part in PARTS), PROFILED]

    def measure(self, step: str, folder: Path) -> list[dict[str, Any]]:
        if step == PROFILED:
            return [crowded_agent.profiled(folder, self.agent.executors, self.agent.seconds, LONG_STAGE_S)]
        part, _, number = step.rpartition("-")
        return self._measure(part, folder, 1000 * self.seed + int(number))

    def _measure(self, part: str, folder: Path, seed: int) -> list[dict[str, Any]]:
        if part == "decide":
            here = decisions.executors(self.decide.executors, seed)
            return [{"executors": len(here), "of": STEP, "steps_ms": decisions.timed_steps(here, self.decide.steps)}]
        if part.startswith("quota"):
            busy = self.quota.busy if part == "quota-loaded" else 0
            return [msgspec.to_builtins(quotas.measure_changes(self.quota.containers, busy, seed))]
        if part.startswith("agent"):
            stage_s = SHORT_STAGE_S if part == "agent-woken" else LONG_STAGE_S
            return [msgspec.to_builtins(crowded_agent.measure_cpu(folder, self.agent.executors, self.agent.seconds, stage_s))]
        asked = self.master
        if part == "queue":
            many = Crowd(folder, asked.applications, asked.workers, asked.kinds, seed, waiting=asked.applications)
            with closing(many) as crowd:
                period(crowd)
                return [msgspec.to_builtins(turns(crowd, asked.turns))]
        with closing(Crowd(folder, asked.applications, asked.workers, asked.kinds, seed)) as crowd:
            period(crowd)  # the agents' first reports, which start everything
            return [msgspec.to_builtins(row) for row in passes(crowd, asked.few, asked.passes)]

    # ------------------------------------------------------------------ conditions

    def conditions(self, data: Data) -> list[Condition]:
        return [complete(data, self.steps()), *(judged(goal, "measured") for goal in self.goals(data))]

    def goals(self, data: Data) -> list[Goal]:
        """Return goals over all repetitions; the worst of figures that each repetition has once."""
        found, passed = [], _rows(data, "master", PassRow)
        for rows, limit_ms in ((_all(passed), PASS_MS), (_few(passed), FEW_MS)):
            if rows:
                of = f"{rows[0].applications} applications on {rows[0].workers} workers, {rows[0].changed} changed"
                took_ms = [row.pass_ms for row in rows]
                found.append(_goal(f"a planning pass, {of}, p99", percentile(took_ms, 0.99), limit_ms, "ms", len(rows)))
        if found_turns := _rows(data, "queue", TurnsRow):
            of = f"the periodic pass, {found_turns[0].waiting} applications waiting and {found_turns[0].running} running"
            cpu_ms = [ms for row in found_turns for ms in row.cpu_ms]
            found.append(_goal(f"{of}, CPU, p99", percentile(cpu_ms, 0.99), TURNS_MS, "ms", len(cpu_ms)))
        if agents := _rows(data, "agent", Spent):
            of = f"an agent with {agents[0].executors} executors at a period of 1 s"
            share = max(spent.share for spent in agents)
            found.append(_goal(of, 100 * share, 100 * AGENT_SHARE, "% of a core", len(agents)))
        if steps_ms := [100 / row["executors"] * ms for row in _plain(data, "decide") for ms in row["steps_ms"]]:
            p99_ms = percentile(steps_ms, 0.99)
            found.append(_goal("a decide step for 100 executors, p99", p99_ms, DECIDE_MS, "ms", len(steps_ms)))
        for part, limit_ms in QUOTA_MS.items():
            if quotas_ := _rows(data, part, QuotaRow):
                of = f"{quotas_[0].containers} containers, {quotas_[0].busy} more busy"
                each_ms, together_s = [ms for row in quotas_ for ms in row.each_ms], [row.together_s for row in quotas_]
                p99_ms = percentile(each_ms, 0.99)
                found.append(_goal(f"a quota in the kernel, {of}, p99", p99_ms, limit_ms, "ms", len(each_ms)))
                found.append(_goal(f"all quotas in force, {of}", max(together_s), TOGETHER_S, "s", len(together_s)))
                recorded_s = [row.told_s for row in quotas_ if row.told_s is not None]
                if recorded_s:
                    found.append(
                        _goal(f"all quotas in the engine's record, {of}", max(recorded_s), RECORDED_S, "s", len(recorded_s))
                    )
        return found

    # ------------------------------------------------------------------ tables

    def tables(self, data: Data) -> str:
        return "\n".join(
            (*_master_table(data), *_queue_table(data), *_agent_table(data), *_step_tables(data), *_where_tables(data))
        )

    def pictures(self, data: Data) -> dict[str, list[str]]:  # noqa: ARG002 - no run folders, no pictures
        return {}


def _goal(goal: str, measured: float, limit: float, unit: str, n: int) -> Goal:
    return Goal(goal=goal, measured=round(measured, 3), limit=limit, unit=unit, n=n)


def _all(rows: Sequence[PassRow]) -> list[PassRow]:
    return [row for row in rows if row.changed == row.applications and not row.where]


def _few(rows: Sequence[PassRow]) -> list[PassRow]:
    return [row for row in rows if 0 < row.changed < row.applications]


def _master_table(data: Data) -> Iterable[str]:
    rows = _rows(data, "master", PassRow)
    if not rows:
        return
    yield "**Master.** Medians; milliseconds. Drivers and agents are made up and speak as real ones do, without HTTP between."
    yield ""
    yield from table(
        (
            "applications",
            "workers",
            "executors",
            "changed",
            "workers concerned",
            "n",
            "taken in",
            "planned",
            "together",
            "worst",
            "CPU",
        ),
        (
            (
                *(found[0].applications, found[0].workers, found[0].executors, found[0].changed),
                *(f"{statistics.median(row.concerned for row in found):.0f}", len(found)),
                *(f"{statistics.median(values):.1f}" for values in _parts(found)),
                f"{max(row.pass_ms for row in found):.1f}",
                f"{statistics.median(row.cpu_ms for row in found):.1f}",
            )
            for found in (_all(rows), _few(rows), [row for row in rows if not row.changed])
            if found
        ),
    )
    yield "None changed: the reports of all agents for one period, taken in, with their samples written, and answered."
    yield ""


def _queue_table(data: Data) -> Iterable[str]:
    rows = _rows(data, "queue", TurnsRow)
    if not rows:
        return
    yield "**Queue.** The master's periodic pass, in which each application has its turn; CPU of its thread. Before every"
    yield "other one an application has ended, and the first in the queue gets its executors."
    yield ""
    yield from table(
        ("running", "waiting", "workers", "n", "median ms", "p99 ms", "worst ms"),
        (
            (
                *(row.running, row.waiting, row.workers, len(row.cpu_ms)),
                *(f"{ms:.1f}" for ms in (statistics.median(row.cpu_ms), percentile(row.cpu_ms, 0.99), max(row.cpu_ms))),
            )
            for row in rows
        ),
    )
    yield ""


def _parts(found: Sequence[PassRow]) -> tuple[list[float], ...]:
    return [row.told_ms for row in found], [row.planned_ms for row in found], [row.pass_ms for row in found]


def _agent_table(data: Data) -> Iterable[str]:
    found = [row for step in ("agent", "agent-woken") for row in _rows(data, step, Spent)]
    if not found:
        return
    yield "**Agent.** Supervisor and child under a real master, with real containers; in them a stand-in writes the progress"
    yield "file as an executor's plugin does, and drivers are made up. Docker's own work is not in it."
    yield ""
    yield from table(
        ("executors", "seconds", "% of a core", "quotas written a second", "stage events a second", "MB resident"),
        (
            (
                *(spent.executors, f"{spent.seconds:.0f}", f"{100 * spent.share:.2f}"),
                *(f"{spent.writes / spent.seconds:.1f}", f"{spent.stage_events / spent.seconds:.1f}", f"{spent.rss_mb:.0f}"),
            )
            for spent in found
        ),
    )


def _step_tables(data: Data) -> Iterable[str]:
    steps = _plain(data, "decide")
    if steps:
        yield "**Decide step.** Of executors of one worker, each of another application."
        yield ""
        yield from table(
            ("what", "executors", "n", "median ms", "p99 ms"),
            (
                (
                    *(row.get("of", STEP_BEFORE), row["executors"], len(row["steps_ms"])),
                    *(f"{statistics.median(row['steps_ms']):.2f}", f"{percentile(row['steps_ms'], 0.99):.2f}"),
                )
                for row in steps
            ),
        )
    found = [row for step in ("quota-idle", "quota-loaded") for row in _rows(data, step, QuotaRow)]
    if found:
        yield "**Quota.** From the call until the control group's file shows it; one at a time, then all as in one period."
        yield "Recorded: until the engine's record has all of these. CPU: of the process that asks, for one change, ours and"
        yield "through docker-py."
        yield ""
        yield from table(
            (
                "containers",
                "busy besides",
                "n",
                "median ms",
                "p99 ms",
                "worst ms",
                "all s",
                "recorded s",
                "CPU ms",
                "docker-py's",
            ),
            (
                (
                    *(row.containers, row.busy, len(row.each_ms), f"{statistics.median(row.each_ms):.1f}"),
                    *(f"{percentile(row.each_ms, 0.99):.1f}", f"{max(row.each_ms):.1f}", f"{row.together_s:.2f}"),
                    "-" if row.told_s is None else f"{row.told_s:.2f}",
                    *("-" if ms is None else f"{ms:.2f}" for ms in (row.cpu_ms, row.docker_py_cpu_ms)),
                )
                for row in found
            ),
        )


def _where_tables(data: Data) -> Iterable[str]:
    passes_where = [("a pass in which all changed", row.where) for row in _rows(data, "master", PassRow) if row.where]
    loops_where = [("the agent's control loop", row) for row in _plain(data, PROFILED)]
    for what, where in (*passes_where[:1], *loops_where):
        yield f"Where the time goes in {what}, under Python's profiler, waiting left out:"
        yield ""
        shares = ((part, f"{100 * share:.1f}%") for part, share in where.items())
        yield from table(("own code of", "share of the time"), shares)


def _plain(data: Data, step: str) -> Sequence[Mapping[str, Any]]:
    """Return the rows of a part, of all its repetitions."""
    return [row for name, found in data.rows.items() if name.rstrip("0123456789").rstrip("-") == step for row in found.rows]


def _rows(data: Data, step: str, kind: type[Row]) -> list[Row]:
    return [msgspec.convert(row, type=kind) for row in _plain(data, step)]
