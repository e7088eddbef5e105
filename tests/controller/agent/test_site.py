"""A worker's address, places and facts from its options."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from controller.agent.executors.class_archive import archive_root
from controller.agent.site import cores_here, make_site, make_worker, why_fewer_cores
from controller.asks.options import AgentOptions
from controller.runtime.base import ExecutorKey
from controller.runtime.cgroup.tree import CgroupTree
from tests.controller.runtime.cgroup.planted import V2, plant
from tests.fakes.options import agent_options
from tests.fakes.refusals import assert_names


def options(home: Path, master_url: str = "https://127.0.0.1:7070") -> AgentOptions:
    return agent_options(home, cores=1.5, memory_mb=2048, period_s=2.5, master_url=master_url, allow_mounts=(home / "data",))


@pytest.mark.parametrize("url", ["https://127.0.0.1:1", "https://localhost:1", "https://[::1]:1"])
def test_with_a_loopback_master_executors_are_on_loopback(tmp_path: Path, url: str) -> None:
    assert make_site(options(tmp_path, url)).host == "127.0.0.1"


def test_places_of_an_executor_are_real_ones_so_that_masks_lie_around_them(tmp_path: Path) -> None:
    for folder in ("disk/home", "scratch"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "link").symlink_to("disk/home")
    (tmp_path / "disk/home/local").symlink_to(tmp_path / "scratch")
    site, key = make_site(options(tmp_path / "link")), ExecutorKey("app", "2")
    assert site.home == tmp_path / "disk/home"
    assert site.local_dir(key) == tmp_path / "scratch/app"
    assert site.control_dir(key) == tmp_path / "scratch/app/executor-2/control"
    assert site.log_dir(key) == tmp_path / "disk/home/runs/app/executors/2"
    assert site.orders_dir(key) == tmp_path / "disk/home/agents/w1/orders/app/2"


def test_executors_see_only_their_mounts_in_containers_and_nowhere_else(tmp_path: Path) -> None:
    for runtime, mounts in (("docker", True), ("process", False)):
        assert make_site(replace(options(tmp_path), runtime=runtime)).mounts is mounts


def test_the_agent_reports_cores_memory_period_and_mounts_to_the_master(tmp_path: Path) -> None:
    worker = make_worker(options(tmp_path), CgroupTree(tmp_path))
    assert (worker.cores, worker.memory_mb, worker.pid) == (1.5, 2048, os.getpid())
    assert worker.period_s == 2.5
    assert worker.allowed_mounts == (str(tmp_path / "data"),)
    assert why_fewer_cores(options(tmp_path), worker) == ""


@pytest.mark.parametrize(
    ("runtime", "quota", "cores"),
    [
        ("process", "33000", 0.3),  # whole quanta
        ("process", "1000", 0.1),  # not below the floor, with which an executor could not be paced
        ("process", "200000", 1.5),
        ("process", "max", 1.5),
        ("docker", "33000", 1.5),  # containers are not in the agent's groups
    ],
)
def test_processes_get_no_more_than_quotas_over_their_agent(runtime: str, quota: str, cores: float, tmp_path: Path) -> None:
    mine = {f"proc/{os.getpid()}/cgroup": "0::/box/a\n", "fs/box/cpu.max": f"{quota} 100000\n"}
    tree = plant(tmp_path, V2 | mine | {"fs/box/a/cpu.max": "max 100000\n"})
    asked = replace(options(tmp_path), runtime=runtime)
    assert cores_here(asked, tree) == cores
    worker = make_worker(asked, tree)
    assert worker.cores == cores
    said = why_fewer_cores(asked, worker)
    assert bool(said) == (cores < 1.5)
    if said:
        assert_names(said, f"{cores:g} cores and not 1.5", "CPUQuota=")


def test_class_archives_are_a_cache_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert archive_root() == Path("/home/me/.cache/sparkpace/class-archives")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert archive_root() == Path("/cache/sparkpace/class-archives")
