"""Declaration of the options of `sparkpace up`, `master` and `agent`.

A `ServiceOption` is written once, in `service_options`, `master_options` or `growth_options`. The command line and its
help, the table of `sparkpace.toml`, the checks, the words that `up` hands on to a service, the values that the service gets,
and the table of docs/reference/services.md follow from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from controller.cli.checks import absolute_notify
from controller.cli.common import NamedPath, Parsed, option_words
from controller.runtime.table import RUNTIMES
from stage_model.errors import BadInput

F = TypeVar("F", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class ServiceOption:
    """An option of one service. Click takes it as its `kind`; without one, as a text that `parse(text, option=--NAME)` can
    read."""

    name: str
    """Name without dashes before it."""
    help: str
    kind: click.ParamType[Any] | None = None
    parse: Callable[..., Any] | None = None
    default: Any = None
    required: bool = False
    flag: bool = False
    multiple: bool = False
    field: str = ""
    """Name of the value for the command and the service, where it differs from the option's name."""
    everywhere: bool | None = None
    """True for an option that only runtimes have whose executors may be on any machine, False for an option that only the
    other runtimes have; None: all runtimes have it."""
    starting: bool = False
    """True for an option that only runtimes have which start executors."""
    up: bool = True
    """True if `up` has the option, too, and hands it on to each service of its cluster."""
    read: Callable[[Any], Any] | None = None
    """Function from the command's value to the service's value; None: `parse`, else no change. It raises `BadInput`."""

    @property
    def key(self) -> str:
        return self.field or self.name.replace("-", "_")

    def add_to(self, function: F) -> F:
        return click.option(
            f"--{self.name}",
            self.key,
            type=self.kind or (Parsed(self._parsed) if self.parse else None),
            default=False if self.flag else self.default,
            show_default=self.default not in (None, ""),
            required=self.required,
            is_flag=self.flag,
            multiple=self.multiple,
            help=self.help,
        )(function)

    def value(self, given: Mapping[str, Any]) -> Any:
        """Return the value for the service. Raise `BadInput`."""
        value = given[self.key]
        if value is None:
            return None
        if self.read is not None:
            return self.read(value)
        if self.parse is not None:
            return tuple(map(self._parsed, value)) if self.multiple else self._parsed(value)
        return value

    def handed_on(self, given: Mapping[str, Any]) -> Any:
        """Return the value that `up` hands on to a process, which may have another working directory. Raise `BadInput`."""
        value = given[self.key]
        if isinstance(self.kind, NamedPath):
            return self.value(given)
        if isinstance(self.kind, Parsed) and self.kind.at_file and value is not None:
            return absolute_notify(value)
        return value

    def _parsed(self, text: str) -> Any:
        return self.parse(text, option=f"--{self.name}") if self.parse else text


def takes(options: Iterable[ServiceOption]) -> Callable[[F], F]:
    """Return a decorator that adds the options to a Click command; it gets them by their keys."""

    def add(function: F) -> F:
        for option in reversed(tuple(options)):
            function = option.add_to(function)
        return function

    return add


def values_of(options: Iterable[ServiceOption], given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the values for a service, by key. Raise `BadInput`."""
    return {option.key: option.value(given) for option in options}


def option_defaults(options: Iterable[ServiceOption]) -> dict[str, Any]:
    """Return the values for a service where only its required options are given, by key."""
    there = [option for option in options if not option.required]
    unset = {option.key: () if option.multiple else False if option.flag else option.default for option in there}
    return values_of(there, unset)


def handed_on(options: Iterable[ServiceOption], given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the words by which `up` hands its options on to a service. Raise `BadInput`."""
    return option_words({option.name: option.handed_on(given) for option in options if option.up})


def check_runtime(options: Iterable[ServiceOption], given: Mapping[str, Any]) -> None:
    """Raise `BadInput` for an option that the runtime does not have."""
    runtime = given["runtime"]
    row = RUNTIMES.get(runtime)  # None: auto, which never chooses a runtime that is everywhere
    everywhere = row is not None and row.everywhere
    for option in options:
        said = given[option.key] not in (option.default, False)
        if said and option.starting and row is not None and not row.starts:
            having = " or ".join(other.name for other in RUNTIMES.values() if other.starts)
            raise BadInput(f"--runtime {runtime} has no --{option.name}; leave it out, or give --runtime {having}")
        if said and option.everywhere is not None and option.everywhere != everywhere:
            others = (other for other in RUNTIMES.values() if not other.starts and other.everywhere == option.everywhere)
            having = " or ".join(other.name for other in others)
            raise BadInput(f"--runtime {runtime} has no --{option.name}; leave it out, or give --runtime {having}")
