"""Disk rates on a real kernel's control groups of version 2: what `io.max` holds, and what `doctor` says of it."""

from __future__ import annotations

import shlex
from typing import Any

import pytest

from tests.lab.machines import INSIDE, PYTHON, Machine

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SERVICE = "systemd-run -q --wait --pipe --collect -p Delegate=yes"
RATE, SECONDS = 1_000_000, 2
BURST_BYTES = 1_000_000
"""Bytes over rate x time at most: the kernel gives a rate in slices of a tenth of a second and lets a begun request pass."""


def within(prefix: str, command: str) -> str:
    return f"{prefix} sh -c {shlex.quote(command)}" if prefix else command


def allowed(during: dict[str, float]) -> float:
    return RATE * during["seconds"] + BURST_BYTES


@pytest.mark.parametrize("what", ["read", "write", "buffered"])
def test_a_group_uses_no_more_than_its_rate_and_is_free_once_it_is_lifted(
    machine: Machine, what: str, record_property: Any
) -> None:
    found = machine.json(within(SERVICE, f"{PYTHON} {INSIDE}/rates.py {what} {RATE} {SECONDS}"))
    name, other = ("rbps", "wbps") if what == "read" else ("wbps", "rbps")
    assert {f"{name}={RATE}", f"{other}=max"} <= set(found["text"].split())
    assert found["read_back"]
    assert found["held"]["bytes"] <= allowed(found["held"])
    assert found["left"] == ""
    for free in (found["free"], found["free_again"]):
        assert free["bytes"] > allowed(free), found
    parts = ", ".join(f"{found[one]['bytes'] / 1e6:.1f}" for one in ("free", "held", "free_again"))
    record_property(f"Debian {machine.release}: MB in {SECONDS} s free, held, free", parts)


@pytest.mark.parametrize(
    ("user", "prefix", "state", "says"),
    [
        (
            "root",
            SERVICE,
            "ok",
            "--disk-mb holds reads and writes on device 98:0 of /root/.sparkpace/local (control groups v2)",
        ),
        ("root", "", "missing", "has no I/O controller; run the agent in a service of root's"),
        (
            "ann",
            "systemd-run -q --user --scope -p Delegate=yes",
            "missing",
            "has no I/O controller; run the agent in a service",
        ),
        ("ann", "", "missing", "may not be written by this user; run the agent as root"),
    ],
    ids=["root-in-a-delegated-service", "root-by-ssh", "user-in-a-delegated-scope", "user-by-ssh"],
)
def test_doctor_says_where_disks_have_rates(machine: Machine, user: str, prefix: str, state: str, says: str) -> None:
    here = machine if user == "root" else machine.as_user()
    found = {one["what"]: one for one in here.json(within(prefix, "sparkpace doctor --output json"))}["disk rates"]
    assert found["state"] == state
    assert says in found["found"]
