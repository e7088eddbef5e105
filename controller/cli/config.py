"""`sparkpace config check`: mistakes in `sparkpace.toml`, which has options of `up`, `master` and `agent`."""

from __future__ import annotations

import os
from pathlib import Path

import click
import msgspec

from controller.cli.common import NamedPath, home_option, output_option, print_json
from controller.cli.configuration import CONFIGURED, ONLY_CHECK, checked_table, find_config, options_of, strange_tables
from controller.cli.groups import NamingGroup
from controller.home import Home
from stage_model.errors import BadInput, PaceError


class ConfigCheck(msgspec.Struct, frozen=True, kw_only=True):
    """The answer in sentences: what is `wrong` in the file, and what could not be checked."""

    file: str
    wrong: list[str]
    unchecked: list[str]


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


def _command(context: click.Context, name: str) -> click.Command:
    root = context.find_root().command
    assert isinstance(root, click.Group)
    command = root.get_command(context, name)
    assert command is not None
    return command


def _together(command: click.Command, home: Home, path: Path) -> list[str]:
    """Return what the command itself would refuse: options that exclude each other, folders that are not there."""
    words = ["--home", str(home.path), "--config", str(path)]
    try:
        with command.make_context(command.name, words, obj=ONLY_CHECK) as checking:
            command.invoke(checking)
    except PaceError as error:
        return [f"[{command.name}] {error}"]
    return []
