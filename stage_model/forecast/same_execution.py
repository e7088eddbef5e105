"""The matching of SQL executions of one run with those of another run of the same application: pure.

A program may run one query many times, and AQE may plan each turn in another way. By the order of their kinds, a job of one
turn would be taken for a job of a later turn, and all jobs before that one would count as over. So executions are compared
first, by the kinds of their jobs. An execution of one job cannot be planned in another way, because AQE plans by what earlier
jobs of the execution wrote. Its kind is enough.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence

from stage_model.forecast.expected import SIDE_BY_SIDE, Expected, Traits

ALIKE_SHARE = 0.5
"""Share of an execution's jobs that have the kind of a job in the execution that is taken for the same."""
CHANCE = 1
"""Number of jobs that two executions share by chance: many begin by reading the same table."""


def same_executions(expected: Expected, seen: Sequence[Traits]) -> dict[int, int]:
    """Return the expected SQL execution of each execution seen, if there is one and it has several jobs. Executions keep
    their order. Executions among threads have none, because some of their jobs may be another thread's."""
    there, order = expected.kinds, list(expected.kinds)
    found: dict[int, int] = {}
    latest, further = -1, 0
    for sql, kinds in sorted(_seen(seen).items()):
        usual = sql + further
        if usual in expected.executions and usual not in there:
            continue
        after = bisect_right(order, latest)
        place = _place(kinds, there, usual, order[after : after + SIDE_BY_SIDE])
        if place is not None:
            found[sql] = latest = place
            further = place - sql
        elif usual not in there or _shared(kinds, there[usual]) <= CHANCE:
            further -= 1
    return {sql: place for sql, place in found.items() if len(expected.executions[place]) > 1}


def _place(kinds: Counter[str], there: Mapping[int, Counter[str]], usual: int, following: Sequence[int]) -> int | None:
    """Return the place of an execution with jobs of these `kinds`: of those `following`, the `usual` one if that has enough
    of them, else the one with most of them, if these are enough and more than chance."""
    enough = ALIKE_SHARE * kinds.total()
    if usual in following and _shared(kinds, there[usual]) >= enough:
        return usual
    best = max(following, key=lambda sql: _shared(kinds, there[sql]), default=None)
    if best is None:
        return None
    shared = _shared(kinds, there[best])
    return best if shared >= enough and (shared > CHANCE or there[best].total() == shared) else None


def _shared(kinds: Counter[str], others: Counter[str]) -> int:
    return (kinds & others).total()


def _seen(seen: Sequence[Traits]) -> dict[int, Counter[str]]:
    """Return the kinds of the jobs of each execution."""
    jobs: dict[int | None, Traits] = {}
    for stage in seen:
        jobs.setdefault(stage.job, stage)
    found: dict[int, Counter[str]] = {}
    for stage in jobs.values():
        if stage.sql is not None and stage.result is not None:
            found.setdefault(stage.sql, Counter())[stage.result.kind] += 1
    return found
