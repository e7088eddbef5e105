"""The faults that keep a machine from joining, each as a sentence that says where it is mended.

Both machines are checked for faults. Not covered: a master that cannot be met, and clocks that differ
(`controller.local.meeting`).
"""

from __future__ import annotations

import secrets
import socket
import ssl
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from controller.agent.site import executors_address
from controller.asks.options import AgentOptions
from controller.client import MasterClient
from controller.machine.addresses import resolves
from controller.machine.greeting import Greeter, is_greeted
from controller.machine.tls import address_of
from controller.runtime.table import RUNTIMES, RuntimeRow
from controller.submit.driver_needs import python_version
from controller.wire.joining import DriverNeeds, JoinCheck, JoinFound
from stage_model.errors import Unavailable

CHECK_S = 60.0
"""Time for the master's look at this machine, and for this machine's port: the master asks its Java and Python for their
versions."""


@dataclass(frozen=True, slots=True)
class Here:
    """Findings on the machine that wants to join. `missing` are paths that drivers need and that are not here,
    `python` is the version of their Python here (empty: it does not run). `address` is that of its executors, at `port`
    (None: they are other cluster managers'); `greeted`: it reaches the master's machine at any port. `unknown` is the
    machine's own name if it does not resolve here, else empty."""

    missing: frozenset[str] = frozenset()
    python: str = ""
    address: str = ""
    port: int | None = None
    greeted: bool = True
    unknown: str = ""


def find_faults(options: AgentOptions, client: MasterClient) -> list[str]:
    """Let this machine and the master's look at each other; return the faults. Raise `PaceError`."""
    row = RUNTIMES[options.runtime]
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


def join_faults(worker_id: str, master_host: str, row: RuntimeRow, found: JoinFound, here: Here) -> list[str]:
    """Return the faults by what the master has found and what is here, for a worker with the runtime of that row."""
    faults = list(_faults_of_paths(found.needs, row, here)) if row.starts else []
    if row.starts and here.unknown:
        faults.append(
            f"this machine's own name {here.unknown!r} does not resolve here, so Spark's executors would not start; add it "
            f"to /etc/hosts here, with the address {here.address}"
        )
    if found.taken:
        faults.append(
            f"the master knows a worker {worker_id} already; give another --worker-id here, or withdraw that one's "
            f"identity on the master's machine with `sparkpace token {worker_id} --revoke`"
        )
    if not found.resolves:
        faults.append(
            f"the name {here.address!r} of this machine does not resolve on the master's machine, where drivers need it; "
            f"give an address by --host here, or add the name to the resolver of the master's machine"
        )
    elif not found.reached:
        faults.append(
            f"the master's machine does not reach {here.address} at port {here.port}, as drivers there must reach executors "
            f"here; open this machine's firewall for it, or give another address of this machine by --host"
        )
    if not here.greeted:
        faults.append(
            f"this machine does not reach {master_host} at port {found.port}, as executors must reach drivers there; open "
            f"the firewall of the master's machine for this one, at all ports from 1024 on"
        )
    return faults


def _faults_of_paths(needs: DriverNeeds, row: RuntimeRow, here: Here) -> Iterator[str]:
    if needs.spark in here.missing:
        yield f"the Spark of the master's machine, {needs.spark}, is not here; install the same Spark at that path here"
    if needs.jar in here.missing:
        yield (
            f"the bridge jar of the master's machine, {needs.jar}, is not here; install the same release of Sparkpace at the "
            f"same path here"
        )
    if needs.python in here.missing:
        yield (
            f"the Python of the master's machine, {needs.python}, is not here; make the same environment at that path here, "
            f"or name another with PYSPARK_PYTHON there"
        )
    elif needs.version and here.python != needs.version:
        state = f"is Python {here.python} here" if here.python else "does not run here"
        yield f"{needs.python} {state}, and is Python {needs.version} on the master's machine; make it the same version here"
    if needs.java in here.missing and not row.mounts:  # else executors have their image's
        yield f"the JDK of the master's machine, {needs.java}, is not here; install the same JDK at that path here"


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
    except OSError:  # the path lies in a folder that this user may not read
        return False


def _unknown_name() -> str:
    """Return this machine's own name if it does not resolve here, else nothing."""
    name = socket.gethostname()
    return "" if resolves(name) else name
