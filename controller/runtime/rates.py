"""Setting of executors' rates for the two things that have limits: the device of the local directory, and the network.

Disk rates are files of control groups, network rates the kernel's token buckets (`controller.machine.traffic`). Both count
what an executor has used so far. Not covered: which rates there are, and when (the agent).
"""

from __future__ import annotations

import math
import os
from pathlib import Path

from controller.machine import traffic
from controller.machine.devices import whole_device
from controller.runtime.base import ExecutorKey, TrafficPlace
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.networks import shaper_name
from controller.runtime.table import RuntimeRow
from stage_model.errors import RuntimeFailed, Unavailable

ELSEWHERE = "executors that another cluster manager starts get no rates"


class DiskRates:
    """Rates of reading and writing for the whole device that holds `folder`; `pid` is the process that makes the control
    groups of plain processes. Raise `Unavailable` if none can be set here."""

    def __init__(self, folder: Path, row: RuntimeRow, tree: CgroupTree, pid: int) -> None:
        if not row.starts:
            raise Unavailable(ELSEWHERE)
        self.device = whole_device(folder)
        if reason := tree.why_no_rates():
            raise Unavailable(f"no disk rates are set, because {reason}; boot with the kernel's I/O throttling")
        if row.inside:  # else an engine has made the groups, which only root may write
            try:
                reason = tree.why_no_new_rates(pid)
            except Unavailable as error:
                raise Unavailable(f"no disk rates are set, because {error}; run the agent as root") from error
            if reason:
                raise Unavailable(
                    f"no disk rates are set, because {reason}; run the agent in a service of root's "
                    "(`sparkpace install-service`, or systemd-run -p Delegate=yes COMMAND)"
                )
        elif os.geteuid() != 0:
            raise Unavailable("no disk rates are set, because only root may write the control groups of containers")
        self._tree = tree

    def counts(self, key: ExecutorKey, place: TrafficPlace) -> tuple[int, int] | None:  # noqa: ARG002 - the network's methods have it, too
        """Return the bytes that the executor has read and written so far; None if they are not counted."""
        if place.io is None:
            return None
        if not place.watched:
            try:
                self._tree.count_io(place.io, self.device)
            except OSError:  # a group that this process may not write, so nothing may be counted there
                return None
        return self._tree.io_bytes(place.io, self.device)

    def set(self, key: ExecutorKey, place: TrafficPlace, rates: tuple[float, float]) -> None:
        """Set rates in bytes per second. Raise `RuntimeFailed`."""
        try:
            written = place.io is None or self._tree.write_io_rates(place.io, self.device, rates)
        except OSError as error:
            raise RuntimeFailed(f"the kernel refused the disk rates of executor {key.text} ({error})") from error
        if not written and place.io is not None and place.io.exists():
            raise RuntimeFailed(f"the kernel takes no disk rates for device {self.device}, which executor {key.text} uses")

    def lift(self, key: ExecutorKey, place: TrafficPlace | None) -> None:
        """Lift the executor's rates. Raise `RuntimeFailed`."""
        if place is not None:
            lift_disk_rates(self._tree, key, place)


class NetworkRates:
    """Rates of receiving and sending for executors in their application's own network; `prefix` is that of the worker's
    interfaces. Raise `Unavailable` if none can be set here."""

    def __init__(self, prefix: str, row: RuntimeRow, network: str) -> None:
        if not row.starts:
            raise Unavailable(ELSEWHERE)
        if not row.own_networks(network):
            raise Unavailable(
                "no network rates are set, because executors have the host's network; use runtime docker with --network open "
                "or closed"
            )
        if reason := traffic.why_no_link_rates():
            raise Unavailable(f"no network rates are set, because {reason}")
        self._prefix = prefix
        self._links: dict[tuple[ExecutorKey, int], str] = {}

    def counts(self, key: ExecutorKey, place: TrafficPlace) -> tuple[int, int] | None:
        """Return the bytes that the executor has received and sent so far; None if its link is not seen."""
        link = self._link(key, place)
        return None if link is None else traffic.link_bytes(link)

    def set(self, key: ExecutorKey, place: TrafficPlace, rates: tuple[float, float]) -> None:
        """Set rates in bytes per second. Raise `RuntimeFailed`."""
        if (link := self._link(key, place)) is not None:
            traffic.set_link_rates(link, shaper_name(self._prefix, key), *rates)

    def lift(self, key: ExecutorKey, place: TrafficPlace | None) -> None:  # noqa: ARG002 - the disk's methods have it, too
        """Lift the executor's rates, also where it has ended. Raise `RuntimeFailed`."""
        traffic.lift_link_rates(shaper_name(self._prefix, key))

    def _link(self, key: ExecutorKey, place: TrafficPlace) -> str | None:
        known = self._links.get((key, place.pid))
        if known is None and place.bridge and (known := traffic.link_into(place.pid, place.bridge)) is not None:
            self._links = {other: link for other, link in self._links.items() if other[0] != key} | {(key, place.pid): known}
        return known


def lift_disk_rates(tree: CgroupTree, key: ExecutorKey, place: TrafficPlace) -> None:
    """Lift an executor's rates for all devices, unless it is watched. Raise `RuntimeFailed`."""
    if place.io is None or place.watched:
        return
    try:
        for device in tree.io_rates(place.io) or ():
            tree.write_io_rates(place.io, device, (math.inf, math.inf))
    except OSError as error:
        raise RuntimeFailed(f"the kernel refused to lift the disk rates of executor {key.text} ({error})") from error


def lift_network_rates(prefix: str) -> None:
    """Lift the network rates of a worker's executors, whoever set them, and remove what was made for them. Raise
    `RuntimeFailed` for the first that is left, after all others."""
    failed: list[RuntimeFailed] = []
    for ifb in traffic.limited_links(prefix):
        try:
            traffic.lift_link_rates(ifb)
        except RuntimeFailed as error:
            failed.append(error)
    if failed:
        raise failed[0]
