"""`sparkpace doctor`: a look at everything a cluster and a submission need; a remedy for each thing that is not there."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

import click
import msgspec

from controller.cli.common import CountRange, home_option, output_option, print_json, table_console
from controller.cli.tables import text_table
from controller.client import submit_client
from controller.home import Cluster, Home
from controller.local.cluster import look
from controller.machine.addresses import LOOPBACK, check_port
from controller.machine.proc import all_waited_for_memory
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.docker import packet_filter
from controller.runtime.engines import find_java, machine_cores
from controller.runtime.rates import DiskRates, NetworkRates
from controller.runtime.table import RUNTIMES, RuntimeRow, choose_runtime
from controller.submit.bridge_jar import bridge_jar
from controller.submit.spark_install import find_spark
from stage_model.errors import PaceError, Unavailable

Check = Callable[[], str]


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """A thing that was checked. `state`: ok, missing (works without) or bad; `found` is what is there, or the remedy."""

    what: str
    state: str
    found: str


@click.command(epilog="Example: sparkpace doctor")
@home_option
@output_option
@click.option("--port", type=CountRange(1, 65535), default=7070, show_default=True, help="Port of the master.")
def doctor(home: Home, as_json: bool, port: int) -> None:
    """Check JDK, Spark, engine, cgroups, port, tokens and Python.

    Exit code 0 if Sparkpace is usable here.
    """
    needed: dict[str, Check] = {
        "Python": _python,
        "Java": lambda: f"{(java := find_java(os.environ)).version} in {java.home}",
        "Spark": lambda: f"{(spark := find_spark(os.environ)).home} (from {spark.source})",
        "bridge jar": lambda: str(bridge_jar()),
        "cluster": lambda: _cluster(home, port),
        "tokens": lambda: _tokens(home),
        "cores": lambda: f"{machine_cores():g}",
    }
    optional: dict[str, Check] = {
        **{row.looks_for: row.check for row in RUNTIMES.values() if row.looks_for},
        "pressure": pressure,
        "cgroups": lambda: cgroups(CgroupTree(), maker_of_groups(home)),
        "disk rates": lambda: disk_rates(home.local, runtime_row(home.cluster()), CgroupTree(), maker_of_groups(home)),
        "network rates": lambda: network_rates(home.cluster()),
        "isolation": lambda: isolation(home.cluster()),
        "limits": lambda: limits(runtime_row(home.cluster())),
    }
    findings = [_checked(name, check, "bad") for name, check in needed.items()]
    findings += (_checked(name, check, "missing") for name, check in optional.items())
    if as_json:
        print_json(findings)
    else:
        table = text_table("what", "state", "found, or remedy")
        for finding in findings:
            table.add_row(finding.what, finding.state, finding.found)
        table_console().print(table)
    if bad := [finding.what for finding in findings if finding.state == "bad"]:
        raise Unavailable(f"not usable yet: {', '.join(bad)}; see the remedies above")


def cgroups(tree: CgroupTree, pid: int) -> str:
    """Say where the process makes control groups, and what a quota leaves them. Raise `Unavailable` where it can make none:
    executors are then paced by suspension."""
    try:
        place = tree.place_of_new(pid)
    except Unavailable as error:
        raise Unavailable(
            f"{error}, so the runtime `process` paces by suspending; run as root, or in a scope of your own "
            "(systemd-run --user --scope -p Delegate=yes COMMAND)"
        ) from error
    quota = tree.quota_over(pid)
    left = f"; a CPU quota leaves plain processes {quota:g} cores" if quota < machine_cores() else ""
    return f"v{tree.version}, writable in {place}{left}"


def maker_of_groups(home: Home) -> int:
    """Return the process whose groups count: an agent of this home, else this one, as if it were an agent."""
    agents = look(home, home.cluster()).processes(master=False)
    return agents[0].pid if agents else os.getpid()


def pressure() -> str:
    """Say what shows here that memory or disk is short. Raise `Unavailable` where the kernel does not count waiting."""
    if all_waited_for_memory() is None:
        raise Unavailable(
            "the kernel does not count waiting (PSI), so only free memory and free disk show pressure; boot with psi=1"
        )
    return "free memory, free disk, and the time for which programs wait for memory (PSI)"


def runtime_row(cluster: Cluster | None) -> RuntimeRow:
    """Return the row of the cluster's runtime; without a cluster, that of the runtime which `up` would choose."""
    return RUNTIMES[cluster.runtime if cluster is not None else choose_runtime("auto").name]


def disk_rates(folder: Path, row: RuntimeRow, tree: CgroupTree, pid: int) -> str:
    """Say for which device rates can be set, and what they hold; `pid` is the process that makes control groups. Raise
    `Unavailable` where none can be set."""
    device = DiskRates(folder, row, tree, pid).device
    held = "reads and direct writes, not buffered ones" if tree.version == 1 else "reads and writes"
    return f"--disk-mb holds {held} on device {device} of {folder} (control groups v{tree.version})"


def network_rates(cluster: Cluster | None) -> str:
    """Say that network rates can be set. Raise `Unavailable` where none can be set."""
    NetworkRates("", runtime_row(cluster), cluster.network if cluster is not None else "open")
    return "--net-mbit holds what executors receive and send in the networks of their applications (tc)"


def isolation(cluster: Cluster | None) -> str:
    """Say what keeps executors from services of this machine. Raise `Unavailable` when only authentication does."""
    if cluster is not None:
        row = RUNTIMES[cluster.runtime]
        if not row.starts:
            return row.limits
        if not row.own_networks(cluster.network):
            chosen = ", as chosen" if row.networks else ""
            raise Unavailable(f"executors have the host's network{chosen}, {packet_filter.BEYOND}")
    if reason := packet_filter.why_not():
        raise Unavailable(f"{reason}, {packet_filter.BEYOND}")
    return "packet rules can be set: executors in containers reach their driver's ports, each other and the outside"


def limits(row: RuntimeRow) -> str:
    """Say what holds executors back in a runtime. Raise `Unavailable` where hardly anything does."""
    if row.mounts or not row.starts:
        return row.limits
    better = " or ".join(other.name for other in RUNTIMES.values() if other.mounts)
    raise Unavailable(
        f"with runtime {row.name} {row.limits}: executors read and write all that their user may, and start as many "
        f"processes; use `up --runtime {better}` for jobs of strangers"
    )


def _checked(what: str, check: Check, otherwise: str) -> Finding:
    try:
        return Finding(what=what, state="ok", found=check())
    except PaceError as error:
        return Finding(what=what, state=otherwise, found=str(error))


def _python() -> str:
    return f"{'.'.join(str(part) for part in sys.version_info[:3])} ({sys.executable})"


def _cluster(home: Home, port: int) -> str:
    cluster = home.cluster()
    if cluster is None:
        check_port(LOOPBACK, port)
        return f"none runs; port {port} is free"
    if dead := look(home, cluster).missing(cluster):
        raise Unavailable(f"{' and '.join(dead)} died; run `sparkpace up`, which starts what is missing")
    workers = submit_client(home).workers()
    return f"answers at {cluster.url}, {len(workers)} worker(s)"


def _tokens(home: Home) -> str:
    if not home.path.exists():
        return f"{home.path} will be made by `sparkpace up`"
    home.check_tokens()
    return str(home.path)
