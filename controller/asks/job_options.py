"""Requests of an application: the `spark.pace.*` settings of its conf, all checked before it is registered."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from itertools import chain
from pathlib import Path, PurePath

import msgspec

from controller.asks.job_setting import (
    PREFIX,
    JobSetting,
    Reading,
    as_given,
    by,
    declared,
    fields_from,
    not_blank,
    one_of,
    settings_of,
    true_or_false,
    with_annotations,
)
from controller.asks.pipeline_options import (
    DEADLINE_TEXTS,
    PipelineOptions,
    checked_pipeline,
    read_deadline,
    write_deadline,
)
from controller.asks.placement_options import PlacementOptions, with_sparks_resources
from controller.machine.local_zone import local_zone
from controller.wire.driver import Registration
from controller.wire.worker import Mount
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput
from stage_model.laws import LAWS, parse_constants, parse_law
from stage_model.nearest import nearest_names
from stage_model.units import NORMAL_PRIORITY, PRIORITIES, comma_separated, parse_deadline, parse_priority

MOST_MOUNTS = 64
"""Largest number of mounts: each mount is looked for before an executor starts, one executor after the other."""
MOST_CHARACTERS = 4096
"""Length of a setting that is not `long`: reading a setting, and comparing labels with each worker's, keep other calls
waiting."""


def _arguments(text: str, at: Reading) -> tuple[str, ...]:
    try:
        return msgspec.json.decode(text, type=tuple[str, ...])
    except UNREADABLE as error:
        raise BadInput(f"{at.named} is {text[:100]!r} ({error}); give a JSON list of strings") from error


def _parse_mount(text: str, working_dir: PurePath, option: str) -> Mount:
    """Parse PATH, PATH:ro or PATH:rw; a relative path starts at `working_dir`. Read-only unless said. Raise `BadInput`."""
    path, colon, mode = text.rpartition(":")
    if not colon:
        path, mode = text, "ro"
    if mode not in ("ro", "rw") or not path or ":" in path:
        raise BadInput(f"{option} {text!r} is not usable; give PATH, PATH:ro or PATH:rw, PATH without , or :")
    absolute = os.path.normpath(working_dir / path)
    try:
        exists = Path(absolute).exists()
    except OSError:  # the name is too long, or lies in a folder that this user may not read
        exists = False
    if not exists:
        raise BadInput(f"{option} {text!r} does not exist; give an existing file or directory")
    return Mount(path=absolute, writable=mode == "rw", asked=True)


def parse_mounts(text: str, working_dir: PurePath, option: str = "spark.pace.mounts") -> tuple[Mount, ...]:
    """Parse the comma-separated paths, as a Spark setting carries it. Raise `BadInput`."""
    parts = comma_separated(text)
    if len(parts) > MOST_MOUNTS:
        raise BadInput(f"{option} names {len(parts)} paths; accepted: {MOST_MOUNTS} at most")
    return tuple(_parse_mount(part, working_dir, option) for part in parts)


def format_mounts(mounts: tuple[Mount, ...]) -> str:
    """Return the form that `parse_mounts` reads."""
    return ",".join(f"{mount.path}:{'rw' if mount.writable else 'ro'}" for mount in mounts)


@dataclass(frozen=True, slots=True)
class JobOptions:
    """The options of an application. `deadline_s` counts from submission; None: no deadline. `settings` are the laws'
    constants by name, `arguments` the application's own words (None: not known), recorded with what the run teaches; `name`
    is the name that it was submitted with, which its program may overrule; `waited` is its submission if that waited for
    other jobs before its driver started."""

    deadline_s: float | None = declared(
        None,
        "deadline",
        read_deadline,
        f"{DEADLINE_TEXTS}; times without a zone are local",
        "--deadline TIME",
        write=write_deadline,
    )
    priority: int = declared(
        NORMAL_PRIORITY,
        "priority",
        by(parse_priority),
        "low (0), normal (50), high (100), or 0 to 100; larger wins; or backfill (-1)",
        "--priority P",
        write=str,
        choices=tuple(PRIORITIES),
    )
    profile: str | None = declared(
        None,
        "profile",
        as_given,
        "profile of earlier runs, or a file (with a /) that holds one [default: by name and main file]",
        "--profile NAME|FILE",
        kind="profile",
    )
    law: str = declared(
        "forecast",
        "law",
        by(parse_law),
        f"control law: {', '.join(LAWS)} [default: the cluster's]",
        "--law LAW",
        choices=tuple(LAWS),
    )
    force: bool = declared(False, "force", true_or_false, "admit the job although the deadline cannot be met", "--force")
    observe: bool = declared(
        False, "observe", true_or_false, "only watch the job; it is admitted although the deadline cannot be met", "--observe"
    )
    mounts: tuple[Mount, ...] = declared(
        (),
        "mounts",
        lambda text, at: parse_mounts(text, at.working_dir, at.named),
        "further path that executors see (repeat the option; commas separate the paths of the setting)",
        "--mount PATH[:ro|:rw]",
        write=format_mounts,
        kind="path",
        repeated=True,
        starting=True,
        long=True,
    )
    image: str | None = declared(None, "image", not_blank, "executor image", "--image IMAGE", starting=True)
    python: str | None = declared(
        None, "python", not_blank, "Python of the executors", "--python PATH", kind="path", starting=True
    )
    closed: bool = declared(
        False,
        "network",
        lambda text, at: bool(one_of(text, at)),
        "executors reach the driver and each other, nothing outside",
        "--network closed",
        choices=("closed",),
        starting=True,
    )
    submission: str | None = declared(None, "submission", as_given, "id of the submission", "--submission UUID", ours=True)
    waited: str | None = declared(
        None, "waited", as_given, "id of the submission, if it waited for other jobs before its driver started", ours=True
    )
    name: str | None = declared(None, "name", as_given, "the application's name, as --name gives it", ours=True)
    arguments: tuple[str, ...] | None = declared(
        None, "arguments", _arguments, "the application's own arguments, as a JSON list", ours=True, long=True
    )
    settings: dict[str, float] = field(default_factory=dict)
    placement: PlacementOptions = field(default_factory=PlacementOptions)
    pipeline: PipelineOptions | None = None

    @property
    def unjudged(self) -> bool:
        """True if the job is admitted although its deadline cannot be met."""
        return self.force or self.observe


_OF_THE_BRIDGE = (
    JobSetting(name="master", help="sparkpace://HOST:PORT of the master, if another cluster manager starts the executors"),
    JobSetting(name="token.file", help="file of the submit token"),
    JobSetting(name="ca.file", help="certificate of the cluster's CA [default: ca.pem in the home]"),
    JobSetting(name="placement.input", help="paths of the input; Hadoop knows which hosts have it", starting=True, long=True),
    JobSetting(name="submit.time.ms", help="epoch milliseconds of the submission", shown="--submitted-ms MS", ours=True),
    JobSetting(name="submit.uptime", help="the machine's uptime at submission", shown="--submitted-uptime TEXT", ours=True),
    JobSetting(name="main", help="the main file or class", ours=True),
)
"""Settings that only the driver's bridge reads."""

