"""The machines of a running lab, as tests use them: commands by ssh, cables and plugs."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LAB = Path(__file__).with_name("lab.sh")
COMMAND_S = 180.0
"""Longest time of a command in a machine: a guard against what hangs, not a verdict."""
PYTHON = "PYTHONPATH=/opt/sparkpace /opt/venv/bin/python"
INSIDE = "/opt/sparkpace/tests/lab/inside"


@dataclass(frozen=True, slots=True)
class Machine:
    """A machine of the lab. `run` returns a command's end, `out` the output of a command that succeeds."""

    name: str
    address: str
    release: int
    """Number of its Debian."""
    systemd: int
    user: str = "root"

    def as_user(self) -> Machine:
        """Return the same machine, used by an ordinary user."""
        return Machine(self.name, self.address, self.release, self.systemd, "ann")

    def run(self, command: str, *, stdin: str = "", timeout_s: float = COMMAND_S) -> subprocess.CompletedProcess[str]:
        """Run a shell's command by ssh."""
        words = [str(LAB), "on", f"{self.user}@{self.name}", command]
        return subprocess.run(words, input=stdin, capture_output=True, text=True, check=False, timeout=timeout_s)

    def out(self, command: str, *, stdin: str = "", timeout_s: float = COMMAND_S) -> str:
        done = self.run(command, stdin=stdin, timeout_s=timeout_s)
        assert done.returncode == 0, f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, command: str) -> Any:
        """Return the JSON that a command prints, whatever its exit code is."""
        done = self.run(command)
        assert done.stdout, f"{command} ended with {done.returncode} and printed nothing:\n{done.stderr}"
        return json.loads(done.stdout)

    def text(self, path: str) -> str:
        """Return a file's content; empty without the file."""
        return self.run(f"cat {shlex.quote(path)}").stdout.strip()

    def show(self, unit: str, name: str, manager: str = "systemctl") -> str:
        """Return a property of a unit."""
        return self.out(f"{manager} show -P {name} {unit}").strip()

    def group_of(self, pid: int) -> str:
        """Return the directory of a process's control group."""
        return f"/sys/fs/cgroup{self.out(f'cat /proc/{pid}/cgroup').strip().removeprefix('0::')}"

    def cut(self) -> None:
        act("cut", self.name)

    def heal(self) -> None:
        act("heal", self.name)

    def power_off(self) -> None:
        act("off", self.name)

    def power_on(self) -> None:
        act("start", self.name, timeout_s=600.0)


MACHINES = (Machine("a", "10.77.0.11", 13, 257), Machine("b", "10.77.0.12", 12, 252))
THIRD = Machine("c", "10.77.0.13", 12, 252)
"""A machine that runs only while a test needs it."""


def act(*words: str, timeout_s: float = COMMAND_S) -> None:
    """Run a command of the lab itself."""
    done = subprocess.run([str(LAB), *words], capture_output=True, text=True, check=False, timeout=timeout_s)
    assert done.returncode == 0, f"lab.sh {' '.join(words)}: {done.stderr}"


@dataclass(frozen=True, slots=True)
class Home:
    """A home of Sparkpace on a machine, and the variables of its commands: by default, executors run what passes for a
    Java."""

    machine: Machine
    path: str
    variables: tuple[str, ...] = ("JAVA_HOME=/opt/standin",)

    @property
    def manager(self) -> str:
        return "systemctl" if self.machine.user == "root" else "systemctl --user"

    def command(self, *words: str) -> str:
        return shlex.join(["env", *self.variables, f"SPARKPACE_HOME={self.path}", "sparkpace", *words])

    def sparkpace(self, *words: str, stdin: str = "") -> str:
        return self.machine.out(self.command(*words), stdin=stdin)

    def run_services(self, units: Sequence[str]) -> None:
        """Make services of what runs, by the words that `install-service` prints."""
        said = self.sparkpace("install-service").splitlines()
        for line in said:
            if "Its service starts once that has ended" in line:
                pid = int(line.partition(" runs as process ")[2].split()[0])
                self.machine.out(f"kill {pid}; while kill -0 {pid} 2>/dev/null; do sleep 0.2; done")
        (start,) = [line.partition(": ")[2] for line in said if " enable --now " in line]
        self.machine.out(start)
        for unit in units:
            assert self.active(unit), self.journal(unit)

    def active(self, unit: str) -> bool:
        return self.machine.run(f"{self.manager} is-active {unit}").stdout.strip() == "active"

    def journal(self, unit: str) -> str:
        """Return the end of a unit's log."""
        scope = "" if self.machine.user == "root" else "--user "
        return self.machine.run(f"journalctl {scope}--no-pager -n 40 -u {unit}").stdout

    def end(self) -> None:
        """End what runs, and remove the units and the home."""
        said = self.machine.run(self.command("install-service", "--uninstall")).stdout
        self.machine.run(self.command("down"))
        for line in said.splitlines():
            if " disable " in line:
                self.machine.run(line.partition(": ")[2])
        self.machine.run(f"rm -rf {self.path}")

    def _workers(self) -> list[dict[str, Any]]:
        shown = self.machine.json(self.command("top", "--output", "json"))
        return list(shown["workers"])

    def workers(self) -> dict[str, str]:
        """Return the sentence on the silence of each worker, empty where it reports."""
        return {worker["worker_id"]: worker.get("silence", "") for worker in self._workers()}

    def cores(self) -> dict[str, float]:
        return {worker["worker_id"]: worker["cores"] for worker in self._workers()}


@dataclass(frozen=True, slots=True)
class Driver:
    """An application whose driver is a service of the machine without a JVM (`inside/driver.py`)."""

    home: Home
    executors: int

    UNIT = "lab-driver"
    LOG = "/root/lab-driver.log"

    def start(self) -> None:
        self.home.machine.out(
            f"rm -f {self.LOG}; systemd-run -q --collect --unit={self.UNIT} -p StandardOutput=append:{self.LOG} "
            f"-E PYTHONPATH=/opt/sparkpace /opt/venv/bin/python {INSIDE}/driver.py {self.home.path} {self.executors}"
        )

    def end(self) -> None:
        self.home.machine.run(f"systemctl stop {self.UNIT}")

    def said(self) -> list[dict[str, str]]:
        return [json.loads(line) for line in self.home.machine.text(self.LOG).splitlines()]

    def notices(self) -> list[str]:
        return [line["notice"] for line in self.said() if "notice" in line]

    def gone(self) -> dict[str, str]:
        """Return the reason for each executor that the driver has lost."""
        return {line["gone"]: line["reason"] for line in self.said() if "gone" in line}


def executors(machine: Machine) -> list[int]:
    """Return the processes of the executors on a machine."""
    found = machine.run("pgrep -f '^/bin/sh /opt/standin/bin/java '").stdout
    return sorted(map(int, found.split()))
