"""Joining a cluster whose master is on another machine: both machines are checked first, then the worker gets its identity,
and its files are written. After a failure the worker has no identity, here or at the master; only the use of its token may be
gone.

`join_faults` finds the faults. The master's end is `controller.master.join_calls`.
"""

from __future__ import annotations

import shutil
import ssl
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from controller.asks.join_token import JoinToken
from controller.asks.options import AgentOptions
from controller.client import MasterClient
from controller.home import HASHED, Home, read_token
from controller.local.cluster import await_ready, end_children, spawn
from controller.local.join_faults import CHECK_S, find_faults
from controller.local.meeting import meet
from controller.machine.files import write_whole
from controller.machine.tls import certificate_in
from controller.master.access.tokens import digest, mint
from controller.wire.joining import JoinRequest, NewIdentity
from stage_model.errors import BadInput, Denied, OtherVersion, PaceError, Unavailable


@dataclass(frozen=True, slots=True)
class Joining:
    """A worker that joins. `words` start its agent, as those of `sparkpace`; `table` is the text of a `sparkpace.toml` that
    says the same."""

    home: Home
    options: AgentOptions
    token: JoinToken
    words: tuple[str, ...]
    table: str


def join_cluster(joining: Joining, *, start: bool) -> list[str]:
    """Join; with `start`, return once the agent runs in the background and has reported. Return the faults for which the
    worker has not joined. Raise `PaceError`. After a fault nothing has changed; after an error the worker has not joined, and
    only a use of its token may be gone."""
    home, url = joining.home, joining.options.master_url
    _check_home(home)
    certificate = meet(url, joining.token)
    _check_ca(home, certificate)
    with tempfile.TemporaryDirectory() as folder:
        ca = Path(folder) / home.ca_file.name
        ca.write_text(ssl.DER_cert_to_PEM_cert(certificate))
        with_token = MasterClient(url, ca, joining.token.bearer, CHECK_S)
        if faults := find_faults(joining.options, with_token):
            return faults
        secret, made = mint(), _not_there(home, joining.options.worker_id)
        try:
            with_token.join(JoinRequest(worker_id=joining.options.worker_id, digest=digest(secret)))
            _write_home(joining, ca, secret)
            if start:
                _start(joining, secret)
        except BaseException as error:
            left = _undo(joining.options.worker_id, MasterClient(url, ca, secret), made)
            if left and isinstance(error, PaceError):
                raise type(error)(f"{error}; {left}") from error
            raise
    return []


def _check_home(home: Home) -> None:
    if home.ca_key_file.exists() or home.cluster_file.exists():
        raise BadInput(f"home {home.path} has a master of its own; name another --home for the worker")
    there = [file for file in (home.config_file, *home.agent_tokens.glob("[a-z0-9]*")) if file.exists()]
    if there:
        raise BadInput(
            f"home {home.path} has {' and '.join(str(file.relative_to(home.path)) for file in there)}, so it has joined "
            f"already: `sparkpace renew` gives it another identity; to join again, remove them, or name another --home"
        )


def _check_ca(home: Home, certificate: bytes) -> None:
    """Raise `BadInput` for a home with the CA file of another cluster, or with a CA file that cannot be read."""
    try:
        other = home.ca_file.exists() and certificate_in(home.ca_file) != certificate
    except (OSError, ValueError) as error:
        raise BadInput(f"{home.ca_file} cannot be read ({error}); remove it, or name another --home") from error
    if other:
        raise BadInput(f"home {home.path} has the ca.pem of another cluster; name another --home")


def _write_home(joining: Joining, ca: Path, secret: str) -> None:
    home, worker_id = joining.home, joining.options.worker_id
    home.create_folders()
    try:
        write_whole(home.ca_file, ca.read_bytes())
        write_whole(home.config_file, joining.table.encode())
        home.write_agent_token(worker_id, secret)
        (home.agent(worker_id) / "cluster_id").unlink(missing_ok=True)  # of a cluster that it was in before
    except OSError as error:
        raise Unavailable(f"home {home.path} cannot be written ({error.strerror}); name another --home") from error


def _start(joining: Joining, secret: str) -> None:
    """Start the agent and wait for its first report. Raise `Unavailable`; then it has ended again."""
    home, worker_id = joining.home, joining.options.worker_id
    name, client = f"agent-{worker_id}", MasterClient(joining.options.master_url, home.ca_file, secret)
    agent = spawn(name, joining.words, home)
    try:
        await_ready(home, [agent], lambda: [] if _has_reported(client, worker_id) else [name])
    except BaseException:
        end_children([agent])
        raise


def _has_reported(client: MasterClient, worker_id: str) -> bool:
    try:
        return client.reported(worker_id)
    except OtherVersion:
        raise
    except Unavailable:  # a connection that was cut says nothing about the agent
        return False


def _not_there(home: Home, worker_id: str) -> list[Path]:
    """Return the files and folders that a join makes and that are not there yet."""
    if not home.path.exists():
        return [home.path]
    made = (home.ca_file, home.config_file, home.agent_tokens / worker_id, home.agent(worker_id))
    return [path for path in made if not path.exists()]


def _undo(worker_id: str, client: MasterClient, made: Iterable[Path]) -> str:
    """Undo a join, also at the master; return a clause on the part that is left, empty if nothing is."""
    for path in made:
        if path.is_dir():
            shutil.rmtree(path, ignore_errors=True)
        else:
            with suppress(OSError):
                path.unlink()
    try:
        with suppress(Denied):  # it has not joined
            client.renew(worker_id, NewIdentity())
    except PaceError:
        return f"the master may know worker {worker_id} still: run `sparkpace token {worker_id} --revoke` on its machine"
    return ""


def renew_identity(home: Home, url: str, worker_id: str) -> None:
    """Give a worker that has joined its next token; its agent finds it by itself. The new token is kept before the master
    learns of it, so that a second call completes a call that was cut short. Raise `PaceError`."""
    own, following = home.agent_tokens / worker_id, home.agent_tokens / f".{worker_id}.next"
    last = read_token(own)
    if not following.exists():
        write_whole(following, f"{mint()}\n".encode())
    secret = read_token(following)
    asked = NewIdentity(digest=digest(secret))
    try:
        MasterClient(url, home.ca_file, last).renew(worker_id, asked)
    except Denied:
        MasterClient(url, home.ca_file, secret).renew(worker_id, asked)  # an earlier call had reached the master
    following.replace(own)


def renew_own(home: Home) -> list[str]:
    """Give new tokens to the workers whose agents have run in a master's home; return their names. Tokens that were made for
    agents elsewhere stay. Raise `Unavailable` without such workers."""
    names = [name for name in home.workers() if not (home.find_agent_token(name) or HASHED).startswith(HASHED)]
    if not names:
        raise Unavailable(f"no agent has run in home {home.path}; run `sparkpace up` first")
    for name in names:
        home.write_agent_token(name, mint())
    return names
