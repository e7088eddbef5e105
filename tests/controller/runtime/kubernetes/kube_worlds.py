"""Servers on which the suite of resizing pods runs: the stand-in, and a real server from 1.33 on.

The real one is that of the kubeconfig which `SPARKPACE_TEST_KUBECONFIG` names. Each test has a namespace of its own there,
which is deleted after it, and pods of the image `SPARKPACE_TEST_IMAGE`, which only has to go on running."""

from __future__ import annotations

import functools
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx2
import msgspec
from lightkube import ApiError, Client, KubeConfig, SingleConfig
from lightkube.models.meta_v1 import ObjectMeta
from lightkube.resources.core_v1 import LimitRange, Namespace, Pod

from controller.machine.process import Process
from controller.runtime.base import Adoption, ExecutorKey
from controller.runtime.claimed_process import ProcessClaim, Serves
from controller.runtime.kubernetes.api import KubernetesApi
from controller.runtime.kubernetes.pod_cpu import PodCpu, pod_cpu
from controller.runtime.kubernetes.runtime import KubernetesRuntime
from stage_model.errors import RuntimeFailed
from tests.fakes.kube_api import config_of, kube_server
from tests.fakes.kube_pods import executor_pod
from tests.fakes.kube_state import KubeState

KUBECONFIG = os.environ.get("SPARKPACE_TEST_KUBECONFIG", "")
IMAGE = os.environ.get("SPARKPACE_TEST_IMAGE", "localhost/pause:1")
DEADLINE_S = 120.0
"""Time until an expected event counts as missing."""
CLAIM = ProcessClaim(Process(7, 1, "another machine", "pid:[1]"), 185)

AWAY = config_of("http://127.0.0.1:9")
"""The way to a server that is away."""

T = TypeVar("T")


