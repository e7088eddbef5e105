"""Division of the arguments of `sparkpace submit` into ours, spark-submit's, the application and its own, and the check of
the deploy mode that they ask for. Pure.

The application is the first word that is neither an option nor an option's value, exactly as spark-submit decides, so this
module must know which of its options take a value. The list is that of Spark 3.5 and 4.3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from controller.asks.job_options import SETTINGS
from controller.asks.job_setting import SubmitOption
from stage_model.errors import BadInput
from stage_model.nearest import nearest_names

SPARK_VALUES = frozenset(
    {
        "--archives", "--class", "--conf", "-c", "--deploy-mode", "--driver-class-path", "--driver-cores",
        "--driver-java-options", "--driver-library-path", "--driver-memory", "--exclude-packages",
        "--executor-cores", "--executor-memory", "--files", "--jars", "--keytab", "--kill", "--name",
        "--num-executors", "--packages", "--principal", "--properties-file", "--proxy-user", "--py-files", "--queue",
        "--remote", "--repositories", "--status", "--total-executor-cores",
    }
)  # fmt: skip
OUR_SCHEME = "sparkpace://"
"""Beginning of master URLs that name a Sparkpace; any other one is Spark's own."""
SPARK_FLAGS = frozenset({"--load-spark-defaults", "--supervise", "--usage-error", "--verbose", "-v", "--version"})
FORMS = ("table", "json")
DEPLOY_MODE = "spark.submit.deployMode"
CLIENT, CLUSTER = "client", "cluster"
"""The deploy modes: `sparkpace submit` stays with its driver, or a worker hosts the driver."""
_NO_SETTINGS = (
    SubmitOption(shown="--dry-run", help="only plan; start nothing"),
    SubmitOption(shown="--output json|table", choices=FORMS, help="form of the plan of --dry-run; json has all fields"),
    SubmitOption(shown="--detach", help="return once the application runs; in cluster mode, once the driver runs"),
    SubmitOption(shown="--exec", help="replace this process by the driver; show no progress"),
    SubmitOption(shown="--encrypt", help="encrypt the connections of driver and executors"),
    SubmitOption(
        shown="--master URL",
        help="another cluster manager, whose executors are paced: spark://HOST:PORT, k8s://URL, yarn, local-cluster[N,C,M] "
        f"[default: this cluster, {OUR_SCHEME}HOST:PORT]",
    ),
    SubmitOption(shown="--home DIR", kind="path", help="the cluster's directory"),
)
OPTIONS = {option.option: option for option in (*SETTINGS.values(), *_NO_SETTINGS) if option.option}
"""Options of `sparkpace submit` that are not spark-submit's, by name."""
OWN_VALUES = frozenset(name for name, option in OPTIONS.items() if option.takes_value)
OWN_FLAGS = OPTIONS.keys() - OWN_VALUES
REFUSED = {
    "--remote": "the Spark Connect server is the driver there; its sessions set spark.pace.deadline themselves",
    "--proxy-user": "executors run as the submitting user",
}

OFFERED = frozenset(
    name
    for name in OWN_VALUES | OWN_FLAGS | SPARK_VALUES | SPARK_FLAGS
    if name not in REFUSED and not (name in OPTIONS and OPTIONS[name].ours)
)
"""Options that a misspelt word may mean; options that `submit` itself gives are not among them."""


@dataclass(frozen=True, slots=True)
class OptionWord:
    """An option, which begins with a dash. `value` is what follows its "=" (`attached`), else the next word where the option
    takes one; None without a value."""

    word: str
    name: str
    value: str | None = None
    attached: bool = False

    @property
    def words(self) -> tuple[str, ...]:
        """Words as they were given."""
        return (self.word,) if self.value is None or self.attached else (self.word, self.value)


@dataclass(frozen=True, slots=True)
class SubmitArguments:
    """The arguments of one call. `own` by option name without dashes, the values of a repeated option with commas; `spark` as
    it must be handed on: without --properties-file, of which Spark reads only one; `conf` are the settings in `spark`."""

    own: dict[str, str] = field(default_factory=dict)
    flags: frozenset[str] = frozenset()
    spark: tuple[str, ...] = ()
    spark_options: dict[str, str] = field(default_factory=dict)
    conf: dict[str, str] = field(default_factory=dict)
    application: str | None = None
    application_args: tuple[str, ...] = ()


def read_options(arguments: Sequence[str]) -> tuple[list[OptionWord], tuple[str, ...]]:
    """Return the options before the application, known or not, and the rest: the application and its own words."""
    found: list[OptionWord] = []
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "-":
        word = arguments[at]
        # spark-submit reads --option=value as well; -c=... is no such form.
        name, equals, attached = word.partition("=") if word.startswith("--") else (word, "", "")
        at += 1
        if equals:
            found.append(OptionWord(word, name, attached, attached=True))
        elif name in OWN_VALUES | SPARK_VALUES and at < len(arguments):
            found.append(OptionWord(word, name, arguments[at]))
            at += 1
        else:
            found.append(OptionWord(word, name))
    return found, tuple(arguments[at:])