_FIELDS = chain.from_iterable(map(settings_of, (JobOptions, PipelineOptions, PlacementOptions)))
SETTINGS = {setting.name: setting for setting in (*(setting for _, setting in _FIELDS), *_OF_THE_BRIDGE)}
"""All settings of a job by their names below `PREFIX`, except the laws' constants (`stage_model.laws`)."""


def job_options(
    conf: Mapping[str, str],
    *,
    submitted: datetime,
    working_dir: PurePath,
    default_law: str,
    attached: bool = False,
    named: Callable[[str], str] = PREFIX.__add__,
) -> JobOptions:
    """Parse the settings. Raise `BadInput`, also for a `spark.pace.*` key that is not read; `named` returns what the user
    calls a setting, by its name below `PREFIX`.

    A deadline counts from `submitted` (aware), also a deadline that is a time: the next 07:00 is the next one after that.
    `attached` is True for an application whose executors another cluster manager starts.
    """
    values = {}
    for key, text in conf.items():
        if not key.startswith(PREFIX):
            continue
        name = key.removeprefix(PREFIX)
        setting = SETTINGS.get(name)
        if setting is None and not name.startswith("law."):
            known = (declared.key for declared in SETTINGS.values())
            raise BadInput(f"{key[:91]} is not a setting; {nearest_names(key, known)}")
        if len(text) > MOST_CHARACTERS and not (setting and setting.long):
            raise BadInput(f"{key} has {len(text)} characters; accepted: {MOST_CHARACTERS} at most")
        if setting is None or (setting.may_be_empty and not text.strip()):
            continue
        if attached and setting.starting:
            raise BadInput(
                f"{named(name)} says how executors start, which another cluster manager does here; use that "
                "manager's own settings, or `sparkpace submit` without --master"
            )
        values[name] = setting.read(text, Reading(setting, named(name), submitted, working_dir))
    return JobOptions(
        **{"law": default_law} | fields_from(JobOptions, values),
        settings=parse_constants(conf),
        placement=with_sparks_resources(PlacementOptions(**fields_from(PlacementOptions, values)), conf),
        pipeline=checked_pipeline(fields_from(PipelineOptions, values), named, deadline="deadline" in values),
    )


def setting_texts(options: JobOptions, given: Mapping[str, str]) -> dict[str, str]:
    """Return the texts of settings, by name, as a driver takes them: they mean the same there as the `given` texts, from
    which the options were read, mean here."""
    texts = dict(given)
    for part in filter(None, (options, options.placement, options.pipeline)):
        for name, setting in settings_of(part):
            if setting.write is not None and setting.name in given:
                texts[setting.name] = setting.write(getattr(part, name))
    return texts


def asked_deadline_s(registration: Registration) -> float | None:
    """Return the deadline in seconds after submission; None where the user asked for none, or for an unreadable one."""
    with suppress(BadInput):
        asked = with_annotations(registration.conf).get(f"{PREFIX}deadline", "")
        if 0 < len(asked) <= MOST_CHARACTERS:
            return parse_deadline(asked, datetime.now(local_zone(os.environ)) - timedelta(seconds=registration.age_s))
    return None