@dataclass
class World:
    """A namespace of a cluster. `state`: the stand-in's; None on a real server. `skipped_s` puts the runtime's clock
    forward."""

    config: SingleConfig
    folder: Path
    state: KubeState | None = None
    namespace: str = field(default_factory=lambda: f"sparkpace-{uuid.uuid4().hex[:8]}")
    application: str = field(default_factory=lambda: f"spark-{uuid.uuid4().hex}")
    skipped_s: float = 0.0
    opened: ExitStack = field(default_factory=ExitStack)

    def __post_init__(self) -> None:
        self.client = Client(self.config, timeout=httpx2.Timeout(30.0))
        self.opened.callback(self.client.close)

    @property
    def server(self) -> KubeState:
        assert self.state is not None
        return self.state

    def now(self) -> float:
        return time.monotonic() + self.skipped_s

    def until(self, found: Callable[[], T | None]) -> T:
        """Return the first truthy answer."""
        end_s = time.monotonic() + DEADLINE_S
        while time.monotonic() < end_s:
            if answer := found():
                return answer
            time.sleep(0.02)
        raise AssertionError(f"not within {DEADLINE_S} s")

    # ---------------------------------------------------------------- pods

    def serves(self, executor_id: str = "1") -> Serves:
        return Serves(self.application, executor_id, "spark://CoarseGrainedScheduler@driver:7078")

    def pod(self, name: str = "exec-1", executor_id: str = "1", **changed: Any) -> PodCpu:
        """Make a pod and wait until it runs with what it asks for."""
        self.create(executor_pod(name, self.serves(executor_id), image=IMAGE, **changed))
        return self.until(lambda: self._started(name))

    def create(self, pod: dict[str, Any]) -> None:
        def made() -> bool:
            try:
                self.client.create(msgspec.convert(pod, Pod), namespace=self.namespace)
            except ApiError as error:
                if error.status.code != 403 or "serviceaccount" not in (error.status.message or ""):
                    raise
                return False  # a new namespace has none for a moment
            return True

        self.until(made)

    def _started(self, name: str) -> PodCpu | None:
        pod, statuses = self.look(name), self.raw(name)["status"].get("containerStatuses") or [{}]
        return pod if pod.ip and pod.node and ("resources" in statuses[0] or pod.qos == "BestEffort") else None

    def raw(self, name: str) -> dict[str, Any]:
        raw: dict[str, Any] = self.client.get(Pod, name, namespace=self.namespace).to_dict()
        return raw

    def look(self, name: str = "exec-1") -> PodCpu:
        pod = pod_cpu(self.raw(name))
        assert pod is not None
        return pod

    def delete(self, name: str) -> None:
        self.client.delete(Pod, name, namespace=self.namespace, grace_period=0)

    def allow(self, **rules: str) -> None:
        """Bind containers' cores by these rules of a LimitRange from now on."""
        limits = [{"type": "Container", **{rule: {"cpu": cores} for rule, cores in rules.items()}}]
        wanted = {"metadata": {"name": "cores"}, "spec": {"limits": limits}}
        self.client.create(msgspec.convert(wanted, LimitRange), namespace=self.namespace)

    # ---------------------------------------------------------------- the runtime

    def api(self, config: SingleConfig | None = None) -> KubernetesApi:
        """Make a client of this server, or of another one."""
        made = KubernetesApi(config or self.config, self.namespace)
        self.opened.callback(made.close)
        return made

    def runtime(self, config: SingleConfig | None = None) -> KubernetesRuntime:
        made = KubernetesRuntime("cluster", "w1", self.folder / "pods", self.api(config), clock=self.now)
        self.opened.callback(made.close)
        return made

    def adoption(self, pod: PodCpu, cores: float = 0.3, executor_id: str = "1", slots: int = 2) -> Adoption:
        key = ExecutorKey("app", executor_id)
        return Adoption(key, CLAIM, self.serves(executor_id), cores, pod.ip, slots)

    def adopt(self, runtime: KubernetesRuntime, adoption: Adoption) -> ExecutorKey:
        """Adopt an executor once the runtime has seen its pod."""
        self.until(lambda: adopted(runtime, adoption))
        return adoption.key

    def skip(self, runtime: KubernetesRuntime, seconds: float) -> None:
        """Let time pass for the runtime."""
        self.skipped_s += seconds
        with runtime._changed:
            runtime._changed.notify_all()

    # ---------------------------------------------------------------- paced pods

    def paced(self, cores: float = 0.3, **pod: Any) -> tuple[KubernetesRuntime, ExecutorKey]:
        runtime, made = self.runtime(), self.pod(**pod)
        return runtime, self.adopt(runtime, self.adoption(made, cores))

    def settled(self, **pod: Any) -> tuple[KubernetesRuntime, ExecutorKey]:
        """Pace a pod at 0.3 and wait until that is in force."""
        runtime, key = self.paced(**pod)
        self.in_force(300)
        return runtime, key

    def many(self, number: int) -> tuple[KubernetesRuntime, list[str]]:
        """Pace executors at 0.3, of pods that had 0.5 and asked for 0.01, and wait for it."""
        runtime, names = self.runtime(), [f"exec-{index:02d}" for index in range(number)]
        for index, name in enumerate(names):
            self.adopt(runtime, self.adoption(self.pod(name, str(index), request="10m"), executor_id=str(index)))
        self.have_limit(names, 300)
        return runtime, names

    def in_force(self, limit_m: int, name: str = "exec-1") -> PodCpu:
        """Wait until the node has put this limit in force."""
        return self.until(lambda: pod if (pod := self.look(name)).in_force_m == pod.limit_m == limit_m else None)

    def have_limit(self, names: list[str], limit_m: int) -> None:
        self.until(lambda: all(self.look(name).limit_m == limit_m for name in names))

    def between(self, runtime: KubernetesRuntime, least_m: int, most_m: int) -> None:
        """Wait, while time passes for the runtime, until the pod has a limit between these."""

        def there() -> bool:
            self.skip(runtime, 1.5)
            return least_m <= (self.look().limit_m or 0) <= most_m

        self.until(there)

    def remark(self, runtime: KubernetesRuntime, key: ExecutorKey, words: str) -> str:
        """Wait for a remark with these words."""
        return self.until(lambda: said if words in (said := runtime.observe()[key].remark) else None)

    def close(self) -> None:
        self.opened.close()


def adopted(runtime: KubernetesRuntime, adoption: Adoption) -> bool:
    """Adopt an executor; return False if the runtime has not seen its pod yet."""
    try:
        runtime.adopt(adoption)
    except RuntimeFailed:
        return False
    return True


@contextmanager
def standin_world(folder: Path) -> Iterator[World]:
    state = KubeState()
    with kube_server(state) as config:
        world = World(config, folder, state)
        yield world
        world.close()


@functools.cache
def why_no_real_server() -> str:
    """Say why there is no real server that can resize pods; empty where there is one."""
    if not KUBECONFIG:
        return "SPARKPACE_TEST_KUBECONFIG names no kubeconfig of a cluster from 1.33 on"
    with Client(_real_config()) as client:
        said = client._client._client.get("/api/v1").json()
    names = [one["name"] for one in said["resources"]]
    return "" if "pods/resize" in names else f"the server of {KUBECONFIG} is older than 1.33: it cannot resize pods"


def _real_config() -> SingleConfig:
    config = KubeConfig.from_file(KUBECONFIG).get()
    assert config is not None
    return config


@contextmanager
def real_world(folder: Path) -> Iterator[World]:
    world = World(_real_config(), folder)
    world.client.create(Namespace(metadata=ObjectMeta(name=world.namespace)))
    try:
        yield world
        world.close()
    finally:
        with Client(_real_config()) as client:
            client.delete(Namespace, world.namespace)
