"""Settings `spark.pace.pipeline*`, in which an application names the pipeline that it is part of (docs/pipelines.md), and how
an end in time is read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from controller.asks.job_setting import Reading, declared
from stage_model.errors import BadInput
from stage_model.units import parse_deadline

MOST_JOBS = 50
"""Largest number of jobs of a pipeline at a time: each split looks at all of them many times, while agents wait."""
DEADLINE_TEXTS = (
    "90s (or 90), 10min, 1h30m after submission; 'by 07:00', 'saturday 6:30' or 'weekdays 07:00 Europe/Berlin', the next "
    "such time; or an ISO time"
)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", re.ASCII)


def read_deadline(text: str, at: Reading) -> float:
    """Return the seconds from the submission to the deadline. Raise `BadInput`."""
    return parse_deadline(text, at.submitted, option=at.named)


def write_deadline(seconds: float) -> str:
    return f"{seconds:.3f}s"


def _name(text: str, at: Reading) -> str:
    if not _NAME.fullmatch(text):
        raise BadInput(f"{at.named} {text[:80]!r} is not a name; accepted: 1 to 63 letters, digits, '.', '_' and '-'")
    return text


@dataclass(frozen=True, slots=True)
class PipelineOptions:
    """The pipeline of a job. `by_s`: the end of the whole, in seconds after this application's submission; None: it is only
    named."""

    name: str = declared("", "pipeline", _name, "name shared by several jobs that have one end together", "--pipeline NAME")
    by_s: float | None = declared(
        None,
        "pipeline.by",
        read_deadline,
        "end of the pipeline, written like a deadline; the job's deadline follows from it",
        "--by TIME",
        write=write_deadline,
    )


def checked_pipeline(given: Mapping[str, Any], named: Callable[[str], str], *, deadline: bool) -> PipelineOptions | None:
    """Return the pipeline from its fields that were `given`, None without any; `deadline` is True if the job has a deadline
    of its own. Raise `BadInput` for fields that exclude each other."""
    if "by_s" in given and "name" not in given:
        raise BadInput(f"{named('pipeline.by')} without {named('pipeline')} has no meaning; give both, or neither")
    if "by_s" in given and deadline:
        raise BadInput(
            f"{named('deadline')} and {named('pipeline.by')} exclude each other, because the job's deadline follows "
            "from the end of its pipeline; give one of them"
        )
    return PipelineOptions(**given) if given else None
