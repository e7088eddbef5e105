"""A submission: everything checked that can be checked without contacting anyone, and the spark-submit command.

This module reads the files that the user named, nothing else; running the command is `controller.submit.driver_run`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from pathlib import Path

from controller.asks.allocation import most_executors
from controller.asks.job_options import SETTINGS, JobOptions, job_options, setting_texts
from controller.asks.properties import parse_properties
from controller.asks.submit_args import FORMS, OUR_SCHEME, SubmitArguments
from controller.home import Cluster, Home
from controller.machine.addresses import LOOPBACK, is_loopback
from controller.machine.files import local_path, why_unreadable
from controller.machine.local_zone import local_zone
from controller.submit.attaching import JARS, attach_settings, joined
from controller.submit.authentication import authenticated
from controller.submit.bridge_jar import bridge_jar, driver_settings
from controller.submit.deploy_mode import check_deploy_mode
from controller.submit.profile_choice import ProfileChoice, read_profile
from controller.submit.spark_install import SparkInstall
from controller.wire.command import SUBMISSION_ID
from stage_model.errors import BadInput

CLASS_PATH = "spark.driver.extraClassPath"
INSTANCES = "spark.executor.instances"
DRIVER_PLACES = ("spark.driver.host", "spark.driver.bindAddress")
OFF_HEAP, PAGES = "spark.memory.offHeap.", "spark.buffer.pageSize"
EXECUTOR_OPTIONS = {
    "--executor-memory": "spark.executor.memory",
    "--executor-cores": "spark.executor.cores",
    "--num-executors": "spark.executor.instances",
    "--total-executor-cores": "spark.cores.max",
}
EXECUTORS = ("spark.executor.", "spark.cores.max", "spark.dynamicAllocation.")
"""Settings that say how many executors there are, and how large."""
MOST_ARGUMENTS = 8192
"""Largest number of characters; longer arguments are not recorded with the run (one word of a command line is bounded by the
kernel)."""
NO_FILE = "spark-internal"
"""Word of Spark for an application that is a class of its own, as its servers for SQL are."""


@dataclass(frozen=True, slots=True)
class Submission:
    """A checked submission, at `submitted_ms` of the wall clock and `submitted_uptime` of the machine's (`proc.uptime`).
    `given` are the texts of its settings by name (`job_options.SETTINGS`), and `asked` is what they say; `waited`: what it
    comes `after` has ended."""

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
    master: str | None = None
    """Master URL of another cluster manager, which starts the executors; None: ours does."""

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
    arguments: SubmitArguments, *, submission: str, submitted_ms: int, submitted_uptime: str, working_dir: Path
) -> Submission:
    """Check a submission. Raise `BadInput` for the first thing that is wrong."""
    options = arguments.spark_options
    _check_output(arguments)
    master = _other_master(arguments)
    now = datetime.fromtimestamp(submitted_ms / 1000, local_zone(os.environ))
    settings = _settings(arguments)
    # what the master would refuse later, with a driver started for nothing
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
        submission=_identifier(submission),
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
    """Raise `BadInput` for a master of ours that is not that of the home."""
    given = _given_master(arguments)
    if given is not None and given.startswith(OUR_SCHEME) and given != cluster.spark_master:
        raise BadInput(
            f"--master (spark.master) {given[:80]!r} is not the master of this home; give {cluster.spark_master}, no "
            f"--master, or another home by --home or SPARKPACE_HOME"
        )


def driver_file(job: Submission, *, spark: SparkInstall, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings for the driver's --properties-file: the user's file, and Spark's authentication. Raise `BadInput`,
    also if the file asks for a deploy mode that is not offered."""
    file = _file_settings(job, spark, environment)
    check_deploy_mode(job.arguments, file, environment, job.master)
    if job.master is not None:  # Spark's own authentication is that cluster manager's affair
        return file
    return authenticated(file, job.arguments.conf, encrypt="encrypt" in job.arguments.flags)


