"""The units that `install-service` writes: they start, come back, and end no executor."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.integration.local_cluster import eventually
from tests.lab.machines import Driver, Home, Machine, executors

pytestmark = [pytest.mark.lab, pytest.mark.slow]

MASTER, AGENT = "sparkpace-master.service", "sparkpace-agent-w1.service"
UNITS = (MASTER, AGENT)
INSIDE_FROM = 254
"""The first systemd that starts an agent in a subgroup of its unit, next to which there is room for executors."""


def up(home: Home, port: int) -> None:
    home.sparkpace("up", "--workers", "1", "--runtime", "process", "--cores", "0.5", "--memory", "512m", "--port", str(port))
    home.run_services(UNITS)


@pytest.fixture(scope="module")
def home(machine: Machine) -> Iterator[Home]:
    """Provide a home whose master and agent are services of the system, with an application that has an executor."""
    made = Home(machine, "/var/lib/sparkpace-lab")
    driver = Driver(made, 1)
    try:
        up(made, 7171)
        driver.start()
        eventually(lambda: executors(machine), "an executor")
        yield made
    finally:
        driver.end()
        made.end()


def main_pids(home: Home) -> list[int]:
    return [int(home.machine.show(unit, "MainPID", home.manager)) for unit in UNITS]


def assert_paced(machine: Machine, pid: int) -> None:
    """Check that the executor still runs, in a group with a quota."""
    assert executors(machine) == [pid]
    quota = machine.text(f"{machine.group_of(pid)}/cpu.max")
    assert quota.partition(" ")[0].isdecimal(), quota


def come_back(home: Home, before: list[int]) -> None:
    """Wait until both services run as other processes, and the worker reports."""

    def back() -> bool:
        now = main_pids(home)
        return all(home.active(unit) for unit in UNITS) and not set(now) & {0, *before}

    eventually(back, "other processes of both services")
    eventually(lambda: _reports(home), "a report of the worker")


def _reports(home: Home) -> bool:
    return home.machine.run(home.command("ps")).returncode == 0 and home.workers() == {"w1": ""}


def test_units_start_with_a_watchdog(home: Home) -> None:
    for unit in UNITS:
        assert home.active(unit)
        assert home.machine.show(unit, "WatchdogUSec") == "1min"
    assert home.machine.show(AGENT, "Delegate") == ("yes" if home.machine.systemd >= INSIDE_FROM else "no")


def test_an_executors_group_lies_in_the_unit_of_its_agent(home: Home) -> None:
    (pid,) = executors(home.machine)
    inside = home.machine.group_of(pid).startswith(f"/sys/fs/cgroup/system.slice/{AGENT}/")
    assert inside == (home.machine.systemd >= INSIDE_FROM)
    assert_paced(home.machine, pid)


def test_executors_and_their_groups_outlive_a_restart_of_the_units(home: Home) -> None:
    (pid,) = executors(home.machine)
    for event in ("systemctl daemon-reload", "systemctl daemon-reexec"):
        home.machine.out(event)
        assert_paced(home.machine, pid)
    before = main_pids(home)
    home.machine.out(f"systemctl restart {' '.join(UNITS)}")
    come_back(home, before)
    assert_paced(home.machine, pid)


def test_an_agent_gives_executors_no_more_than_the_quota_of_its_unit(home: Home) -> None:
    (pid,) = executors(home.machine)
    for quota, cores, value in (("30%", 0.3, 30_000), ("", 0.5, 50_000)):
        before = main_pids(home)
        home.machine.out(f"systemctl set-property --runtime {AGENT} CPUQuota={quota}; systemctl restart {' '.join(UNITS)}")
        come_back(home, before)
        assert home.cores() == {"w1": cores}
        assert_paced(home.machine, pid)

        def within_its_unit(most: int = value) -> bool:
            return int(home.machine.text(f"{home.machine.group_of(pid)}/cpu.max").split()[0]) <= most

        eventually(within_its_unit, f"a quota of {value} at most")
    assert "executors get 0.3 cores and not 0.5" in home.journal(AGENT)


def test_services_whose_main_process_is_killed_come_back_and_executors_go_on(home: Home) -> None:
    (pid,), before = executors(home.machine), main_pids(home)
    home.machine.out(f"systemctl kill --kill-whom=main -s KILL {' '.join(UNITS)}")
    come_back(home, before)
    assert_paced(home.machine, pid)


def test_services_that_are_killed_with_all_their_processes_come_back(home: Home) -> None:
    before = main_pids(home)
    home.machine.out(f"systemctl kill -s KILL {' '.join(UNITS)}")
    come_back(home, before)
    eventually(lambda: len(executors(home.machine)) == 1, "an executor")


def test_services_that_stand_still_are_started_again(home: Home) -> None:
    before = main_pids(home)
    home.machine.out(f"systemctl kill --kill-whom=main -s STOP {' '.join(UNITS)}")
    come_back(home, before)
    for unit in UNITS:
        assert "watchdog" in home.journal(unit).lower()


def test_units_of_an_ordinary_user_start_and_come_back(machine: Machine) -> None:
    home = Home(machine.as_user(), "/home/ann/sparkpace-lab")
    try:
        machine.out("loginctl enable-linger ann")
        up(home, 7272)
        for unit in UNITS:
            assert home.machine.show(unit, "WatchdogUSec", home.manager) == "1min"
        before = main_pids(home)
        home.machine.out(f"systemctl --user kill -s KILL {' '.join(UNITS)}")
        come_back(home, before)
    finally:
        home.end()
        machine.run("loginctl disable-linger ann")


def test_what_is_uninstalled_is_gone(home: Home) -> None:
    said = home.sparkpace("install-service", "--uninstall").splitlines()
    (disable,) = [line.partition(": ")[2] for line in said if " disable " in line]
    home.sparkpace("down")
    home.machine.out(disable)
    assert home.machine.out("find /etc/systemd/system /run/systemd/system -name 'sparkpace-*'") == ""
    assert home.machine.out("systemctl list-units --all --plain --no-legend 'sparkpace-*'") == ""
    assert home.machine.out("find /sys/fs/cgroup -name '*sparkpace*'") == ""
    assert executors(home.machine) == []
