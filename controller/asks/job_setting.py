"""Declaration of the settings of a job (`spark.pace.*`) and of the options of `sparkpace submit`.

A `JobSetting` is written once, at the field that holds its value (`job_options.SETTINGS` has all of them). The command line,
its help and completion, the check before a driver starts, the master's check, and the table of docs/reference/settings.md
follow.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from pathlib import PurePath
from typing import Any, Literal

from stage_model.errors import BadInput

PREFIX = "spark.pace."
ANNOTATIONS = "sparkpace.io/"
ANNOTATED = ("deadline", "priority")
"""Names of the settings that annotations of these names give, below `ANNOTATIONS`."""
_OF_DRIVERS = f"spark.kubernetes.driver.annotation.{ANNOTATIONS}"


@dataclass(frozen=True, slots=True, kw_only=True)
class SubmitOption:
    """An option of `sparkpace submit`, `shown` with its value (a flag has none). A shell offers the `choices` and values of
    the `kind`."""

    help: str
    shown: str = ""
    choices: tuple[str, ...] = ()
    kind: Literal["", "path", "profile", "application"] = ""
    repeated: bool = False
    ours: bool = False
    """True if `sparkpace submit` itself gives it, so that no help or shell offers it."""

    @property
    def option(self) -> str:
        """Name of the option, empty for a setting without one."""
        return self.shown.partition(" ")[0]

    @property
    def takes_value(self) -> bool:
        return " " in self.shown


@dataclass(frozen=True, slots=True)
class Reading:
    """Surroundings of a text that is read: its setting, the name that the user gave it by, the moment of the submission
    (aware), and the folder that relative paths start from."""

    setting: JobSetting
    named: str
    submitted: datetime
    working_dir: PurePath


def as_given(text: str, _at: Reading) -> str:
    return text


@dataclass(frozen=True, slots=True, kw_only=True)
class JobSetting(SubmitOption):
    """A setting of a job; if it is `shown`, `sparkpace submit` takes it by that name, too. The text of a flag is `true` or
    `false`. `read` raises `BadInput`; `write` returns a text that means the same in another folder and at a later time (None:
    the text as it was given does)."""

    name: str
    """Name below `PREFIX`."""
    read: Callable[[str, Reading], Any] = as_given
    write: Callable[[Any], str] | None = None
    may_be_empty: bool = False
    """True if an empty text says the same as no setting."""
    starting: bool = False
    """True if the setting says how executors start, so that it is for applications whose executors Sparkpace starts."""
    long: bool = False
    """True if the text may have any length."""

    @property
    def key(self) -> str:
        return PREFIX + self.name


def declared(default: Any, name: str, read: Callable[[str, Reading], Any], help: str, shown: str = "", **rest: Any) -> Any:  # noqa: A002
    """Return a dataclass field with its `JobSetting`; of the default `dict` each object has its own."""
    metadata = {"setting": JobSetting(name=name, read=read, help=help, shown=shown, **rest)}
    return field(default_factory=default, metadata=metadata) if default is dict else field(default=default, metadata=metadata)


def settings_of(options: Any) -> Iterator[tuple[str, JobSetting]]:
    """Yield the names of the fields of a dataclass that are settings, each with its declaration."""
    for option_field in fields(options):
        if "setting" in option_field.metadata:
            yield option_field.name, option_field.metadata["setting"]


def fields_from(options: type[Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values of settings that are fields of the dataclass, by the names of these fields."""
    return {name: values[setting.name] for name, setting in settings_of(options) if setting.name in values}


# ---------------------------------------------------------------- readers


def by(parse: Callable[..., Any]) -> Callable[[str, Reading], Any]:
    """Return a reader from a parser that takes the name of its text: `parse(text, option=NAME)`."""
    return lambda text, at: parse(text, option=at.named)


def not_blank(text: str, at: Reading) -> str:
    if not text.strip():
        raise BadInput(f"{at.named} is empty; give a value or leave it out")
    return text


def one_of(text: str, at: Reading) -> str:
    """Return the text if it is one of the setting's choices. Raise `BadInput`."""
    if text not in at.setting.choices:
        raise BadInput(f"{at.named} is {text[:80]!r}; accepted: {', '.join(at.setting.choices)}")
    return text


def true_or_false(text: str, at: Reading) -> bool:
    if text not in ("true", "false"):
        raise BadInput(f"{at.named} is {text[:80]!r}; accepted: true or false")
    return text == "true"


def with_annotations(conf: Mapping[str, str]) -> dict[str, str]:
    """Return the settings, with further ones from annotations of a driver's pod; a setting goes before an annotation.

    `spark-submit` and the Spark operator hand a driver the annotations that they give its pod as settings. An annotation that
    is written to the pod in another way (a pod template, `kubectl annotate`) is not seen. Raise `BadInput` for an annotation
    of Sparkpace's that has no meaning."""
    given = {key.removeprefix(_OF_DRIVERS): text for key, text in conf.items() if key.startswith(_OF_DRIVERS)}
    for name in given:
        if name not in ANNOTATED:
            known = " and ".join(ANNOTATIONS + one for one in ANNOTATED)
            raise BadInput(f"{ANNOTATIONS}{name[:91]} is not an annotation of a driver's pod that is read; there are {known}")
    return {PREFIX + name: text for name, text in given.items()} | dict(conf)
