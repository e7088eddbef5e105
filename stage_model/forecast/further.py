"""The further work that may come in a run with arguments that no run of the profile had. Pure.

Arguments may say how many files, rounds or batches there are. Then the plan is that of another run, and nothing shows before
the end of the plan that more is to come. Earlier runs show how much more runs with other arguments may need: the reserve is
large after one run and small after a few that needed the same (docs/control.md, "Other arguments").
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
"""A profile may claim any works. With this much further work a run gets all cores under any deadline that is asked for."""


class Grounds(msgspec.Struct, frozen=True, kw_only=True):
    """The grounds of a forecast: the `runs` of the profile that count, of which `same_arguments` had this run's arguments
    (None: the arguments of this run, or of all the profile's runs, are not known).

    `further` is how much more than planned the run may need, as a share of the plan; it is 0 where a run with its arguments
    has taught, or where arguments are not known. `disturbed` are the stages that no run teaches, because in each run they
    failed, were tried again or lack events. `others` are the complete runs that do not count, because they had other
    stages."""

    runs: int
    same_arguments: int | None
    further: float = 0.0
    disturbed: int = 0
    others: int = 0

    @property
    def other_arguments(self) -> bool:
        """No run with this run's arguments has taught, and that is known."""
        return self.same_arguments == 0


def grounds(runs: Sequence[RunRecord], reference: RunRecord, arguments: Arguments | None) -> Grounds:
    """Return the grounds for a run with these `arguments` that is planned as `reference` went, one of the `runs`."""
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
    """Return the core-seconds beyond `planned` that a run may need, as a share of `planned`, when runs with different
    arguments needed `works` (core-seconds). The answer is `MOST_FURTHER` at most.

    The next work may exceed the greatest by as much as the greatest exceeds the next smaller one, and at least by a half, a
    quarter or an eighth of the greatest for 2, 3 or 4 works. A single work does not show how works differ, so the next one
    may be twice as much.
    """
    known = sorted((work for work in works if work > 0), reverse=True)
    if not known or planned <= 0:
        return 1.0
    least = 0.5 ** (len(known) - 1)
    beyond = known[0] / known[1] - 1 if len(known) > 1 else least
    return min(MOST_FURTHER, max(least, known[0] * (1 + max(least, beyond)) / planned - 1))


def marks(names: Iterable[str]) -> frozenset[int]:
    """Return the places of the stages, given by their names, whose call site is that of no other stage.

    A run that has come to such a stage has left the loops of its program before that stage behind."""
    sites = [call_site(name) for name in names]
    times = Counter(sites)
    return frozenset(place for place, site in enumerate(sites) if times[site] == 1)
