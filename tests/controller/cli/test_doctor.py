"""Findings of `doctor` about a machine."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from controller.cli.doctor import cgroups, disk_rates, limits, maker_of_groups, network_rates, pressure
from controller.home import AgentProcess, Home
from controller.machine import admin_program, devices, proc
from controller.machine.process import find_process
from controller.runtime.table import RUNTIMES
from stage_model.errors import Unavailable
from tests.controller.runtime.cgroup.planted import IO_V1, IO_V2, PID, V1, V2, delegate, plant
from tests.fakes.commands import write_cluster
from tests.fakes.refusals import assert_names

SERVICE = {
    "proc/4711/cgroup": "0::/system.slice/agent.service\n",
    "fs/system.slice/cpu.max": "max 100000\n",
    "fs/system.slice/agent.service/cgroup.controllers": "cpu memory\n",
    "fs/system.slice/agent.service/cgroup.subtree_control": "",
    "fs/system.slice/agent.service/cpu.max": "3000 100000\n",
}
"""An agent's service with CPUQuota=3%, in a slice that this user may not write."""


def test_it_looks_where_groups_would_be_made_and_not_at_the_root(tmp_path: Path) -> None:
    tree, service = plant(tmp_path / "2", V2 | SERVICE), tmp_path / "2/fs/system.slice/agent.service"
    with pytest.raises(Unavailable) as missing:
        cgroups(tree, PID)
    assert_names(missing.value, service.parent, "may not be written", "paces by suspending", "Delegate=yes")
    delegate(service)
    assert cgroups(tree, PID) == f"v2, writable in {service}; a CPU quota leaves plain processes 0.03 cores"
    assert cgroups(plant(tmp_path / "1", V1), PID).startswith(f"v1, writable in {tmp_path}/1/fs/cpu/box/a")


def test_it_looks_at_the_groups_of_an_agent_that_runs(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    assert maker_of_groups(home) == os.getpid()
    home.create()
    agent = subprocess.Popen(("sleep", "1000"))
    try:
        process = find_process(agent.pid)
        assert process is not None
        write_cluster(home, agents=(AgentProcess(worker_id="w1", process=process),))
        assert maker_of_groups(home) == agent.pid
    finally:
        agent.kill()
        agent.wait()
    assert maker_of_groups(home) == os.getpid()


def test_it_says_what_a_runtime_does_not_limit() -> None:
    assert "read-only" in limits(RUNTIMES["docker"])
    with pytest.raises(Unavailable, match=r"process.*--runtime docker"):
        limits(RUNTIMES["process"])
    for row in RUNTIMES.values():
        if not row.starts:
            assert "their cluster manager" in limits(row)


def test_it_says_what_shows_pressure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proc, "PROC", tmp_path)
    with pytest.raises(Unavailable, match=r"psi=1"):
        pressure()
    (tmp_path / "pressure").mkdir()
    (tmp_path / "pressure" / "memory").write_text("some avg10=1.00 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.00 ")
    assert "PSI" in pressure()


def test_it_says_for_which_device_rates_hold_what(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(devices, "BLOCK_DEVICES", tmp_path / "block")
    number, row = tmp_path.stat().st_dev, RUNTIMES["docker"]
    disk = tmp_path / "block" / f"{os.major(number)}:{os.minor(number)}"
    disk.mkdir(parents=True)
    (disk / "dev").write_text("8:0\n")
    first, second = plant(tmp_path / "1", IO_V1), plant(tmp_path / "2", IO_V2)
    assert disk_rates(tmp_path, row, first, PID) == (
        f"--disk-mb holds reads and direct writes, not buffered ones on device 8:0 of {tmp_path} (control groups v1)"
    )
    assert "holds reads and writes on device 8:0" in disk_rates(tmp_path, row, second, PID)
    assert "holds reads" in disk_rates(tmp_path, RUNTIMES["process"], first, PID)

    for tree, of, words in (
        (plant(tmp_path / "3", V1), row, "no control groups for block devices"),
        (plant(tmp_path / "4", V2), row, "no I/O controller"),
        (second, RUNTIMES["kubernetes"], "another cluster manager"),
    ):
        with pytest.raises(Unavailable, match=words):
            disk_rates(tmp_path, of, tree, PID)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    with pytest.raises(Unavailable, match="only root"):
        disk_rates(tmp_path, row, first, PID)
    (disk / "dev").unlink()
    with pytest.raises(Unavailable, match=f"{tmp_path} is on a file system"):
        disk_rates(tmp_path, row, first, PID)


def test_it_says_why_no_network_rates_can_be_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = Home(tmp_path / "home")
    home.create()
    for runtime, network, words in (
        ("process", "open", "the host's network"),
        ("docker", "host", "the host's network"),
        ("adopt", "open", "another cluster manager"),
    ):
        write_cluster(home, runtime=runtime, network=network)
        with pytest.raises(Unavailable, match=words):
            network_rates(home.cluster())
    write_cluster(home, runtime="docker", network="open")
    monkeypatch.setattr(admin_program, "ADMIN_PATH", str(tmp_path))
    with pytest.raises(Unavailable, match=r"only root|there is no tc"):
        network_rates(home.cluster())
