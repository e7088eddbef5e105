"""The faults that keep a machine from joining, each as a sentence that says where it is mended. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from controller.runtime.table import RuntimeRow
from controller.wire.joining import DriverNeeds, JoinFound
from stage_model.units import format_duration

CLOCK_S = 60.0
"""Largest difference of the two clocks. Machines with a time server differ by milliseconds."""


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


def clock_fault(master_s: float, here_s: float) -> str:
    """Return the fault of clocks that differ, in seconds since the epoch; empty without one."""
    ahead_s = here_s - master_s
    if abs(ahead_s) <= CLOCK_S:
        return ""
    return (
        f"the clock of this machine is {format_duration(abs(ahead_s))} {'ahead of' if ahead_s > 0 else 'behind'} the "
        f"master's; set the one of them that is wrong, and let both follow a time server"
    )


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
    if not found.reached:
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
