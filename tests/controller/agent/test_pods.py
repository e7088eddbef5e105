"""A whole agent that paces pods, on the stand-in for an API server. Its clock is the test's, its runtime's is real."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from controller.agent.executors.launcher import Launcher
from controller.agent.executors.starting import AdoptingStarter
from controller.agent.loop import Agent
from controller.agent.site import make_site, make_worker
from controller.runtime.base import ExecutorKey
from controller.runtime.kubernetes.pod_cpu import PodCpu
from controller.wire.driver import ExecutorProcess
from controller.wire.worker import AdoptedSpec, Desired, WorkerSync
from stage_model.plan import ApplicationPlan
from stage_model.progress import SCHEMA, Progress, StageProgress
from stage_model.settings import QuotaSettings
from tests.controller.runtime.kubernetes.kube_worlds import World, standin_world
from tests.fakes.options import agent_options
from tests.fakes.plans import plan
from tests.fakes.worker import report_of

pytestmark = pytest.mark.kubernetes_api

KEY = ExecutorKey("app", "1")


class PodsWorker:
    """An agent of three nodes with two cores each."""

    def __init__(self, world: World) -> None:
        options = agent_options(world.folder, runtime="kubernetes", nodes=3)
        self.world, self.now_s = world, 1000.0
        self.runtime, site = world.runtime(), make_site(options)
        self.launcher = Launcher(
            self.runtime, AdoptingStarter(self.runtime), site, world.folder / "records", clock=lambda: self.now_s
        )
        self.agent = Agent(make_worker(options), self.launcher, QuotaSettings(), instance="life")

    def pod(self, **amounts: str) -> PodCpu:
        """Make a pod of an executor, and wait until the runtime has seen it."""
        pod = self.world.pod(**amounts)
        self.world.until(lambda: pod.uid in self.runtime._pods)
        return pod

    def want(self, pod: PodCpu, *plans: ApplicationPlan, report: Progress | None = None) -> None:
        serves = self.world.serves()
        spec = AdoptedSpec(
            application_id="app",
            executor_id="1",
            slots=2,
            process=ExecutorProcess(pid=7, start_ticks=1, boot_id="its own", pid_namespace="pid:[1]", uid=185),
            spark_application_id=serves.spark_application_id,
            driver_url=serves.driver_url,
            host=pod.ip,
        )
        progress = {} if report is None else {"app/1": report}
        desired = Desired(
            cluster_id="cluster", generation=1, version=1, adopted=(spec,), applications=plans, progress=progress
        )
        self.agent.receive(desired, self.now_s)

    def tick(self, seconds: float = 1.0) -> WorkerSync:
        self.now_s += seconds
        report = self.agent.run_once()
        while not self.launcher._starts.empty():
            self.launcher._starts.get()()
        return report


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[PodsWorker]:
    with standin_world(tmp_path) as world:
        yield PodsWorker(world)


def reported(cpu_s: float, running: int = 2) -> Progress:
    stage = StageProgress(stage=1, attempt=0, running=running, done=0)
    return Progress(schema=SCHEMA, executor="1", sequence=1, stages=(stage,), cpu_s=cpu_s)


def test_the_agent_reports_the_cores_of_all_its_nodes(worker: PodsWorker) -> None:
    info = worker.agent.worker
    assert (info.cores, info.nodes, info.adopts, info.everywhere) == (6.0, 3, True, True)


def test_a_pod_is_taken_over_and_its_limit_follows_the_law(worker: PodsWorker) -> None:
    world = worker.world
    pod = worker.pod(limit="2", request="100m")
    worker.want(pod, plan(left_s=100.0), report=reported(500.0))
    worker.tick()
    worker.tick()

    def followed() -> bool:
        # two seconds have passed: 50 / 98 is 0.51, in quanta 0.55
        return report_of(worker.tick(0.0), KEY).quota_cores == 0.55

    world.until(followed)
    assert world.look().in_force_m == 550
    report = report_of(worker.tick(0.0), KEY)
    assert (report.state, report.cpu_core_s, report.risk) == ("running", 0.0, "")


def test_a_quota_on_its_way_is_ordered_once(worker: PodsWorker, caplog: pytest.LogCaptureFixture) -> None:
    world = worker.world
    pod = worker.pod(limit="2", request="100m")
    world.server.orders.gated = frozenset({pod.name})
    worker.want(pod, plan(left_s=100.0), report=reported(500.0))
    caplog.set_level(logging.INFO, "sparkpace.agent")
    worker.tick()
    for _ in range(20):
        worker.tick(0.0)
    assert worker.runtime.observe()[KEY].quota_cores == 2.0
    assert len([message for message in caplog.messages if message.startswith("quota app/1 ")]) == 1
    world.server.orders.gate.set()


def test_a_job_without_a_deadline_keeps_what_its_pod_has_asked_for(worker: PodsWorker) -> None:
    """A job before its first task needs no cores, and gives none away."""
    world = worker.world
    pod = worker.pod(limit="600m", request="500m")
    worker.want(pod, plan(left_s=None, stages=()), report=reported(0.0, running=0))
    for _ in range(3):
        worker.tick()
    world.until(lambda: world.look().in_force_m == 501)
    assert world.look().request_m == 500


def test_its_cpu_is_what_it_tells_within_its_quota(worker: PodsWorker) -> None:
    world = worker.world
    pod = worker.pod(limit="500m", request="100m")
    worker.want(pod, plan(left_s=100.0), report=reported(500.0))
    for _ in range(3):
        worker.tick()
    world.until(lambda: worker.runtime.observe()[KEY].quota_cores == 0.5)
    worker.tick()
    before = report_of(worker.tick(), KEY).cpu_core_s
    worker.want(pod, plan(left_s=100.0), report=reported(500.4))
    assert report_of(worker.tick(), KEY).cpu_core_s == pytest.approx(before + 0.4)
    worker.want(pod, plan(left_s=100.0), report=reported(9999.0))
    assert report_of(worker.tick(), KEY).cpu_core_s <= before + 0.4 + 0.5 * 6


def test_an_executor_without_a_pod_of_the_cluster_is_reported_with_the_reason(worker: PodsWorker) -> None:
    pod = worker.pod()
    world_ip = pod.ip
    worker.want(PodCpu(**{name: getattr(pod, name) for name in pod.__slots__} | {"ip": "192.0.2.9"}))
    worker.tick()
    report = report_of(worker.tick(), KEY)
    assert report.state == "refused"
    assert f"has address {world_ip}, not 192.0.2.9" in report.reason
