"""How much further work may come in a run with arguments that no run of the profile had. Pure.

Arguments may say how many files, rounds or batches there are. Then the plan is that of another run, and nothing tells before
the end of the plan that more is to come. Earlier runs show how far runs with other arguments go: the reserve is large after
one of them and small after a few that needed the same (docs/control.md, "Other arguments").
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from statistics import median

import msgspec

from stage_model.history.profile import RunRecord
from stage_model.history.signature import call_site

Arguments = tuple[str, ...]
MOST_FURTHER = 100.0
"""A profile may claim any works. With so much further work a run gets all cores before any deadline that is asked for."""


class Grounds(msgspec.Struct, frozen=True, kw_only=True):
    """The base of a forecast: the complete `runs` of the profile, of which `same_arguments` had this run's arguments; None
    where the arguments of this run, or of all the profile's, are not known.

    `further`: how much more than planned the run may need, as a share of the plan; 0 where a run with its arguments has
    taught, or where arguments are not known."""

    runs: int
    same_arguments: int | None
    further: float = 0.0

    @property
    def other_arguments(self) -> bool:
        """It is known that no run with this run's arguments has taught."""
        return self.same_arguments == 0


def grounds(runs: Sequence[RunRecord], reference: RunRecord, arguments: Arguments | None) -> Grounds:
    """The grounds for a run with these `arguments` that is planned as `reference` went, one of the complete `runs`."""
    known = [run for run in runs if run.arguments is not None]
    if arguments is None or not known:
        return Grounds(runs=len(runs), same_arguments=None)
    same = sum(1 for run in known if run.arguments == arguments)
    if same:
        return Grounds(runs=len(runs), same_arguments=same)
    works = defaultdict[Arguments | None, list[float]](list)
    for run in known:
        if run.cpu_source == reference.cpu_source:
            works[run.arguments].append(run.work_core_s)
    further = further_share([median(those) for those in works.values()], reference.work_core_s)
    return Grounds(runs=len(runs), same_arguments=0, further=further)


def further_share(works: Iterable[float], planned: float) -> float:
    """How much more than `planned` a run may need, as a share of it, when runs with different arguments needed `works`
    (core-seconds).

    The next one may exceed the greatest by as much as that exceeds the next smaller one; by half of it, a quarter, an eighth
    for 2, 3, 4 of them at least, and by all of it when there is only one, which says nothing of how they differ. At most
    `MOST_FURTHER` is answered.
    """
    known = sorted((work for work in works if work > 0), reverse=True)
    if not known or planned <= 0:
        return 1.0
    least = 0.5 ** (len(known) - 1)
    beyond = known[0] / known[1] - 1 if len(known) > 1 else least
    return min(MOST_FURTHER, max(least, known[0] * (1 + max(least, beyond)) / planned - 1))


def marks(names: Iterable[str]) -> frozenset[int]:
    """Places of the stages, given by their names, whose call site is that of no other one.

    A run that has come to one of them has left behind what its program repeats before it."""
    sites = [call_site(name) for name in names]
    times = Counter(sites)
    return frozenset(place for place, site in enumerate(sites) if times[site] == 1)
