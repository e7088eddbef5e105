"""A rig of every runtime, on which the tests of the contract run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from controller.runtime.base import Starter
from controller.runtime.cgroup.tree import CgroupTree
from tests.controller.runtime import rigs
from tests.controller.runtime.docker.rig import DockerRig
from tests.controller.runtime.rigs import AnyRig

RIGS: Mapping[str, Callable[[Path], AnyRig]] = {
    "fake": rigs.FakeRig,
    "process-signals": rigs.ProcessRig,
    "process-cgroup": rigs.CgroupProcessRig,
    "docker": DockerRig,
    "adopt-signals": rigs.AdoptRig,
    "adopt-cgroup": rigs.CgroupAdoptRig,
    "kubernetes": rigs.KubernetesRig,
}
"""Rigs by runtime and, after a hyphen, by the way of pacing."""


def _cgroups_writable() -> bool:
    tree = CgroupTree()
    group = tree.create("sparkpace-probe")
    return group is not None and tree.remove(group)


def _marked(name: str) -> object:
    mark = {"docker": pytest.mark.docker, "kubernetes": pytest.mark.kubernetes_api}.get(name)
    return name if mark is None else pytest.param(name, marks=mark)


@pytest.fixture(params=map(_marked, RIGS))
def rig(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyRig]:
    if request.param in ("process-cgroup", "adopt-cgroup") and not _cgroups_writable():
        pytest.skip("control groups are not writable here")
    made = RIGS[request.param](tmp_path)
    yield made
    made.close()


@pytest.fixture
def starter(rig: AnyRig) -> Starter:
    """Provide a runtime that starts executors; skip the rigs whose runtime does not."""
    if not rig.starts:
        pytest.skip("this runtime starts and ends nothing")
    made: Starter = rig.runtime()
    return made


@pytest.fixture
def runtime(rig: AnyRig, starter: Starter) -> Starter:
    """Provide a runtime that starts programs; skip the rigs whose runtime starts none."""
    if not rig.runs_programs:
        pytest.skip("no program runs here")
    return starter