def command(
    job: Submission, *, home: Home, cluster: Cluster, spark: SparkInstall, environment: Mapping[str, str], file: str
) -> list[str]:
    """Return spark-submit's arguments: the user's in their order, ours where the user said nothing, then the application.
    `file` holds the `driver_file`."""
    users = _users_settings(job, spark, environment)
    settled = _attached if job.master is not None else _own
    files, ours = settled(job, users, home, cluster)
    return [
        str(spark.submit),
        *("--master", job.master or cluster.spark_master),
        *job.arguments.spark,
        *("--properties-file", file),
        *files,
        *(part for key, value in (ours | _pace_settings(job)).items() for part in ("--conf", f"{key}={value}")),
        job.application,
        *job.arguments.application_args,
    ]


def _attached(job: Submission, users: dict[str, str], home: Home, cluster: Cluster) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return options and settings of ours for a driver whose executors another cluster manager starts."""
    jars = job.arguments.spark_options.get("--jars")
    ours = joined(attach_settings(home, cluster), users if jars is None else users | {JARS: jars})
    return () if jars is None else ("--jars", ours.pop(JARS)), ours  # an option wins over a setting


def _own(job: Submission, users: dict[str, str], home: Home, cluster: Cluster) -> tuple[tuple[str, ...], dict[str, str]]:
    """Return options and settings of ours for a driver whose executors we start."""
    options = job.arguments.spark_options
    class_path = options.get("--driver-class-path") or users.get(CLASS_PATH)
    ours = _our_settings(users)
    places = driver_places(cluster)
    if not places.keys() & users.keys():  # only one of them would name another address than the other
        ours |= places
    if "--num-executors" in options and INSTANCES not in job.arguments.conf:
        # spark-submit itself honours --num-executors for YARN and Kubernetes only.
        ours[INSTANCES] = options["--num-executors"]
    ours |= {SETTINGS["token.file"].key: str(home.submit_token_file), SETTINGS["ca.file"].key: str(home.ca_file)}
    jar = str(bridge_jar())
    return ("--driver-class-path", f"{jar}{os.pathsep}{class_path}" if class_path else jar), ours


def driver_places(cluster: Cluster) -> dict[str, str]:
    """Return the settings of the address where a driver listens for executors; none where Spark's own choice is right."""
    address = _driver_address(cluster)
    return dict.fromkeys(DRIVER_PLACES, address) if address else {}


def driver_variables(cluster: Cluster, environment: Mapping[str, str]) -> dict[str, str]:
    """Return variables for the driver's environment, which is the only place for where Spark's UI listens (WebUI.bind) and
    what its links say. Return none where the user says something, or where it would move what executors need."""
    if not _driver_address(cluster) or "SPARK_LOCAL_IP" in environment:
        return {}
    return {"SPARK_LOCAL_IP": LOOPBACK, "SPARK_PUBLIC_DNS": environment.get("SPARK_PUBLIC_DNS", LOOPBACK)}


def _driver_address(cluster: Cluster) -> str:
    return cluster.driver_host or (LOOPBACK if is_loopback(cluster.host) else "")


def executor_settings(job: Submission, *, spark: SparkInstall, environment: Mapping[str, str]) -> dict[str, str]:
    """Return the settings that the number, size and memory of executors follow from, as the driver will start with them."""
    users = _users_settings(job, spark, environment)
    given = job.arguments.spark_options
    options = {setting: given[option] for option, setting in EXECUTOR_OPTIONS.items() if option in given}
    found = {**_our_settings(users), **users, **options}
    return {key: value for key, value in found.items() if key.startswith((*EXECUTORS, OFF_HEAP, PAGES))}


def _users_settings(job: Submission, spark: SparkInstall, environment: Mapping[str, str]) -> dict[str, str]:
    return {**_file_settings(job, spark, environment), **job.arguments.conf}


def _our_settings(users: Mapping[str, str]) -> dict[str, str]:
    """Return what a driver needs from its start and the user did not say."""
    ours = {key: value for key, value in driver_settings().items() if key not in users}
    if any(key.startswith(OFF_HEAP) for key in users):
        # a user who sets off-heap memory keeps that size, and Spark's pages with it
        ours = {key: value for key, value in ours.items() if not key.startswith((OFF_HEAP, PAGES))}
    return ours


