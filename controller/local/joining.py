"""Joining a cluster whose master is on another machine: all is looked at first, then the worker gets its identity, and its
files are written. After a failure the worker has no identity, here or at the master; only the use of its token may be gone.

The faults are `join_faults`'. The master's end: `controller.master.join_calls`.
"""

from __future__ import annotations

import hmac
import secrets
import shutil
import socket
import ssl
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import msgspec

from controller.agent.site import executors_address
from controller.asks.join_token import JoinToken
from controller.asks.options import AgentOptions
from controller.client import MasterClient
from controller.home import Home, read_token
from controller.local.cluster import await_ready, end_children, spawn
from controller.local.join_faults import Here, clock_fault, join_faults
from controller.machine.files import write_whole
from controller.machine.greeting import Greeter, is_greeted
from controller.machine.http import ask_unproven
from controller.machine.tls import address_of, certificate_in, fingerprint
from controller.master.access.tokens import digest, mint
from controller.runtime.table import RUNTIMES
from controller.submit.driver_needs import python_version
from controller.wire import version
from controller.wire.joining import Authority, JoinCheck, JoinFound, JoinRequest, NewIdentity
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput, Denied, OtherVersion, PaceError, Unavailable

ANSWER_S = 10.0
CHECK_S = 60.0
"""Time for the master's look at this machine, and for this machine's port: the master asks its Java and Python for their
versions."""
LARGEST_BYTES = 1 << 16


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
    certificate = _meet(url, joining.token)
    _check_ca(home, certificate)
    with tempfile.TemporaryDirectory() as folder:
        ca = Path(folder) / home.ca_file.name
        ca.write_text(ssl.DER_cert_to_PEM_cert(certificate))
        with_token = MasterClient(url, ca, joining.token.bearer, CHECK_S)
        if faults := _find_faults(joining, with_token):
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
    """Raise `BadInput` for a home with the CA file of another cluster, or with one that cannot be read."""
    try:
        other = home.ca_file.exists() and certificate_in(home.ca_file) != certificate
    except (OSError, ValueError) as error:
        raise BadInput(f"{home.ca_file} cannot be read ({error}); remove it, or name another --home") from error
    if other:
        raise BadInput(f"home {home.path} has the ca.pem of another cluster; name another --home")


def _meet(url: str, token: JoinToken) -> bytes:
    """Return the certificate of the CA of the master at `url`, whose fingerprint the token has. Raise `PaceError` for any
    other server; no secret was sent to it."""
    host, port = address_of(url)
    try:
        answer = ask_unproven(url, "/v1/ca", ANSWER_S, LARGEST_BYTES)
    except socket.gaierror as error:
        raise Unavailable(
            f"the master's name {host!r} does not resolve here ({error.strerror}); give an address in its place, or "
            f"make this machine's resolver know the name"
        ) from error
    except OSError as error:
        raise Unavailable(
            f"no master answers at {url} ({error}); on its machine, start it with `sparkpace up --host ADDRESS` (not on "
            f"loopback), and open the firewall there for this machine at port {port}"
        ) from error
    version.check_header(answer.headers.get(version.HEADER), f"the master at {url}", "this command")
    if answer.status == 404:
        raise OtherVersion(f"the master at {url} is of a release without `sparkpace join`; install this one's release there")
    try:
        found = msgspec.json.decode(answer.body, type=Authority)
    except UNREADABLE as error:
        raise Unavailable(f"what answers at {url} is no Sparkpace master (status {answer.status}); check the URL") from error
    if not hmac.compare_digest(fingerprint(found.certificate), token.fingerprint):
        raise Denied(
            f"what answers at {url} is not the master that the join token is of: its CA has another fingerprint; nothing "
            f"secret was sent to it"
        )
    if fault := clock_fault(found.wall_s, time.time()):
        raise Unavailable(fault)
    return found.certificate


def _find_faults(joining: Joining, client: MasterClient) -> list[str]:
    """Let this machine and the master's look at each other; return the faults. Raise `PaceError`."""
    options, row = joining.options, RUNTIMES[joining.options.runtime]
    master_host, _ = address_of(options.master_url)
    address, words = executors_address(options), secrets.token_urlsafe(16)
    greeter = Greeter(address, words, CHECK_S) if row.starts else None
    port = greeter.port if greeter is not None else None
    try:
        found = _check(client, JoinCheck(worker_id=options.worker_id, host=address, port=port, greeting=words), master_host)
    finally:
        if greeter is not None:
            greeter.close()
    # at once, because the master soon closes its port
    greeted = found.port is None or is_greeted(master_host, found.port, words)
    needs = found.needs
    here = Here(
        missing=frozenset(path for path in (needs.spark, needs.jar, needs.java, needs.python) if path and not _is_here(path)),
        python=python_version(needs.python) if row.starts else "",
        address=address,
        port=port,
        greeted=greeted,
        unknown=_unknown_name(),
    )
    return join_faults(options.worker_id, master_host, row, found, here)


def _check(client: MasterClient, said: JoinCheck, master_host: str) -> JoinFound:
    try:
        return client.check_join(said)
    except Unavailable as error:
        if isinstance(error.__cause__, ssl.SSLCertVerificationError):
            why = error.__cause__.verify_message
            raise Unavailable(
                f"the certificate of the master does not hold for {master_host} ({why}); start the master with "
                f"`--name {master_host}`, or give another of its addresses here"
            ) from error
        raise


def _is_here(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # below what this user may not look into
        return False


def _unknown_name() -> str:
    """Return this machine's own name if it does not resolve here, else nothing."""
    name = socket.gethostname()
    try:
        socket.getaddrinfo(name, None)
    except OSError:
        return name
    return ""


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
    except Unavailable:  # a connection that was cut says nothing of the agent
        return False


def _not_there(home: Home, worker_id: str) -> list[Path]:
    """Return what a join makes and what is not there yet."""
    if not home.path.exists():
        return [home.path]
    made = (home.ca_file, home.config_file, home.agent_tokens / worker_id, home.agent(worker_id))
    return [path for path in made if not path.exists()]


def _undo(worker_id: str, client: MasterClient, made: Iterable[Path]) -> str:
    """Remove what a join has made, also at the master; return a clause on what is left, empty if nothing is."""
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
    learns of it, so that a second call ends what was cut short. Raise `PaceError`."""
    own, following = home.agent_tokens / worker_id, home.agent_tokens / f".{worker_id}.next"
    last = read_token(own)
    if not following.exists():
        write_whole(following, f"{mint()}\n".encode())
    secret = read_token(following)
    asked = NewIdentity(digest=digest(secret))
    try:
        MasterClient(url, home.ca_file, last).renew(worker_id, asked)
    except Denied:
        MasterClient(url, home.ca_file, secret).renew(worker_id, asked)  # a call before had come through
    following.replace(own)
