"""The file of a pipeline (TOML): its jobs, what each comes after, and one end. Read and checked; running it is
`pipeline_run`'s. See docs/pipelines.md."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from controller.submit.pipeline_options import MOST_JOBS, check_pipeline_name
from stage_model.errors import BadInput
from stage_model.forecast.pipeline import jobs_in_order

ACCEPTED = "a table [jobs.NAME] for each job with app, args, after, profile, priority and options; and name and by"


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
        found = msgspec.convert(tomllib.loads(text), PipelineFile)
    except (tomllib.TOMLDecodeError, msgspec.ValidationError, RecursionError) as error:
        raise BadInput(f"{source} is no pipeline ({error}); accepted: {ACCEPTED}") from error
    if not 0 < len(found.jobs) <= MOST_JOBS:
        raise BadInput(f"{source} has {len(found.jobs)} jobs; accepted: 1 to {MOST_JOBS}")
    for job_name, job in found.jobs.items():
        check_pipeline_name(job_name, option=f"{source}: job")
        if not job.app or job.app.startswith("-"):
            raise BadInput(f"{source}: app {job.app[:80]!r} of job {job_name!r} is no application; accepted: a file")
    order = jobs_in_order({job_name: job.after for job_name, job in found.jobs.items()}, where=source)
    said = check_pipeline_name(found.name or name, option=f"{source}: name")
    return msgspec.structs.replace(found, name=said, jobs={job_name: found.jobs[job_name] for job_name in order})


def read_pipeline(path: Path) -> PipelineFile:
    """Raises `BadInput`."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"pipeline file {path} cannot be read ({error}); accepted: a TOML file") from error
    return parse_pipeline(text, source=str(path), name=path.stem)


def ready(jobs: dict[str, FileJob], waiting: Sequence[str], ended: set[str]) -> list[str]:
    """Those of the `waiting` ones that may start now."""
    return [name for name in waiting if ended.issuperset(jobs[name].after)]
