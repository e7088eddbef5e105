"""Commands that run in this process or are only parsed, and refusals: the exit code and the values named, whatever the words
are."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from controller.cli.main import main
from controller.home import Cluster, Home
from controller.machine.files import write_whole
from controller.machine.process import find_process
from tests.fakes.master import TOKEN, Server, serving
from tests.fakes.refusals import assert_names


def run(*words: str, **environment: str | None) -> Result:
    return CliRunner(env=environment).invoke(main, list(words), prog_name="sparkpace")


def parsed(words: Sequence[str]) -> click.Context:
    """Return the context of the command that the words call, with what it was given; nothing is done. Raise `UsageError` or
    `BadInput` for words that no command takes."""
    one: click.Command | None = main
    rest = list(words)
    while isinstance(one, click.Group):
        one, rest = one.resolve_command(click.Context(one), rest)[1:]
    assert one is not None
    return one.make_context(one.name, rest)


def assert_refused(result: Result, code: int, *named: object) -> None:
    """Check that a command printed nothing and ended with this code, and that its last line names each of the values."""
    assert result.exit_code == code, result.output
    assert result.stdout == ""
    last = result.stderr.strip().splitlines()[-1]
    assert last.startswith(("sparkpace: ", "Error: "))
    assert "Traceback" not in result.stderr
    assert_names(last, *named)


def table(text: str) -> list[Any]:
    """Read rows of `WORDS | NAMED`, written as for a shell: the words of a command, and the values that its refusal names."""
    rows = [line.strip().split("| ") for line in text.strip().splitlines()]
    return [pytest.param(shlex.split(words), shlex.split(named), id=words) for words, named in rows]


def write_cluster(home: Home, **fields: Any) -> None:
    """Write that a cluster runs, with this process as its master."""
    this = find_process(os.getpid())
    assert this is not None
    plain = {"cluster_id": "c", "url": "https://127.0.0.1:1", "host": "127.0.0.1", "port": 1, "runtime": "process"}
    home.write_cluster(Cluster(**{**plain, "master": this, **fields}))


@contextmanager
def served_home(path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Home, Server]]:
    """Provide the home that commands find, and its master (`fakes.master`)."""
    home = Home(path)
    home.create()
    write_whole(home.submit_token_file, TOKEN.encode())
    monkeypatch.setenv("SPARKPACE_HOME", str(home.path))
    with serving(home) as master:
        write_cluster(home, url=master.url, port=master.server_port)
        yield home, master
