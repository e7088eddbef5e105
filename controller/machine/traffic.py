"""Rates of network links by `tc` and `ip`: what comes out of a link's end on this host, and what goes into it.

A token bucket (tbf) on the end itself holds what its other side receives. What the other side sends is redirected to an
interface of its own (ifb), whose bucket holds it. The ifb is made first and removed last, and its alias names the link. So
everything that was set is found by the names of ifbs and lifted, whoever set it. Each program takes a few ms and has a
time-out; call nothing here from a control loop. Kernel documentation: tc-tbf(8), ip-link(8).
"""

from __future__ import annotations

import json
import os
import subprocess
import uuid
from pathlib import Path

from controller.machine.admin_program import first_words, has_program, run_program_of_root
from stage_model.errors import RuntimeFailed

PROGRAM_S = 5.0
"""Longest wait for one program."""
LINKS = Path("/sys/class/net")
BUCKET_S, LEAST_BUCKET_BYTES = 0.01, 65_536
"""Size of a bucket: what passes in that time, but no less than the largest packet before it is cut."""
QUEUE_S = "100ms"
"""Longest time that a packet waits for its turn before packets are dropped, which slows TCP down."""
PROBE = "sqprobe"
"""Beginning of the names of interfaces that are made only to see if they can be."""


def why_no_link_rates() -> str:
    """Return why this process can limit no links; empty where it can. All that is needed is made once and removed."""
    if os.geteuid() != 0:
        return "only root can limit network links"
    for program, package in (("tc", "iproute2"), ("ip", "iproute2"), ("nsenter", "util-linux")):
        if not has_program(program):
            return f"there is no {program} here (Debian: apt install {package})"
    name = f"{PROBE}{uuid.uuid4().hex[:8]}"
    try:
        _make(name, name)
        _hold(name, name, 1e6, 1e6, fresh=True)
    except RuntimeFailed as error:
        return str(error)
    finally:
        _ran("ip", "link", "delete", name)
    return ""


def link_into(pid: int, bridge: str) -> str | None:
    """Return the host's end of the link by which a process has its network, if that end is a port of `bridge`; None if there
    is no such link, or more than one. This host's `ip` asks the kernel inside the process's network, because files of a
    container may be its user's. It names the other end by this host's number; a number inside may be that of others, too."""
    words = ("nsenter", "-t", str(pid), "-n", "ip", "-j", "link", "show", "type", "veth")
    try:
        peers = {str(one.get("link_index")) for one in json.loads(run_program_of_root(words, PROGRAM_S).stdout or "[]")}
        ports = [port.name for port in (LINKS / bridge / "brif").iterdir()]
        [found] = [port for port in ports if _text(LINKS / port / "ifindex") in peers]
    except (OSError, ValueError, subprocess.TimeoutExpired):  # the process or its network has just gone
        return None
    return found


def link_bytes(link: str) -> tuple[int, int] | None:
    """Return the bytes that the other side of a link has received and sent; None when the link is gone."""
    try:
        counts = LINKS / link / "statistics"
        return int(_text(counts / "tx_bytes")), int(_text(counts / "rx_bytes"))
    except OSError:
        return None


def set_link_rates(link: str, ifb: str, receive: float, send: float) -> None:
    """Let the other side of `link` receive and send that many bytes per second. Raise `RuntimeFailed`; nothing is left in
    force then."""
    if _link_of(ifb) not in (None, link):  # it was made for an earlier process of that executor
        lift_link_rates(ifb)
    fresh = not (LINKS / ifb).exists()
    try:
        if fresh:
            _make(ifb, link)
        _hold(link, ifb, receive, send, fresh=fresh)
    except RuntimeFailed:
        lift_link_rates(ifb)
        raise


def lift_link_rates(ifb: str) -> None:
    """Lift the rates of the link for which `ifb` was made, if it is there still, and remove `ifb`. Raise `RuntimeFailed`."""
    link = _link_of(ifb)
    if link is None:
        return
    done = True
    if link and (LINKS / link).exists():
        for place in ("root", "ingress"):
            done = _ran("tc", "qdisc", "delete", "dev", link, place) and done
    # the interface stays as long as the link may have rates, because these are found by it
    if not (done and _ran("ip", "link", "delete", ifb)) or (LINKS / ifb).exists():
        raise RuntimeFailed(f"the network rates of {link or 'no link'} were not lifted; remove the interface {ifb} as root")


def limited_links(prefix: str) -> list[str]:
    """Return the ifbs whose names begin with `prefix`."""
    return sorted(path.name for path in LINKS.glob(f"{prefix}*"))


def _make(ifb: str, link: str) -> None:
    _do("ip", "link", "add", ifb, "type", "ifb")
    _do("ip", "link", "set", "dev", ifb, "alias", link, "up")


def _hold(link: str, ifb: str, receive: float, send: float, *, fresh: bool) -> None:
    _do("tc", "qdisc", "replace", "dev", link, "root", *_bucket(receive))
    _do("tc", "qdisc", "replace", "dev", ifb, "root", *_bucket(send))
    if fresh:
        _do("tc", "qdisc", "replace", "dev", link, "ingress")
        everything = ("protocol", "all", "u32", "match", "u32", "0", "0")
        redirected = ("action", "mirred", "egress", "redirect", "dev", ifb)
        _do("tc", "filter", "add", "dev", link, "parent", "ffff:", *everything, *redirected)


def _bucket(rate: float) -> tuple[str, ...]:
    size = max(LEAST_BUCKET_BYTES, round(BUCKET_S * rate))
    return ("tbf", "rate", f"{round(8 * rate)}bit", "burst", f"{size}b", "latency", QUEUE_S)


def _do(*words: str) -> None:
    try:
        done = run_program_of_root(words, PROGRAM_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeFailed(f"network rates cannot be set here ({error})") from error
    if done.returncode != 0:
        raise RuntimeFailed(f"network rates cannot be set here (`{' '.join(words[:4])}` says {first_words(done)!r})")


def _ran(*words: str) -> bool:
    """Run a program that removes something; return False if it did not end by itself. Its refusal means that there is nothing
    to remove."""
    try:
        return run_program_of_root(words, PROGRAM_S).returncode >= 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def _link_of(ifb: str) -> str | None:
    """Return the link for which an interface was made; None without that interface."""
    try:
        return _text(LINKS / ifb / "ifalias")
    except OSError:
        return None


def _text(file: Path) -> str:
    return file.read_text().strip()
