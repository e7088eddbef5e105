"""Parts that several commands share: the home option, the client of the local cluster, naming an application."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
import msgspec
from click.core import ParameterSource
from rich.console import Console, ConsoleDimensions

from controller.home import find_home
from controller.machine.files import local_path
from controller.wire.command import ApplicationView
from stage_model.errors import BadInput
from stage_model.nearest import nearest_applications

F = TypeVar("F", bound=Callable[..., Any])


def output_option(function: F) -> F:
    """Add --output, given to the command as `as_json`: for each command that shows data."""
    return click.option(
        "--output",
        "as_json",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        callback=lambda _context, _parameter, value: value == "json",
        help="Form of the output; json has all fields, for programs.",
    )(function)


def print_json(value: object) -> None:
    """Print what `--output json` shows: the value, or a list of them, with line ends for people."""
    click.echo(msgspec.json.format(msgspec.json.encode(value)).decode())


PICTURES = (".png", ".svg", ".pdf")


def picture_option(what: str, *, required: bool = False) -> Callable[[F], F]:
    """Add -o for a file of a picture, given to the command as `out`; its help begins with `what`."""

    def convert(_context: click.Context, _parameter: click.Parameter, value: Path | None) -> Path | None:
        if value is not None and value.suffix.lower() not in PICTURES:
            raise BadInput(f"-o {value} is not the name of a picture; give a name that ends in .png, .svg or .pdf")
        if value is not None and not value.parent.is_dir():
            raise BadInput(
                f"-o {value} cannot be written: {value.parent} is not a directory; name a file in an existing directory"
            )
        return value

    kind, text = NamedPath(dir_okay=False), f"{what}: .png, .svg or .pdf."
    return click.option("-o", "--out", type=kind, callback=convert, required=required, help=text)


def warn(sentences: Iterable[str]) -> None:
    """Print the sentences on stderr, each as a line of ours."""
    for sentence in sentences:
        click.echo(f"sparkpace: {sentence}", err=True)


class Parsed(click.types.StringParamType):
    """A text that `parse` can read (else it raises `BadInput`). The command reads it once more, so it stays as it was given.
    `at_file`: @FILE says that it is in a file."""

    def __init__(self, parse: Callable[[str], object], *, at_file: bool = False) -> None:
        self._parse, self.at_file = parse, at_file

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:  # noqa: ARG002 - Click's
        self._parse(value)
        return value


class NamedPath(click.Path):
    """A path or the URL of one (file:///PATH), as a `Path`. An empty path is refused: it would be the working directory."""

    def __init__(self, **kinds: bool) -> None:
        super().__init__(path_type=Path, **kinds)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        value = local_path(value) if isinstance(value, str) else value
        if value == "":
            self.fail("an empty path names nothing; give a path, or leave it out", param, ctx)
        return super().convert(value, param, ctx)


class NumberRange(click.FloatRange):
    """Numbers from `least` to `most`, all of them finite, and multiples of `step`. `what` names them when another is
    refused."""

    def __init__(self, what: str, least: float, most: float | None = None, step: float = 0.0) -> None:
        super().__init__(least, most)
        self.least, self.most, self.step = least, math.inf if most is None else most, step
        self.accepted = f"{what}, {least:g} {'or more' if most is None else f'to {most:g}'}"
        self.accepted += f" in steps of {step:g}" if step else ""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        try:
            number = float(value)
        except (ValueError, OverflowError):
            number = math.nan
        within = math.isfinite(number) and self.least <= number <= self.most
        if not within or (self.step and abs(number / self.step - round(number / self.step)) > 1e-6):
            self.fail(f"{value!r:.80} cannot be taken; accepted: {self.accepted}", param, ctx)
        return number


class CountRange(click.IntRange):
    """Whole numbers from `least` to `most`."""

    def __init__(self, least: int, most: int | None = None) -> None:
        super().__init__(least, most)
        self.accepted = f"a whole number, {least} {'or more' if most is None else f'to {most}'}"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:  # which names the range only where a number was given
            self.fail(f"{value!r:.80} cannot be taken; accepted: {self.accepted}", param, ctx)


def home_option(function: F) -> F:
    """Add --home, given to the command as a `Home`."""
    return click.option(
        "--home",
        type=NamedPath(file_okay=False),
        callback=lambda _context, _parameter, value: find_home(value, os.environ),
        is_eager=True,  # --config looks there
        help="The cluster's directory [default: $SPARKPACE_HOME or ~/.sparkpace].",
    )(function)


def option_words(values: Mapping[str, Any]) -> tuple[str, ...]:
    """Return options by name as words of a command line: a flag is only its name, each of several values has the name before
    it, None and "" are left out."""
    words: list[str] = []
    for name, value in values.items():
        for item in value if isinstance(value, tuple) else (value,):
            if item is True:
                words.append(f"--{name}")
            elif item is not None and item is not False and item != "":
                words += (f"--{name}", str(item))
    return tuple(words)


def is_given(context: click.Context, name: str) -> bool:
    """Return True if the command line or the configuration gives the parameter."""
    return context.get_parameter_source(name) is not ParameterSource.DEFAULT


def can_redraw(console: Console) -> bool:
    """Return True if lines can be drawn again in their place: on a terminal, unless it cannot move its cursor (TERM=dumb)."""
    return console.is_terminal and not console.is_dumb_terminal


def table_console() -> Console:
    """Return the console for tables on stdout: as wide as the terminal; a pipe has no width, and the width of a dumb terminal
    is not known: cut names would be of no use in either."""
    console = Console(highlight=False, markup=False)
    if not can_redraw(console):
        console.size = ConsoleDimensions(200, 25)
    return console


def choose(views: Sequence[ApplicationView], wanted: str) -> ApplicationView:
    """Return the application that `wanted` names: `last`, an id, a unique start of an id, or a name. A name is the
    application's own or that of its submission; it means the only running application with this name, else the newest.

    `views` are in order of submission. Raises `BadInput`.
    """
    if wanted == "last" and views:
        return views[-1]
    exact = [view for view in views if wanted in (view.application_id, view.submission)]
    named = [view for view in views if wanted in view.names]
    begins = [view for view in views if wanted and view.application_id.startswith(wanted)]
    running = [view for view in named if not view.ended]
    if len(running) > 1 and not exact:
        ids = ", ".join(view.application_id for view in running[:5])
        raise BadInput(f"{len(running)} running applications have the name {wanted!r}: {ids}; give an id")
    if exact or named:
        return (exact or running or named)[-1]
    if len(begins) == 1:
        return begins[0]
    if begins:
        ids = ", ".join(view.application_id for view in begins[:5])
        raise BadInput(f"application {wanted!r} could be any of {ids}; give more of the id")
    names = nearest_applications(
        wanted, [view.application_id for view in views], [name for view in views for name in view.names]
    )
    raise BadInput(f"no application {wanted[:80]!r} is known here; {names}, `sparkpace ps` lists them, `last` is the newest")
