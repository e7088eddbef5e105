"""Control groups of version 2 under systemd: the project's own tests there, `doctor` in four places, and groups that outlive
what systemd does."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.integration.local_cluster import eventually
from tests.lab.machines import INSIDE, MACHINES, PYTHON, Machine

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SERVICE = "systemd-run -q --wait --pipe --collect -p Delegate=yes"
SCOPE = "systemd-run -q --user --scope -p Delegate=yes"
PLACES = {
    "root-by-ssh": ("root", ""),
    "delegated-service": ("root", SERVICE),
    "user-in-a-delegated-scope": ("ann", SCOPE),
    "user-by-ssh": ("ann", ""),
}
"""Places where an agent may be started: the user, and what starts it."""
SUITE_S = 1500.0
PYTEST = (
    "cd /opt/sparkpace && HOME=${HOME:-/root} /opt/venv/bin/python -m pytest -q -rs -p no:cacheprovider "
    "--basetemp=/var/tmp/lab-$$"
)
TESTS = (
    "--ignore tests/controller/runtime/docker --ignore tests/controller/runtime/kubernetes "
    "tests/controller/runtime tests/controller/agent"
)
ADOPT = "tests/controller/runtime/adopt/test_executors.py"
TOO_SLOW = f"{ADOPT}::test_of_two_containers_that_start_in_one_clock_tick_each_has_its_own_process"
"""A test for which two processes must start within a hundredth of a second, as they do not in such a machine."""
LACKING = ("control groups are not writable here", "no control group can be made here")
"""Reasons for which tests of control groups are skipped elsewhere."""


def within(prefix: str, command: str) -> str:
    return f"{prefix} sh -c {shlex.quote(command)}" if prefix else command


@pytest.fixture(scope="session")
def suites(project: Path) -> Iterator[dict[str, Future[subprocess.CompletedProcess[str]]]]:
    """Run the project's tests of runtimes and agents on all machines at once."""
    command = within(SERVICE, f"{PYTEST} --deselect {TOO_SLOW} {TESTS} -k 'not docker and not kubernetes' 2>&1")
    with ThreadPoolExecutor() as pool:
        yield {machine.name: pool.submit(machine.run, command, timeout_s=SUITE_S) for machine in MACHINES}


def summary(done: subprocess.CompletedProcess[str]) -> str:
    """Return the last line of a run of pytest in which all passed and no test lacked control groups."""
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr
    assert not [line for line in done.stdout.splitlines() if any(reason in line for reason in LACKING)]
    (said,) = re.findall(r"^(\d+ passed.*) in [\d.:]+s", done.stdout, re.MULTILINE)
    return str(said)


def test_the_tests_of_runtimes_and_agents_pass_in_a_delegated_service(
    machine: Machine,
    suites: dict[str, Future[subprocess.CompletedProcess[str]]],
    record_property: Any,
) -> None:
    record_property(f"Debian {machine.release}:", summary(suites[machine.name].result()))


def test_the_contract_of_runtimes_with_groups_holds_for_an_ordinary_user(machine: Machine, record_property: Any) -> None:
    contract = "tests/controller/runtime/test_contract.py tests/controller/runtime/test_programs.py"
    tests = f"{contract} tests/controller/runtime/cgroup -k 'process-cgroup or test_tree'"
    done = machine.as_user().run(within(SCOPE, f"{PYTEST} {tests} 2>&1"), timeout_s=SUITE_S)
    record_property(f"Debian {machine.release}:", summary(done))


@pytest.mark.parametrize("place", PLACES)
def test_doctor_says_where_groups_can_be_made(machine: Machine, place: str) -> None:
    user, prefix = PLACES[place]
    here = machine if user == "root" else machine.as_user()
    made = here.json(within(prefix, f"{PYTHON} {INSIDE}/groups.py"))
    assert made["version"] == 2
    assert (made["made"] is not None) == (place != "user-by-ssh")
    found = {one["what"]: one for one in here.json(within(prefix, "sparkpace doctor --output json"))}
    assert found["cgroups"]["state"] == ("missing" if made["made"] is None else "ok"), found["cgroups"]
    if made["made"] is None:
        assert "so the runtime `process` paces by suspending" in found["cgroups"]["found"]
    else:
        assert found["cgroups"]["found"].startswith("v2, writable in /sys/fs/cgroup/")


@pytest.fixture(params=["session", "service"])
def held(request: pytest.FixtureRequest, machine: Machine) -> Iterator[dict[str, Any]]:
    """Provide a group with a process and a quota, made by a program that runs in an ssh session or as a delegated service."""
    machine.run("rm -f /root/held.json; systemctl reset-failed lab-hold")
    program = f"/opt/venv/bin/python {INSIDE}/groups.py hold"
    if request.param == "service":
        where = "-p Delegate=yes -p StandardOutput=file:/root/held.json -E PYTHONPATH=/opt/sparkpace"
        machine.out(f"systemd-run -q --collect --unit=lab-hold {where} {program}")
    else:
        machine.out(f"PYTHONPATH=/opt/sparkpace setsid -f {program} >/root/held.json 2>/root/held.err </dev/null")
    eventually(lambda: machine.text("/root/held.json"), "the group that is held")
    yield machine.json("cat /root/held.json")
    machine.run("pkill -TERM -f '[g]roups.py hold'; while pgrep -f '[g]roups.py hold'; do sleep 0.2; done")


EVENTS = (
    "systemctl daemon-reload",
    "systemd-run -q --wait -p CPUQuota=50% true",
    "systemctl restart ssh",
    "systemctl daemon-reexec",
    "systemd-run -q --wait true",
)


def test_a_group_keeps_its_process_and_quota_whatever_systemd_does(machine: Machine, held: dict[str, Any]) -> None:
    group = held["made"]
    for event in ("true", *EVENTS):
        machine.out(event)
        assert machine.text(f"{group}/cpu.max") == "25000 100000", event
        assert machine.text(f"{group}/cgroup.procs") == str(held["pid"]), event


def test_under_a_quota_of_its_service_groups_are_made_inside_and_the_quota_is_known(machine: Machine) -> None:
    half = f"{SERVICE} -p CPUQuota=50%"
    made = machine.json(within(half, f"{PYTHON} {INSIDE}/groups.py"))
    unit = made["own"].removeprefix("0::").split("/")[2]
    assert unit.endswith(".service")
    assert made["made"].startswith(f"/sys/fs/cgroup/system.slice/{unit}/"), made
    assert made["quota_over"] == 0.5
    found = {one["what"]: one["found"] for one in machine.json(within(half, "sparkpace doctor --output json"))}
    assert "a CPU quota leaves plain processes 0.5 cores" in found["cgroups"]
