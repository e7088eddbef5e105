"""`sparkpace config check`: whether `sparkpace.toml` says what `up`, `master` and `agent` take."""

from __future__ import annotations

import os
from pathlib import Path

import click

from controller.cli.common import home_option
from controller.cli.configuration import CONFIGURED, ONLY_CHECK, checked_table, find_config, options_of, strange_tables
from controller.cli.groups import NamingGroup
from controller.home import Home
from stage_model.errors import BadInput, PaceError


@click.group("config", cls=NamingGroup)
def config_commands() -> None:
    """Checks sparkpace.toml, which has options of up, master and agent."""


@config_commands.command("check")
@home_option
@click.argument("file", type=click.Path(path_type=Path), required=False)
@click.pass_context
def check_config(context: click.Context, home: Home, file: Path | None) -> None:
    """Says in one sentence each what is wrong with FILE, by default the one that is used here. Starts nothing.

    Exit code 0 if nothing is wrong."""
    found = find_config(file, home, os.environ)
    if found is None:
        raise BadInput(f"no configuration file was named and {home.config_file} does not exist; accepted: a file's name")
    path, tables = found
    root = context.find_root().command
    assert isinstance(root, click.Group)
    wrong, open_ones = strange_tables(tables), []
    for name in CONFIGURED:
        command, table = root.get_command(context, name), tables.get(name)
        assert command is not None
        if not isinstance(table, dict):
            continue
        _, sentences = checked_table(command, table, path)
        lacking = [key for key, option in options_of(command).items() if option.required and key not in table]
        if lacking:
            open_ones.append(f"[{name}] leaves {', '.join(lacking)} to the command line: what goes together is not checked.")
        wrong += sentences if sentences or lacking else _together(command, home, path)
    for sentence in wrong:
        click.echo(f"sparkpace: {path}: {sentence}", err=True)
    if wrong:
        context.exit(BadInput.exit_code)
    click.echo(f"{path}: nothing is wrong.")
    for sentence in open_ones:
        click.echo(sentence)


def _together(command: click.Command, home: Home, path: Path) -> list[str]:
    """What the command itself would refuse: options that exclude each other, folders that are not there."""
    words = ["--home", str(home.path), "--config", str(path)]
    try:
        with command.make_context(command.name, words, obj=ONLY_CHECK) as checking:
            command.invoke(checking)
    except PaceError as error:
        return [f"[{command.name}] {error}"]
    return []
