"""The lessons of earlier runs, in words: the closed set of reasons why a run teaches its profile nothing, the sentence before
the next run of the job, and the basis of a forecast. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum

from controller.wire.basis import Basis, Untaught
from stage_model.forecast.further import Grounds
from stage_model.history.profile import like_named
from stage_model.history.run import Run
from stage_model.units import format_duration

LastUntaught = Mapping[str, tuple[str, Untaught]]
"""The last run of a job and why it taught nothing, by the key of its profile; jobs whose last run taught have no entry."""


class NoLesson(StrEnum):
    """A reason, as it is stored with the run's record."""

    NOT_WELL = "not_well"
    """Another run would learn work that never ended."""
    EVENTS_MISSING = "events_missing"
    """Events of the driver were lost, could not be applied, or were too many."""
    NO_JOB = "no_job"
    PROFILE = "profile"
    """The profile is damaged or cannot be written."""


CLAUSES = {
    NoLesson.NOT_WELL: "it did not end well",
    NoLesson.EVENTS_MISSING: "not all that it did is known, because events of its driver are missing",
    NoLesson.NO_JOB: "it ran no Spark job",
    NoLesson.PROFILE: "its profile cannot be read or written",
}


def untaught(reason: NoLesson, detail: str = "") -> Untaught:
    """Return the reason with its clause for people, to which a `detail` is added."""
    return Untaught(reason=reason, sentence=CLAUSES[reason] + (f" ({detail})" if detail else ""))


def why_untaught(run: Run, *, succeeded: bool, left_out: int) -> Untaught | None:
    """Return the reason why a run that has ended teaches nothing; None if it teaches. `succeeded`: its driver ended well,
    whatever single jobs did; `left_out`: events that could not be taken in."""
    if not succeeded:
        return untaught(NoLesson.NOT_WELL)
    if run.complete and not left_out:
        return None
    no_job = run.ended and not run.jobs and not run.lossy and not left_out
    return untaught(NoLesson.NO_JOB if no_job else NoLesson.EVENTS_MISSING)


def no_profile(key: str, untaught: LastUntaught, known: Iterable[str]) -> str:
    """Return the sentence for a job without a profile. `key` is empty where its program will name the profile; `known` are
    the keys of all profiles."""
    named = f"no profile {key!r} yet" if key else "no profile yet"
    if key not in untaught:
        return f"{named}: a first run takes what is free and teaches{like_named(key, known)}"
    application_id, why = untaught[key]
    taught = f"the last run, {application_id}, taught nothing, because {why.sentence}"
    return f"{named}: {taught}; a run takes what is free until one has taught{like_named(key, known)}"


def basis(grounds: Grounds | None, recognised: float | None = None, late_since_s: float | None = None) -> Basis:
    """Return the basis of a forecast. `grounds` None: no profile is known. `recognised` and `late_since_s` are as in
    `Basis`."""
    parts = [_taught(grounds)]
    if grounds is not None and grounds.disturbed:
        stages = "1 stage" if grounds.disturbed == 1 else f"{grounds.disturbed} stages"
        parts.append(f"no run is known in which {stages} ran undisturbed")
    if grounds is not None and grounds.others:
        others = "1 run with other stages does" if grounds.others == 1 else f"{grounds.others} runs with other stages do"
        parts.append(f"{others} not count (--profile keeps programs of one name apart)")
    if recognised is not None:
        parts.append(f"{recognised:.0%} of the work seen is recognised")
    if late_since_s is not None:
        parts.append(f"late since {format_duration(late_since_s)} after submission")
    return Basis(
        runs=grounds.runs if grounds else 0,
        same_arguments=grounds.same_arguments if grounds else None,
        further=round(grounds.further, 4) if grounds else 0.0,
        recognised=None if recognised is None else round(recognised, 4),
        late_since_s=None if late_since_s is None else round(late_since_s, 3),
        sentence="; ".join(parts),
    )


def _taught(grounds: Grounds | None) -> str:
    if grounds is None:
        return "no earlier run is known"
    planned = f"planned from {grounds.runs} run{'s' if grounds.runs > 1 else ''}"
    if grounds.same_arguments is None:
        return f"{planned}; arguments were not compared"
    if grounds.same_arguments == 0:
        return f"{planned} with other arguments: time is kept for {grounds.further:.0%} more work"
    if grounds.same_arguments == grounds.runs:
        return f"{planned} with the same arguments"
    return f"{planned}, {grounds.same_arguments} of them with the same arguments"
