"""`sparkpace.toml`, which has options of `up`, `master` and `agent`, a table for each (the command line wins), and limits of
users (`controller.cli.user_tables`); and `sparkpace config check`, which lists the mistakes in it.

The file is what --config names, else SPARKPACE_CONFIG (empty: none), else `sparkpace.toml` in the home. A file in the working
directory does not count: users who may write there would choose mounts and programs of services that another user starts
there.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import click
from click.types import FloatParamType, IntParamType

from controller.cli.common import NamedPath, Parsed, home_option, is_given, output_option, print_json, warn
from controller.cli.groups import NamingGroup
from controller.cli.user_tables import OPTION, USERS, user_texts
from controller.home import CONFIG_VARIABLE, Home
from controller.machine.files import read_plain
from stage_model.errors import BadInput, PaceError
from stage_model.nearest import nearest_names

F = TypeVar("F", bound=Callable[..., Any])
Tables = Mapping[str, Mapping[str, Any]]

CONFIGURED = ("up", "master", "agent")
"""Commands that have a table."""
LARGEST_BYTES = 1 << 20
ONLY_CHECK = object()
"""Value of a context's `obj` when its command is to check what it was given, and to do nothing."""


def config_option(function: F) -> F:
    """Add --config. The file's values become the command's defaults, checked, before other options are looked at."""
    return click.option(
        "--config",
        type=NamedPath(),
        callback=_take,
        is_eager=True,
        expose_value=False,
        help=f"Configuration file [default: ${CONFIG_VARIABLE}, else sparkpace.toml in the home].",
    )(function)


def only_check() -> bool:
    """Return True if the command that runs now is to end here, because all its input has been checked."""
    return click.get_current_context().obj is ONLY_CHECK


def _take(context: click.Context, _parameter: click.Parameter, given: Path | None) -> None:
    found = None if context.resilient_parsing else find_config(given, context.params.get("home"), os.environ)
    if found is None:
        return
    path, tables = found
    values, wrong = checked_table(context.command, tables.get(context.command.name or "", {}), path)
    if option := options_of(context.command).get(OPTION):
        texts, wrong_users = user_texts(tables)
        wrong += wrong_users
        key = option.name or OPTION
        values |= {key: [*values.get(key, ()), *texts]} if texts else {}
    if sentences := [*strange_tables(tables), *wrong]:
        more = f" (and {len(sentences) - 1} more: `sparkpace config check` lists all)" if len(sentences) > 1 else ""
        raise BadInput(f"{path}: {sentences[0]}{more}")
    context.default_map = values


def find_config(given: Path | None, home: Home | None, environment: Mapping[str, str]) -> tuple[Path, Tables] | None:
    """Return the file and its tables; None without one. Raise `BadInput` for a named file that is not there, for a file that
    other users may write, and for a file that is no TOML."""
    named = given or (Path(environment[CONFIG_VARIABLE]) if environment.get(CONFIG_VARIABLE) else None)
    if named is not None:
        try:
            path = named.expanduser().absolute()
        except RuntimeError as error:
            raise BadInput(f"configuration file {named}: {error}; name another by --config or {CONFIG_VARIABLE}") from error
    elif home is None or CONFIG_VARIABLE in environment:
        return None
    else:
        path = home.config_file
    content = read_plain(path, what="configuration file", largest=LARGEST_BYTES, follow=True, safe=True)
    if content is None:
        if named is None:
            return None
        raise BadInput(f"configuration file {path} does not exist; name another by --config or {CONFIG_VARIABLE}")
    try:
        return path, tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:  # also text that is no UTF-8, and a number of thousands of digits
        raise BadInput(f"configuration file {path} cannot be read ({error}); it must be TOML") from error


def strange_tables(tables: Tables) -> list[str]:
    """Return a sentence for each table that no command has; `user_texts` reads the limits of users."""
    return [
        f"{name[:80]!r} is not a table of it; {nearest_names(name, (*CONFIGURED, USERS))}"
        if name not in CONFIGURED
        else f"{name} is not a table; write [{name}], with options below"
        for name, table in tables.items()
        if name != USERS and (name not in CONFIGURED or not isinstance(table, dict))
    ]


def checked_table(command: click.Command, table: Mapping[str, Any], path: Path) -> tuple[dict[str, Any], list[str]]:
    """Return a table's values, by the names that Click has for the command's options, and a sentence for each value that is
    wrong. Paths count from the folder of the file, which is at `path`."""
    options = options_of(command)
    context = click.Context(command)
    values: dict[str, Any] = {}
    wrong: list[str] = []
    for key, value in table.items() if isinstance(table, dict) else ():
        option = options.get(key)
        if option is None:
            wrong.append(f"[{command.name}] has {key[:80]!r}, which is not an option; {nearest_names(key, options)}")
            continue
        kind, fits = _kind(option)
        if not fits(value):
            wrong.append(f"[{command.name}] {key} is {_shown(value)}; accepted: {kind}")
            continue
        try:
            taken = _with_paths(option, value, path.parent)
            option.type_cast_value(context, taken)
        except click.BadParameter as error:
            wrong.append(f"[{command.name}] {key}: {error.message}")
        except BadInput as error:
            wrong.append(f"[{command.name}] {key}: {error}")
        except (RuntimeError, ValueError) as error:  # the home of an unknown user; a number of thousands of digits
            wrong.append(f"[{command.name}] {key} cannot be taken ({str(error)[:80]}); accepted: {kind}")
        else:
            values[option.name or key] = taken
    return values, wrong


