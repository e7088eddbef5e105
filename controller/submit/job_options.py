"""Requests of an application: the `spark.pace.*` settings of its conf, all checked before it is registered."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import msgspec

from controller.submit.mounts import parse_mounts
from controller.submit.pipeline_options import SETTINGS, PipelineOptions, pipeline_options
from controller.submit.placement_options import NAMES, PlacementOptions, placement_options
from controller.wire.worker import Mount
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput
from stage_model.laws import parse_constants, parse_law
from stage_model.nearest import nearest_names
from stage_model.units import NORMAL_PRIORITY, parse_deadline, parse_priority

PREFIX = "spark.pace."
CLOSED = "closed"
KNOWN = frozenset(
    (
        *("deadline", "priority", "law", "profile", "image", "python", "mounts", "force", "network"),
        # set by `sparkpace submit`, for the bridge and the master
        *("submission", "waited", "name", "submit.time.ms", "submit.uptime", "master", "token.file", "ca.file"),
        *("main", "arguments"),
        *SETTINGS,
        *NAMES,
    )
)
LONG = frozenset(("arguments", "mounts", "placement.input"))
"""Settings of any length."""
MOST_CHARACTERS = 4096
"""Length of any other setting: each is read, and labels are compared with each worker's, while others wait."""
MOST_MOUNTS = 64
"""Largest number of mounts: each is looked for before an executor starts, one executor after the other."""


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of an application. `deadline_s` counts from submission; None: no deadline. `settings` are the laws'
    constants by name, `arguments` the application's own words (None: not known), recorded with what the run teaches; `name`
    is the one it was submitted with, which its program may overrule; `waited` is its submission if that waited for other jobs
    before its driver started."""

    deadline_s: float | None = None
    priority: int = NORMAL_PRIORITY
    law: str = "forecast"
    settings: dict[str, float] = field(default_factory=dict)
    profile: str | None = None
    image: str | None = None
    python: str | None = None
    mounts: tuple[Mount, ...] = ()
    force: bool = False
    closed: bool = False
    submission: str | None = None
    waited: str | None = None
    name: str | None = None
    arguments: tuple[str, ...] | None = None
    placement: PlacementOptions = field(default_factory=PlacementOptions)
    pipeline: PipelineOptions | None = None


def job_options(conf: Mapping[str, str], *, submitted: datetime, working_dir: Path, default_law: str) -> JobOptions:
    """Parse the settings. Raise `BadInput` naming the setting, also for a `spark.pace.*` key that is not read.

    A deadline counts from `submitted` (aware), also a deadline that is a time: the next 07:00 is the next one after that.
    """
    own = {key[len(PREFIX) :]: value for key, value in conf.items() if key.startswith(PREFIX)}
    for name, value in own.items():
        if name not in KNOWN and not name.startswith("law."):
            raise BadInput(
                f"{PREFIX}{name[:80]} is not a setting; {nearest_names(PREFIX + name, (PREFIX + known for known in KNOWN))}"
            )
        if name not in LONG and len(value) > MOST_CHARACTERS:
            raise BadInput(f"{PREFIX}{name} has {len(value)} characters; accepted: {MOST_CHARACTERS} at most")
    mounts = parse_mounts(own.get("mounts", ""), working_dir)
    if len(mounts) > MOST_MOUNTS:
        raise BadInput(f"{PREFIX}mounts names {len(mounts)} paths; accepted: {MOST_MOUNTS} at most")
    deadline_s = None
    if "deadline" in own:
        deadline_s = parse_deadline(own["deadline"], submitted, option=f"{PREFIX}deadline")
    force = own.get("force", "false")
    if force not in ("true", "false"):
        raise BadInput(f"{PREFIX}force is {force!r}; accepted: true or false")
    if own.get("network", CLOSED) != CLOSED:
        raise BadInput(f"{PREFIX}network is {own['network'][:80]!r}; accepted: {CLOSED}, because a job may only be stricter")
    return JobOptions(
        deadline_s=deadline_s,
        priority=parse_priority(own["priority"], option=f"{PREFIX}priority") if "priority" in own else NORMAL_PRIORITY,
        law=parse_law(own["law"], option=f"{PREFIX}law") if "law" in own else default_law,
        settings=parse_constants(conf),
        profile=own.get("profile"),
        image=own.get("image"),
        python=own.get("python"),
        mounts=mounts,
        force=force == "true",
        closed="network" in own,
        submission=own.get("submission"),
        waited=own.get("waited"),
        name=own.get("name"),
        arguments=_arguments(own["arguments"]) if "arguments" in own else None,
        placement=placement_options(conf, PREFIX),
        pipeline=pipeline_options(own, submitted, lambda name: PREFIX + name),
    )


def _arguments(text: str) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except UNREADABLE as error:
        raise BadInput(f"{PREFIX}arguments is {text[:100]!r} ({error}); give a JSON list of strings") from error
