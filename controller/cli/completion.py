"""`sparkpace completion`: the script that makes a shell complete our commands and options (Click's own), and the offers for
an argument: ids of applications, names of profiles, workers. Where these cannot be read, the shell offers nothing and prints
no error.

The words of `sparkpace submit` are completed by `submit_completion`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import click
from click.shell_completion import CompletionItem, get_completion_class

from stage_model.errors import PaceError

if TYPE_CHECKING:  # the script is printed at each start of a shell, and does not need these imports
    from controller.client import MasterClient
    from controller.home import Home
    from controller.wire.command import ApplicationView

TIMEOUT_S = 1.0
"""Time-out of each step of a call: a person waits with a finger on the key."""

Complete = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


@click.command(epilog='Example: eval "$(sparkpace completion bash)"')
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script that makes a shell complete commands and names.

    The names are options, ids of applications, profiles and workers.
    """
    made = get_completion_class(shell)
    assert made is not None
    click.echo(made(context.find_root().command, {}, "sparkpace", "_SPARKPACE_COMPLETE").source())


def complete_running(home: Home) -> Iterable[CompletionItem]:
    """Return the ids of applications that have not ended."""
    return [_application(view) for view in reversed(_client(home).applications()) if not view.ended]


def complete_runs(home: Home) -> Iterable[CompletionItem]:
    """Return the ids of runs of which a record is kept, newest last, and `last`."""
    folders = sorted(path.name for path in home.runs.glob("*/"))
    return map(CompletionItem, [*(["last"] if folders else []), *folders])


def complete_workers(home: Home) -> Iterable[CompletionItem]:
    return [CompletionItem(worker.worker_id, help=worker.host) for worker in _client(home).workers()]


def complete_profiles(home: Home) -> Iterable[CompletionItem]:
    from controller.runs.profile_store import ProfileStore

    return map(CompletionItem, ProfileStore(home.profiles).list())


def completes(items: Callable[[Home], Iterable[CompletionItem]]) -> Complete:
    """Return a function for `shell_complete` of an argument: it offers the items that begin as what was typed."""

    def complete(context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
        # the person is in the middle of a line: after any error, the shell offers nothing and prints nothing
        with suppress(PaceError, OSError, KeyError):
            return [item for item in items(context.params["home"]) if str(item.value).startswith(incomplete)]
        return []

    return complete


def _application(view: ApplicationView) -> CompletionItem:
    return CompletionItem(view.application_id, help=f"{view.name}, {view.state}")


def _client(home: Home) -> MasterClient:
    from controller.client import submit_client

    return submit_client(home, TIMEOUT_S)
