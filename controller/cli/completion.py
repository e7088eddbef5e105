"""`sparkpace completion`: the script that makes a shell complete our commands and options; Click's own.

What is offered for arguments is in `completing`."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class


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
