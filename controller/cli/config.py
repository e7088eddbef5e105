"""`sparkpace config check` and `show`: what `sparkpace.toml` says of options of `up`, `master` and `agent`."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import msgspec
from rich.table import Table

from controller.cli.common import NamedPath, home_option, json_text, output_option, print_json, table_console
from controller.cli.configuration import CONFIGURED, ONLY_CHECK, checked_table, find_config, options_of, strange_tables
from controller.cli.groups import NamingGroup
from controller.home import Home
from stage_model.errors import BadInput, PaceError


class ConfigRow(msgspec.Struct, frozen=True, kw_only=True):
    """An option that the file may have; `source`: file or default. Without a default `value` is None."""

    command: str
    option: str
    value: Any
    source: str


class ConfigCheck(msgspec.Struct, frozen=True, kw_only=True):
    """Sentences: what is `wrong` in the file, and what could not be checked."""

    file: str
    wrong: list[str]
    unchecked: list[str]


@click.group("config", cls=NamingGroup)
def config_commands() -> None:
    """Checks and shows sparkpace.toml, which has options of up, master and agent."""


@config_commands.command("check")
@home_option
@output_option
@click.argument("file", type=NamedPath(), required=False)
@click.pass_context
def check_config(context: click.Context, home: Home, as_json: bool, file: Path | None) -> None:
    """Says in one sentence each what is wrong with FILE, by default the one that is used here. Starts nothing.

    Exit code 0 if nothing is wrong."""
    found = find_config(file, home, os.environ)
    if found is None:
        raise BadInput(f"no configuration file was named and {home.config_file} does not exist; accepted: a file's name")
    path, tables = found
    wrong, open_ones = strange_tables(tables), []
    for name in CONFIGURED:
        command, table = _command(context, name), tables.get(name)
        if not isinstance(table, dict):
            continue
        _, sentences = checked_table(command, table, path)
        lacking = [key for key, option in options_of(command).items() if option.required and key not in table]
        if lacking:
            open_ones.append(f"[{name}] leaves {', '.join(lacking)} to the command line: what goes together is not checked.")
        wrong += sentences if sentences or lacking else _together(command, home, path)
    if as_json:
        print_json(ConfigCheck(file=str(path), wrong=wrong, unchecked=open_ones))
    else:
        for sentence in wrong:
            click.echo(f"sparkpace: {path}: {sentence}", err=True)
        for sentence in () if wrong else (f"{path}: nothing is wrong.", *open_ones):
            click.echo(sentence)
    context.exit(BadInput.exit_code if wrong else 0)


@config_commands.command("show")
@home_option
@output_option
@click.argument("file", type=NamedPath(), required=False)
@click.pass_context
def show_config(context: click.Context, home: Home, as_json: bool, file: Path | None) -> None:
    """Shows every option that FILE may have, its value, and whether that is FILE's or the default.

    Without FILE, the one that is used here, if any. One in which something is wrong is refused."""
    path, tables = find_config(file, home, os.environ) or (home.config_file, {})
    if sentences := strange_tables(tables):
        raise BadInput(f"{path}: {sentences[0]}")
    rows = [row for name in CONFIGURED for row in _rows(_command(context, name), tables.get(name, {}), path)]
    if as_json:
        print_json(rows)
        return
    table = Table(box=None, pad_edge=False)
    for heading in ("COMMAND", "OPTION", "VALUE", "FROM"):
        table.add_column(heading, overflow="fold")
    for row in rows:
        table.add_row(row.command, row.option, "-" if row.value is None else json_text(row.value), row.source)
    table_console().print(table)


def _rows(command: click.Command, table: Mapping[str, Any], path: Path) -> Iterator[ConfigRow]:
    """Raises `BadInput`."""
    _, sentences = checked_table(command, table, path)
    if sentences:
        raise BadInput(f"{path}: {sentences[0]}")
    for key, option in options_of(command).items():
        default = option.to_info_dict()["default"]
        value = table.get(key, False if option.is_flag and default is None else default)
        yield ConfigRow(command=command.name or "", option=key, value=value, source="file" if key in table else "default")


def _command(context: click.Context, name: str) -> click.Command:
    root = context.find_root().command
    assert isinstance(root, click.Group)
    command = root.get_command(context, name)
    assert command is not None
    return command


def _together(command: click.Command, home: Home, path: Path) -> list[str]:
    """What the command itself would refuse: options that exclude each other, folders that are not there."""
    words = ["--home", str(home.path), "--config", str(path)]
    try:
        with command.make_context(command.name, words, obj=ONLY_CHECK) as checking:
            command.invoke(checking)
    except PaceError as error:
        return [f"[{command.name}] {error}"]
    return []
