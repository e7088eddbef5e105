"""A submission, with every check that needs no call to a master or another service.

This module reads the files that the user named, nothing else; its command is made by `controller.submit.driver_command`.
"""

from __future__ import annotations

import json
import os
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from controller.asks.allocation import most_executors
from controller.asks.job_options import SETTINGS, JobOptions, job_options
from controller.asks.submit_args import FORMS, OUR_SCHEME, SubmitArguments
from controller.home import Cluster
from controller.machine.files import local_path
from controller.machine.local_zone import local_zone
from controller.submit.profile_choice import ProfileChoice, read_profile
from controller.wire.command import SUBMISSION_ID
from stage_model.errors import BadInput

INSTANCES = "spark.executor.instances"
MOST_ARGUMENTS = 8192
"""Largest number of characters; longer arguments are not recorded with the run (one word of a command line is bounded by the
kernel)."""
NO_FILE = "spark-internal"
"""Word of Spark for an application that is a class of its own, as its servers for SQL are."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A checked submission, at `submitted_ms` of the wall clock and `submitted_uptime` of the machine's (`proc.uptime`).
    `given` are the texts of its settings by name (`job_options.SETTINGS`), and `asked` are their values; `waited`: the jobs
    that it comes `after` have ended, or serve at `services`, addresses by the words that asked for them."""

    arguments: SubmitArguments
    submission: str
    submitted_ms: int
    submitted_uptime: str
    application: str
    main: str
    asked: JobOptions
    given: dict[str, str]
    profile: ProfileChoice = field(default_factory=ProfileChoice)
    executors: int | None = None
    executor_cores: int | None = None
    name: str | None = None
    waited: bool = False
    services: Mapping[str, str] = field(default_factory=dict)
    master: str | None = None
    """Master URL of another cluster manager, which starts the executors; None: Sparkpace starts them."""

    @property
    def due_s(self) -> float | None:
        """Time when the application has to have ended at the latest: its deadline, or the end of its pipeline."""
        asked = self.asked
        return asked.pipeline.by_s if asked.deadline_s is None and asked.pipeline is not None else asked.deadline_s

    @property
    def after(self) -> str:
        return self.given.get("after", "")

    @property
    def recorded_arguments(self) -> tuple[str, ...] | None:
        """Arguments of the program itself, by which runs are compared; None where they are too long to be recorded."""
        words = tuple(self.arguments.application_args)
        return words if len(json.dumps(words)) <= MOST_ARGUMENTS else None


def check_submission(
    arguments: SubmitArguments, *, submission: str | None, submitted_ms: int, submitted_uptime: str, working_dir: Path
) -> Submission:
    """Check a submission, which gets an id if it has none. Raise `BadInput` for the first thing that is wrong."""
    options = arguments.spark_options
    _check_output(arguments)
    master = _other_master(arguments)
    now = datetime.fromtimestamp(submitted_ms / 1000, local_zone(os.environ))
    settings = _settings(arguments)
    # the master would refuse this later, with a driver started for nothing
    asked = job_options(
        settings,
        submitted=now,
        working_dir=working_dir,
        default_law="forecast",
        attached=master is not None,
        named=partial(_named, arguments),
    )
    application = _application(arguments, working_dir)
    main = options.get("--class") or Path(application).name
    return Submission(
        arguments=arguments,
        submission=str(uuid.uuid4()) if submission is None else _identifier(submission),
        submitted_ms=submitted_ms,
        submitted_uptime=submitted_uptime,
        application=application,
        main=main,
        asked=asked,
        given={name: settings[setting.key] for name, setting in SETTINGS.items() if setting.key in settings},
        profile=read_profile(asked.profile, working_dir, None if asked.force else main),
        executors=most_executors(arguments.conf, _count(arguments, "--num-executors", INSTANCES)),
        executor_cores=_count(arguments, "--executor-cores", "spark.executor.cores"),
        name=options.get("--name") or arguments.conf.get("spark.app.name"),
        master=master,
    )


def check_own_master(arguments: SubmitArguments, cluster: Cluster) -> None:
    """Raise `BadInput` for a Sparkpace master that is not that of the home."""
    given = _given_master(arguments)
    if given is not None and given.startswith(OUR_SCHEME) and given != cluster.spark_master:
        raise BadInput(
            f"--master (spark.master) {given[:80]!r} is not the master of this home; give {cluster.spark_master}, no "
            f"--master, or another home by --home or SPARKPACE_HOME"
        )


def _settings(arguments: SubmitArguments) -> dict[str, str]:
    """Return the settings by key, where an option wins over `--conf`."""
    given = {**arguments.own, **dict.fromkeys(arguments.flags, "true")}
    options = (setting for setting in SETTINGS.values() if setting.option[2:] in given and not setting.ours)
    return arguments.conf | {setting.key: given[setting.option[2:]] for setting in options}


def _named(arguments: SubmitArguments, name: str) -> str:
    """Return the user's name for a setting: its option, unless it has no option or only `--conf` gives the setting."""
    setting = SETTINGS[name]
    as_option = setting.option[2:] in (*arguments.own, *arguments.flags)
    return setting.option if setting.option and (as_option or setting.key not in arguments.conf) else setting.key


def _other_master(arguments: SubmitArguments) -> str | None:
    """Return the master URL of another cluster manager; None where Sparkpace is meant. Raise `BadInput` for an impossible
    URL."""
    given = _given_master(arguments)
    if given is None or given.startswith(OUR_SCHEME):
        return None
    if re.match(r"(spark|k8s)://|local-cluster\[|yarn$", given):
        return given
    raise BadInput(
        f"--master (spark.master) {given[:80]!r} is not one that can be attached to; accepted: spark://HOST:PORT, k8s://URL, "
        f"yarn or local-cluster[N,CORES,MB]; for Sparkpace's own {OUR_SCHEME}HOST:PORT or no --master"
    )


def _given_master(arguments: SubmitArguments) -> str | None:
    return arguments.own.get("master", arguments.conf.get("spark.master"))


def _application(arguments: SubmitArguments, working_dir: Path) -> str:
    given = arguments.application
    if given is None:
        raise BadInput("no application file was given; it comes after the options: [OPTIONS] APP [ARGS]")
    if given == NO_FILE:
        return given
    if re.match(r"(?!file:)[a-z][a-z0-9+.-]*:", given) and not (working_dir / given).exists():
        return given  # spark-submit itself finds these (hdfs://, s3a://, local:)
    path = working_dir / local_path(given)
    if not path.is_file():
        raise BadInput(
            f"application file {given!r} {'is a directory' if path.is_dir() else 'does not exist'}; give a .py file or a jar"
        )
    return given


def _check_output(arguments: SubmitArguments) -> None:
    form = arguments.own.get("output", FORMS[0])
    if form not in FORMS:
        raise BadInput(f"--output {form[:80]!r} is not a form; accepted: {' or '.join(FORMS)}")
    if "output" in arguments.own and "dry-run" not in arguments.flags:
        raise BadInput("--output has no meaning without --dry-run; give both, or neither")


def _count(arguments: SubmitArguments, option: str, setting: str) -> int | None:
    text = arguments.spark_options.get(option) or arguments.conf.get(setting)
    if text is None:
        return None
    if not re.fullmatch(r"[1-9]\d{0,5}", text.strip()):
        raise BadInput(f"{option} {text!r} is not usable; give a whole number of 1 or more")
    return int(text)


def _identifier(text: str) -> str:
    if not SUBMISSION_ID.fullmatch(text):
        raise BadInput(f"--submission {text!r} is not usable; it must be a UUID")
    return text