def _shown(value: object) -> str:
    try:
        return f"{value!r:.80}"
    except ValueError:  # a number of thousands of digits
        return "a very large number"


def options_of(command: click.Command) -> dict[str, click.Option]:
    """Return the options that a table may have, by their names there: as on the command line, without dashes before them."""
    return {
        parameter.opts[-1].lstrip("-"): parameter
        for parameter in command.params
        if isinstance(parameter, click.Option) and parameter.expose_value and parameter.name != "home"
    }


def said_options(context: click.Context) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return all options of a command as JSON has them, by their names there, and those of them that were given."""
    keys = {name: option.name or name for name, option in options_of(context.command).items()}
    values = {name: _plain(context.params[key]) for name, key in keys.items()}
    return values, {name: values[name] for name, key in keys.items() if is_given(context, key)}


def _plain(value: Any) -> Any:
    if isinstance(value, Path):
        return str(value.expanduser().absolute())
    return [_plain(item) for item in value] if isinstance(value, tuple) else value


def table_text(command: str, values: Mapping[str, Any]) -> str:
    """Return a table of the file with these values, by the names of their options; values that say nothing are left out."""
    said = {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
    # JSON texts are valid TOML, except DEL and characters beyond 16 bits, which JSON may write in two halves
    written = {
        name: json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")
        for name, value in said.items()
        if value not in (None, "", []) and value is not False
    }
    return "\n".join([f"[{command}]", *(f"{name} = {text}" for name, text in written.items())]) + "\n"


def _kind(option: click.Option) -> tuple[str, Callable[[Any], bool]]:
    """Return TOML's kind of value for the option: in words, and as a check of a value."""
    if option.is_flag:
        return "true or false", lambda value: isinstance(value, bool)
    if option.multiple:
        return "a list of strings", lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value)
    if isinstance(option.type, IntParamType):
        return "a whole number", lambda value: isinstance(value, int) and not isinstance(value, bool)
    if isinstance(option.type, FloatParamType):
        return "a number", lambda value: isinstance(value, int | float) and not isinstance(value, bool)
    return "a string", lambda value: isinstance(value, str)


def _with_paths(option: click.Option, value: Any, folder: Path) -> Any:
    """Return the value with relative paths resolved against `folder`, also the path of @FILE in the place of a value."""
    if isinstance(option.type, Parsed) and option.type.at_file and value.startswith("@"):
        return f"@{folder / Path(value[1:]).expanduser()}"
    if not isinstance(option.type, click.Path):
        return value
    if option.multiple:
        return [_from(folder, path) for path in value]
    return _from(folder, value)


def _from(folder: Path, path: str) -> str:
    """Return the path, resolved against `folder` if it is relative; an empty path stays empty, and its option refuses it."""
    return str(folder / Path(path).expanduser()) if path else path


@click.group("config", cls=NamingGroup, epilog="Example: sparkpace config check")
def config_commands() -> None:
    """Check sparkpace.toml, which has options of up, master and agent."""


@config_commands.command("check", epilog="Example: sparkpace config check sparkpace.toml")
@home_option
@output_option
@click.argument("file", type=NamedPath(), required=False)
@click.pass_context
def check_config(context: click.Context, home: Home, as_json: bool, file: Path | None) -> None:
    """List the mistakes in a configuration file and start nothing.

    Without FILE, the file that commands would read here is checked. Exit code 0 if nothing is wrong.
    """
    found = find_config(file, home, os.environ)
    if found is None:
        raise BadInput(f"no configuration file was named and {home.config_file} does not exist; name a file")
    path, tables = found
    unusable = [*strange_tables(tables), *user_texts(tables)[1]]
    wrong, open_ones = list(unusable), []
    for name in CONFIGURED:
        command, table = _command(context, name), tables.get(name)
        if not isinstance(table, dict):
            continue
        _, sentences = checked_table(command, table, path)
        lacking = [key for key, option in options_of(command).items() if option.required and key not in table]
        if lacking:
            open_ones.append(f"[{name}] leaves {', '.join(lacking)} to the command line: what goes together is not checked.")
        wrong += sentences if sentences or lacking or unusable else _together(command, home, path)
    if as_json:
        print_json({"file": str(path), "wrong": wrong, "unchecked": open_ones})
    else:
        warn(f"{path}: {sentence}" for sentence in wrong)
        for sentence in () if wrong else (f"{path}: nothing is wrong.", *open_ones):
            click.echo(sentence)
    context.exit(BadInput.exit_code if wrong else 0)


def _command(context: click.Context, name: str) -> click.Command:
    root = context.find_root().command
    assert isinstance(root, click.Group)
    command = root.get_command(context, name)
    assert command is not None
    return command


def _together(command: click.Command, home: Home, path: Path) -> list[str]:
    """Return the refusals of the command itself: for options that exclude each other, and folders that are not there."""
    words = ["--home", str(home.path), "--config", str(path)]
    try:
        with command.make_context(command.name, words, obj=ONLY_CHECK) as checking:
            command.invoke(checking)
    except PaceError as error:
        return [f"[{command.name}] {error}"]
    return []
