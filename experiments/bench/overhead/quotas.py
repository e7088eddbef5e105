"""The time that a quota takes from the agent's call into the kernel: the production's docker runtime on real containers."""

from __future__ import annotations

import os
import random
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path

import docker
import msgspec

from controller.runtime.base import CPU_PERIOD_US, ExecutorKey, Launch
from controller.runtime.cgroup.group import Group, quota_us
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.docker.container import CLUSTER
from controller.runtime.docker.engine import DockerRuntime
from controller.runtime.launching import unique_name

IDLE, BUSY = "sleep 1000000", "while :; do :; done"
MEMORY_BYTES = 64 << 20
SETTLE_S = 3.0
SETTLED_S = 60.0
BETWEEN_S = 0.05
START = 0.95

Change = Callable[[ExecutorKey, float], object]


class QuotaRow(msgspec.Struct, frozen=True, kw_only=True):
    """`busy` containers compute all the time. `each_ms`: of every change made by itself; `together_s`: until the last of as
    many changes, which the agent makes in one period, is in the kernel; `told_s`: until the engine's record has them all,
    too. `cpu_ms`: this process's CPU for a change, on average, with passing it to the engine; `docker_py_cpu_ms`: for passing
    it through the client library (None: from before these were measured)."""

    containers: int
    busy: int
    each_ms: tuple[float, ...]
    together_s: float
    told_s: float | None = None
    cpu_ms: float | None = None
    docker_py_cpu_ms: float | None = None


def measure_changes(containers: int, busy: int, seed: int) -> QuotaRow:
    """Change the quota of `containers` idle containers one by one, then of all in one go, while `busy` more compute."""
    rng = random.Random(seed)
    with _running(containers, busy) as (runtime, groups, update):
        keys = list(groups)
        each = []
        for key in keys:
            time.sleep(BETWEEN_S)
            each.append(1000 * _change(runtime, groups[key], key, _cores(rng)))
        _settle(runtime)
        wanted = {key: _cores(rng) for key in keys}
        begun_s = time.monotonic()
        for key in keys:
            _change(runtime, groups[key], key, wanted[key])
        together_s = time.monotonic() - begun_s
        _settle(runtime)
        recorded_s = time.monotonic() - begun_s
        own_s = _cpu_s(lambda: _change_all(runtime, {key: _cores(rng) for key in keys}))
        docker_py_s = sum(_cpu_s(partial(update, key, _cores(rng))) for key in keys)
    return QuotaRow(
        containers=containers,
        busy=busy,
        each_ms=tuple(round(ms, 2) for ms in each),
        together_s=round(together_s, 3),
        told_s=round(recorded_s, 3),
        cpu_ms=round(1000 * own_s / containers, 3),
        docker_py_cpu_ms=round(1000 * docker_py_s / containers, 3),
    )


def _cores(rng: random.Random) -> float:
    """Return cores in whole hundredths, never what a container starts with."""
    return rng.randrange(10, 90) / 100


def _cpu_s(change: Callable[[], object]) -> float:
    begun_s = time.process_time()
    change()
    return time.process_time() - begun_s


def _change_all(runtime: DockerRuntime, wanted: Mapping[ExecutorKey, float]) -> None:
    """Change all quotas, until the engine knows them, too, which is most of the work."""
    for key, cores in wanted.items():
        runtime.set_quota(key, cores)
    _settle(runtime)


def _settle(runtime: DockerRuntime) -> None:
    if not runtime.chores.settle(SETTLED_S):
        raise SystemExit(f"the engine did not take all quotas within {SETTLED_S:g} s; is it running?")


def _change(runtime: DockerRuntime, group: Group, key: ExecutorKey, cores: float) -> float:
    """Return the seconds until the kernel's file has the quota; the file is read once the call is back."""
    begun_s = time.monotonic()
    runtime.set_quota(key, cores)
    while abs((CgroupTree().read_quota(group) or 0.0) - cores) > 1e-6:
        time.sleep(0.001)
    return time.monotonic() - begun_s


@contextmanager
def _running(idle: int, busy: int) -> Iterator[tuple[DockerRuntime, dict[ExecutorKey, Group], Change]]:
    """Provide a runtime with idle and busy containers, the idle ones' control groups, and the client library's way to set
    their quotas; all are gone afterwards."""
    cluster = f"quotas-{uuid.uuid4().hex[:8]}"
    engine = docker.from_env()
    with tempfile.TemporaryDirectory() as folder:
        runtime = DockerRuntime(cluster, "w1", Path(folder, "records"))
        try:
            launches = [_launch(Path(folder), n, BUSY if n < busy else IDLE) for n in range(idle + busy)]
            for launch in launches:
                runtime.start(launch)
            groups, ids = {}, {}
            for launch in launches[busy:]:
                seen = engine.api.inspect_container(unique_name(cluster, "w1", launch.key))
                group = CgroupTree().group_of(seen["State"]["Pid"], must_contain=seen["Id"])
                if group is None:
                    raise SystemExit("the containers' control groups are not visible here; run this on the engine's machine")
                groups[launch.key], ids[launch.key] = group, seen["Id"]
            time.sleep(SETTLE_S)
            yield (
                runtime,
                groups,
                lambda key, cores: engine.api.update_container(ids[key], cpu_period=CPU_PERIOD_US, cpu_quota=quota_us(cores)),
            )
        finally:
            for left in engine.api.containers(all=True, filters={"label": f"{CLUSTER}={cluster}"}):
                with suppress(docker.errors.NotFound):
                    engine.api.remove_container(left["Id"], force=True, v=True)
            runtime.close()
            engine.close()


def _launch(folder: Path, number: int, command: str) -> Launch:
    own = folder / str(number)
    own.mkdir()
    return Launch(
        key=ExecutorKey("application", str(number)),
        argv=["/bin/sh", "-c", command],
        environment={},
        binds=[],
        working_dir=own,
        log_dir=own,
        memory_bytes=MEMORY_BYTES,
        cores=1.0 if command == BUSY else START,
        uid=os.getuid(),
        gid=os.getgid(),
    )
