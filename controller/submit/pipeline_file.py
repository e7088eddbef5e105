"""The file of a pipeline (TOML): its jobs, what each comes after, and one end. Read and checked; running it is
`pipeline_run`'s. See docs/pipelines.md."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import msgspec

from controller.files import why_unreadable
from controller.submit.pipeline_options import MOST_JOBS, check_pipeline_name
from stage_model.errors import BadInput
from stage_model.forecast.pipeline import jobs_in_order
from stage_model.nearest import nearest_names

ACCEPTED = "a table [jobs.NAME] for each job with app, args, after, profile, priority and options; and name and by"
VALUES = {
    "by": "a time or a duration in quotes",
    "name": "a name in quotes",
    "jobs": "tables [jobs.NAME]",
    "app": "a file in quotes",
    "args": "a list of words in quotes",
    "after": "a list of jobs' names in quotes",
    "profile": "a profile's name or file in quotes",
    "priority": "low, normal or high in quotes, or 0 to 100",
    "options": "a list of words in quotes",
}
"""Of each key, for refusals."""
T = TypeVar("T", bound=msgspec.Struct)


class FileJob(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """`options` are further ones of `sparkpace submit`."""

    app: str
    args: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    profile: str | None = None
    priority: str | int | None = None
    options: tuple[str, ...] = ()

    def words(self, home: Path, *more: str) -> list[str]:
        """What `sparkpace submit` is given, with `more` options before the application."""
        own = {"--home": home, "--profile": self.profile, "--priority": self.priority}
        said = [word for name, value in own.items() if value is not None for word in (name, str(value))]
        return [*said, *self.options, *more, self.app, *self.args]


class PipelineFile(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The `jobs` by name, each behind those that it comes after; `by` is the end as a user says it."""

    jobs: dict[str, FileJob]
    name: str = ""
    by: str | None = None


def parse_pipeline(text: str, *, source: str, name: str) -> PipelineFile:
    """`name` is that of a file that does not say one. Raises `BadInput`."""
    try:
        raw = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # also a number of thousands of digits
        raise BadInput(f"{source} is no pipeline ({error}); accepted: {ACCEPTED}") from error
    tables = raw.get("jobs", {})
    found = _read(raw | {"jobs": {} if isinstance(tables, dict) else tables}, PipelineFile, source)
    if not 0 < len(tables) <= MOST_JOBS:
        raise BadInput(f"{source} has {len(tables)} jobs; accepted: 1 to {MOST_JOBS}")
    jobs: dict[str, FileJob] = {}
    for job_name, table in tables.items():
        check_pipeline_name(job_name, option=f"{source}: job")
        jobs[job_name] = job = _read(table, FileJob, f"{source}: job {job_name!r}")
        if not job.app or job.app.startswith("-"):
            raise BadInput(f"{source}: app {job.app[:80]!r} of job {job_name!r} is no application; accepted: a file")
        if len(set(job.after)) < len(job.after):
            raise BadInput(f"{source}: job {job_name!r} is after one job twice; accepted: each once")
    order = jobs_in_order({job_name: job.after for job_name, job in jobs.items()}, where=source)
    said = check_pipeline_name(raw.get("name", name), option=f"{source}: name")
    return msgspec.structs.replace(found, name=said, jobs={job_name: jobs[job_name] for job_name in order})


def _read(table: object, kind: type[T], where: str) -> T:
    """The table as a `kind`. Raises `BadInput` that begins with `where` and names the key."""
    if not isinstance(table, dict):
        raise BadInput(f"{where} is no table; accepted: {ACCEPTED}")
    fields = {field.name: field for field in msgspec.structs.fields(kind)}
    for key, value in table.items():
        if key not in fields:
            raise BadInput(f"{where} has a key {key[:80]!r} that means nothing; {nearest_names(key, fields)}")
        try:
            msgspec.convert(value, fields[key].type)
        except msgspec.ValidationError as error:
            raise BadInput(f"{where}: {key} cannot be {value!r:.80}; accepted: {VALUES[key]}") from error
    if missing := [name for name, field in fields.items() if field.required and name not in table]:
        raise BadInput(f"{where} has no {missing[0]}; accepted: {VALUES[missing[0]]}")
    return msgspec.convert(table, kind)


def read_pipeline(path: Path) -> PipelineFile:
    """Raises `BadInput`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"pipeline file {path} cannot be read ({why_unreadable(error)}); accepted: a TOML file") from error
    return parse_pipeline(text, source=str(path), name=path.stem)


def ready(jobs: dict[str, FileJob], waiting: Sequence[str], ended: set[str]) -> list[str]:
    """Those of the `waiting` ones that may start now."""
    return [name for name in waiting if ended.issuperset(jobs[name].after)]
