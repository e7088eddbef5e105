"""Settings `spark.pace.pipeline*`, in which an application names the pipeline that it is part of (docs/pipelines.md)."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from datetime import datetime

import msgspec

from stage_model.errors import BadInput
from stage_model.units import parse_deadline

SETTINGS = frozenset(("pipeline", "pipeline.by"))
MOST_JOBS = 50
"""Largest number of jobs of a pipeline at a time: each split looks at all of them many times, while agents wait."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)


class PipelineOptions(msgspec.Struct, frozen=True, kw_only=True):
    """The pipeline of a job. `by_s`: the end of the whole, in seconds after this application's submission; None: it is only
    named."""

    name: str
    by_s: float | None = None


def pipeline_options(own: Mapping[str, str], submitted: datetime, named: Callable[[str], str]) -> PipelineOptions | None:
    """Parse the settings, by name without their prefix; `named` says what the user calls each. Raise `BadInput`."""
    if "pipeline" not in own:
        if lone := sorted(SETTINGS & own.keys()):
            raise BadInput(f"{named(lone[0])} without {named('pipeline')} has no meaning; give both, or neither")
        return None
    name = own["pipeline"]
    if not _NAME.fullmatch(name):
        raise BadInput(f"{named('pipeline')} {name[:80]!r} is no name; accepted: 1 to 63 letters, digits, '.', '_' and '-'")
    if "pipeline.by" in own and "deadline" in own:
        raise BadInput(
            f"{named('deadline')} and {named('pipeline.by')} exclude each other, because the job's deadline follows "
            "from the end of its pipeline; give one of them"
        )
    by_s = None
    if "pipeline.by" in own:
        by_s = parse_deadline(own["pipeline.by"], submitted, option=named("pipeline.by"))
    return PipelineOptions(name=name, by_s=by_s)