def _pace_settings(job: Submission) -> dict[str, str]:
    """Return the settings of ours that the driver starts with and that the command line does not have in this form."""
    arguments = job.recorded_arguments
    texts = setting_texts(job.asked, job.given)
    if job.profile.given:
        texts["profile"] = str(job.profile.file or job.profile.name)
    if job.waited:  # nothing is left to wait for, whatever the user's settings say
        texts |= {"after": "", "waited": job.submission, "force": "true"}
    if "exec" not in job.arguments.flags:  # so this process stays and will report how the driver has ended
        texts["submission"] = job.submission
    if job.name is not None:
        texts["name"] = job.name
    if arguments is not None:
        texts["arguments"] = json.dumps(arguments)
    texts |= {"submit.time.ms": str(job.submitted_ms), "submit.uptime": job.submitted_uptime, "main": job.main}
    found = {SETTINGS[name].key: text for name, text in texts.items()}
    return {key: text for key, text in found.items() if job.arguments.conf.get(key) != text}


def _settings(arguments: SubmitArguments) -> dict[str, str]:
    """Return the settings by key, where an option wins over `--conf`."""
    given = {**arguments.own, **dict.fromkeys(arguments.flags, "true")}
    options = (setting for setting in SETTINGS.values() if setting.option[2:] in given and not setting.ours)
    return arguments.conf | {setting.key: given[setting.option[2:]] for setting in options}


def _named(arguments: SubmitArguments, name: str) -> str:
    """Return what the user calls a setting: its option, unless it has none or only `--conf` gives the setting."""
    setting = SETTINGS[name]
    as_option = setting.option[2:] in (*arguments.own, *arguments.flags)
    return setting.option if setting.option and (as_option or setting.key not in arguments.conf) else setting.key


def _other_master(arguments: SubmitArguments) -> str | None:
    """Return the master URL of another cluster manager; None where our own is meant. Raise `BadInput` for a URL that cannot
    be."""
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


def _file_settings(job: Submission, spark: SparkInstall, environment: Mapping[str, str]) -> dict[str, str]:
    """Return what spark-submit would read from the user's files of settings: --properties-file, or spark-defaults.conf, or
    both."""
    named = job.arguments.spark_options.get("--properties-file")
    defaults = Path(environment.get("SPARK_CONF_DIR") or spark.home / "conf") / "spark-defaults.conf"
    if named is None:
        return _read(defaults)
    both = "--load-spark-defaults" in job.arguments.spark
    return {**(_read(defaults) if both else {}), **_read(Path(named), named)}


def _read(file: Path, named: str = "") -> dict[str, str]:
    """Read a file of settings; a file that is not `named` need not be there."""
    try:
        return parse_properties(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if named:
            raise BadInput(f"--properties-file {named} does not exist; name an existing file") from None
        return {}
    except (OSError, UnicodeDecodeError) as error:
        why = why_unreadable(error)
        raise BadInput(f"settings file {file} cannot be read ({why}); it must be a readable UTF-8 file") from error


def _application(arguments: SubmitArguments, working_dir: Path) -> str:
    given = arguments.application
    if given is None:
        raise BadInput("no application file was given; it comes after the options: [OPTIONS] APP [ARGS]")
    if given == NO_FILE:
        return given
    if re.match(r"(?!file:)[a-z][a-z0-9+.-]*:", given) and not (working_dir / given).exists():
        return given  # hdfs://, s3a://, local: are spark-submit's to find
    path = working_dir / local_path(given)
    if not path.is_file():
        raise BadInput(
            f"application file {given!r} {'is a directory' if path.is_dir() else 'does not exist'}; give a .py file or a jar"
        )
    return given


def _check_output(arguments: SubmitArguments) -> None:
    form = arguments.own.get("output", FORMS[0])
    if form not in FORMS:
        raise BadInput(f"--output {form[:80]!r} is no form; accepted: {' or '.join(FORMS)}")
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