def with_our_scheme(arguments: Sequence[str], own: str) -> list[str]:
    """Return the words, in which Spark's way to write the address of the `own` master (sparkpace://HOST:PORT) names that
    master: some programs, such as Airflow, poll drivers only of masters that begin with spark://."""
    as_spark = own.replace(OUR_SCHEME, "spark://", 1)
    options, rest = read_options(arguments)
    words = (
        ("--master", own) if option.name == "--master" and option.value == as_spark else option.words for option in options
    )
    return [*(word for of_option in words for word in of_option), *rest]


def split_arguments(arguments: Sequence[str]) -> SubmitArguments:
    """Divide the arguments. Raise `BadInput` for an unknown option, a missing value, an option of `submit` given twice, or an
    option that `submit` cannot honour."""
    own: dict[str, str] = {}
    flags: set[str] = set()
    spark: list[str] = []
    spark_options: dict[str, str] = {}
    conf: dict[str, str] = {}
    options, rest = read_options(arguments)
    for option in options:
        name, value = option.name, _value(option)
        if value is None:
            if name in OWN_FLAGS:
                flags.add(name[2:])
            else:
                spark.append(name)
        elif name in OWN_VALUES:
            own[name[2:]] = _joined(OPTIONS[name], own.get(name[2:]), value)
        else:
            spark += [name, value] if name != "--properties-file" else []
            spark_options[name] = value
            if name in ("--conf", "-c"):
                conf.update([_setting(value)])
    return SubmitArguments(
        own=own,
        flags=frozenset(flags),
        spark=tuple(spark),
        spark_options=spark_options,
        conf=conf,
        application=rest[0] if rest else None,
        application_args=rest[1:],
    )


def _value(option: OptionWord) -> str | None:
    """Return the option's value, None for a flag."""
    name = option.name
    if name in REFUSED:
        raise BadInput(f"{name} cannot be given here: {REFUSED[name]}")
    if name in OWN_FLAGS | SPARK_FLAGS:
        if option.attached:
            raise BadInput(f"{name} takes no value, but {option.value!r} was given")
        return None
    if name not in OWN_VALUES | SPARK_VALUES:
        raise BadInput(
            f"{option.word!r} is neither an option of sparkpace submit nor of spark-submit; {nearest_names(name, OFFERED)}; "
            f"the application's own options come after its file"
        )
    if option.value is None:
        raise BadInput(f"{name} needs a value")
    return option.value


def _joined(option: SubmitOption, before: str | None, value: str) -> str:
    """Return the values of an option so far. Raise `BadInput` for a second one, unless it may be repeated."""
    name = option.option
    if option.repeated and (not value.strip() or "," in value):
        raise BadInput(f"{name} {value!r} is not usable; give one value without commas, and repeat {name} for more")
    if before is None:
        return value
    if not option.repeated:
        raise BadInput(f"{name} was given twice, as {before!r} and {value!r}; give it once")
    return f"{before},{value}"


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not equals or not key.strip():
        raise BadInput(f"--conf {text!r} is not a setting; give KEY=VALUE")
    return key.strip(), value


def check_deploy_mode(
    arguments: SubmitArguments, file: Mapping[str, str], environment: Mapping[str, str], master: str | None
) -> str:
    """Return the first mode that is given, in the order of spark-submit (SparkSubmitArguments): the option, `--conf`, the
    files of settings (`file`), the environment. `master` is the URL of another cluster manager; None means Sparkpace. Raise
    `BadInput` for a mode in which the driver would run at a place where it cannot be attached, and for --supervise in client
    mode on Sparkpace."""
    asked = {
        "--deploy-mode": arguments.spark_options.get("--deploy-mode"),
        f"--conf {DEPLOY_MODE}": arguments.conf.get(DEPLOY_MODE),
        f"{DEPLOY_MODE} in the file of settings": file.get(DEPLOY_MODE),
        "the environment variable DEPLOY_MODE": environment.get("DEPLOY_MODE"),
    }
    where, mode = next(((where, mode) for where, mode in asked.items() if mode is not None), ("", CLIENT))
    if master is None and mode not in (CLIENT, CLUSTER):
        raise BadInput(f"{where} {mode[:80]!r} is not a deploy mode; accepted: {CLIENT} or {CLUSTER}")
    if master is not None and master.startswith("k8s://") and mode != CLIENT:
        raise BadInput(
            f"{where} {mode[:80]!r} is not offered by `sparkpace submit`, which stays with its driver; accepted: {CLIENT}, "
            "or spark-submit with the settings of `sparkpace conf --attach --kubernetes`"
        )
    if master is None and mode == CLIENT and "--supervise" in arguments.spark:
        raise BadInput(f"--supervise needs --deploy-mode {CLUSTER}: only a driver that a worker hosts is started again")
    return mode
