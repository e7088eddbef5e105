"""`sparkpace token` and `join-token`: tokens for other machines, users and metrics."""

from __future__ import annotations

import pwd
import re
import time
from typing import Any

import click

from controller.cli.checks import duration_within, parse_worker_id
from controller.cli.common import CountRange, Parsed, home_option, output_option, print_json, table_console
from controller.cli.tables import text_table
from controller.home import Home, User, make_token
from controller.machine.tls import certificate_in, fingerprint
from controller.master.access.join_tokens import JoinTokens
from stage_model.errors import BadInput, Unavailable
from stage_model.units import format_duration

MOST_USES = 1000
LONGEST_S = 7 * 86400.0
"""Longest time that a join token is good for."""


@click.command(epilog="Example: sparkpace token w2")
@home_option
@click.argument("worker_id", required=False)
@click.option("--user", metavar="NAME|UID:GID", help="Make a user's own submit token instead of an agent's.")
@click.option("--metrics", is_flag=True, help="Make the token that reads metrics and nothing else.")
@click.option("--revoke", is_flag=True, help="Remove the token: from then on it is refused.")
def token(home: Home, worker_id: str | None, user: str | None, metrics: bool, revoke: bool) -> None:
    """Make a token for another machine and print the name of its file.

    With WORKER_ID, the token is for that worker's agent; a worker that joins by `sparkpace join` makes its own. With --user,
    the token is a user's: drivers that this machine cannot see submit as that user with it. With --metrics, Prometheus reads
    metrics with the token.
    """
    if (worker_id is not None) + (user is not None) + metrics != 1:
        raise BadInput(
            "`sparkpace token` needs one of WORKER_ID, --user and --metrics; give one of them, as in `sparkpace token w2`"
        )
    home.admin_token()
    file = home.metrics_token_file
    if worker_id is not None:
        file = home.agent_tokens / parse_worker_id(worker_id)
    elif user is not None:
        file = home.user_token_file(_user(user))
    if not revoke:
        click.echo(str(make_token(file)))
        return
    try:
        file.unlink()
    except FileNotFoundError:
        raise BadInput(f"there is no token file {file}, so nothing was revoked; look into {file.parent}") from None
    click.echo(f"{file} is removed: its token is refused from now on.")


def _user(text: str) -> User:
    """Return the user of a NAME of the user database, or of UID:GID. Raise `BadInput`."""
    numbers = re.fullmatch(r"([0-9]{1,9}):([0-9]{1,9})", text)
    if numbers:
        user = User(*map(int, numbers.groups()))
    else:
        try:
            user = User(*pwd.getpwnam(text)[2:4])
        except (KeyError, ValueError):
            raise BadInput(f"--user {text[:80]!r} is not a user of this machine; give a user's name, or UID:GID") from None
    if user.uid == 0:
        raise BadInput("--user of root cannot have a token; name another user (root's drivers run on the master's host)")
    return user


def _valid_s(text: str) -> float:
    return duration_within(text, "--valid", 0.0, LONGEST_S, f"up to {format_duration(LONGEST_S)}, as 15min or 1h")


@click.command("join-token", epilog="Example: sparkpace join-token --valid 1h --uses 3")
@home_option
@click.option("--valid", type=Parsed(_valid_s), default="15min", show_default=True, help="Time for which the token is good.")
@click.option(
    "--uses", type=CountRange(1, MOST_USES), default=1, show_default=True, help="Number of workers that may join with it."
)
@click.option("--list", "show", is_flag=True, help="List the tokens instead, without their secrets.")
@click.option("--revoke", metavar="ID", help="Remove the token with this id instead; workers that joined with it stay.")
@output_option
def join_token(home: Home, valid: str, uses: int, show: bool, revoke: str | None, as_json: bool) -> None:
    """Make a token with which other machines join this home's cluster, and print it.

    It is printed once; only its hash is kept.
    """
    home.admin_token()
    tokens, now_s = JoinTokens(home.join_tokens), time.time()
    if show:
        _show(tokens, now_s, as_json=as_json)
    elif revoke is not None:
        tokens.revoke(revoke)
        click.echo(f"Join token {revoke} is removed: it is refused from now on.")
    else:
        made = tokens.make(_fingerprint(home), now_s + _valid_s(valid), uses, now_s)
        click.echo(made.text)
        cluster = home.cluster()
        port = "PORT" if cluster is None else str(cluster.port)
        click.echo(
            f"sparkpace: good for {valid} and {uses} worker(s). Run `sparkpace join https://ADDRESS:{port}` on the other "
            f"machine and paste the token; ADDRESS is an address of this machine on which the master listens.",
            err=True,
        )


def _fingerprint(home: Home) -> str:
    try:
        return fingerprint(certificate_in(home.ca_file))
    except (OSError, ValueError) as error:
        raise Unavailable(f"the CA file {home.ca_file} cannot be read; run `sparkpace up` first, which makes it") from error


def _show(tokens: JoinTokens, now_s: float, *, as_json: bool) -> None:
    rows: list[dict[str, Any]] = [
        {"id": token_id, "left_s": round(kept.until_s - now_s), "uses": kept.uses, "joined": list(kept.workers)}
        for token_id, kept in tokens.listed().items()
    ]
    if as_json:
        print_json(rows)
        return
    table = text_table("TOKEN", "LEFT", "USES", "JOINED")
    for row in rows:
        left = format_duration(row["left_s"]) if row["left_s"] > 0 else "expired"
        table.add_row(row["id"], left, f"{len(row['joined'])} of {row['uses']}", ", ".join(row["joined"]) or "-")
    table_console().print(table)
