"""What an application says of the pipeline that it is part of: the settings `spark.pace.pipeline*`.

`spark.pace.pipeline.plan` is written by `sparkpace pipeline run` alone: which job of a file this is, and which are still to
be submitted. See docs/pipelines.md.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Annotated

import msgspec

from controller.wire.limits import Text
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput
from stage_model.forecast.pipeline import jobs_in_order
from stage_model.units import parse_deadline

SETTINGS = frozenset(("pipeline", "pipeline.by", "pipeline.plan"))
MOST_JOBS = 50
"""Of a pipeline at a time: each split looks at all of them many times, while agents wait."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)
_Few = msgspec.Meta(max_length=MOST_JOBS)


class LaterJob(msgspec.Struct, frozen=True, kw_only=True):
    """A job that was not submitted yet. `profile`: name or file; empty: not known."""

    name: Text
    after: Annotated[tuple[Text, ...], _Few] = ()
    profile: Text = ""


class PipelinePlan(msgspec.Struct, frozen=True, kw_only=True):
    """`run` names one run of the file, `job` is this one, the `place`th of `of`; `later` are those to be submitted, which may
    be after this one, after those that run, and after each other."""

    run: Text
    job: Text
    place: Annotated[int, msgspec.Meta(ge=1, le=MOST_JOBS)]
    of: Annotated[int, msgspec.Meta(ge=1, le=MOST_JOBS)]
    later: Annotated[tuple[LaterJob, ...], _Few] = ()


class PipelineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """`by_s`: the end of the whole, in seconds after this application's submission; None: it is only named."""

    name: str
    by_s: float | None = None
    plan: PipelinePlan | None = None

    @property
    def shown(self) -> str:
        """For people: the name, and the place where it is known."""
        return self.name if self.plan is None else f"{self.name} {self.plan.place}/{self.plan.of}"


def check_pipeline_name(text: str, *, option: str) -> str:
    """Of a pipeline or of a job in it. Raises `BadInput`."""
    if not _NAME.fullmatch(text):
        raise BadInput(f"{option} {text[:80]!r} is no name; accepted: 1 to 63 letters, digits, '.', '_' and '-'")
    return text


def pipeline_options(own: Mapping[str, str], submitted: datetime, named: Callable[[str], str]) -> PipelineOptions | None:
    """Of settings, by name without their prefix; `named` says what the user calls each. Raises `BadInput`."""
    if "pipeline" not in own:
        if lone := sorted(SETTINGS & own.keys()):
            raise BadInput(f"{named(lone[0])} without {named('pipeline')} has no meaning; accepted: both, or neither")
        return None
    name = check_pipeline_name(own["pipeline"], option=named("pipeline"))
    if "pipeline.by" in own and "deadline" in own:
        raise BadInput(
            f"{named('deadline')} and {named('pipeline.by')} exclude each other, as the job's deadline follows from "
            "the end of its pipeline; accepted: one of them"
        )
    by_s = None
    if "pipeline.by" in own:
        by_s = parse_deadline(own["pipeline.by"], submitted, option=named("pipeline.by"))
    plan = None
    if "pipeline.plan" in own:
        try:
            plan = msgspec.json.decode(own["pipeline.plan"], type=PipelinePlan)
        except UNREADABLE as error:
            raise BadInput(
                f"{named('pipeline.plan')} cannot be read ({error}); accepted: what `sparkpace pipeline run` writes"
            ) from error
        _check_plan(plan, named("pipeline.plan"))
    return PipelineOptions(name=name, by_s=by_s, plan=plan)


def _check_plan(plan: PipelinePlan, where: str) -> None:
    for name in (plan.run, plan.job, *(job.name for job in plan.later)):
        check_pipeline_name(name, option=where)
    later = {job.name: job.after for job in plan.later}
    if len(later) < len(plan.later) or plan.job in later:
        raise BadInput(f"{where} names a job twice; accepted: each once")
    # what is not among them runs, or has ended
    jobs_in_order({name: [one for one in after if one in later] for name, after in later.items()}, where=where)
