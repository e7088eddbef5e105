"""Pods of executors: which pod is the executor's, and pods that are strange or gone."""

from __future__ import annotations

import dataclasses

import pytest

from controller.runtime.base import ExecutorKey
from stage_model.errors import RuntimeFailed, RuntimeRefused
from tests.controller.runtime.kubernetes.kube_worlds import IMAGE, World
from tests.fakes.kube_pods import executor_pod

pytestmark = pytest.mark.kubernetes_api


def test_pods_that_are_not_what_they_say_are_refused(world: World) -> None:
    runtime, mine = world.runtime(), world.pod()
    foreign = dataclasses.replace(world.serves("2"), driver_url="spark://CoarseGrainedScheduler@somebody:7078")
    labelled = executor_pod("foreign", world.serves("2"), image=IMAGE)
    labelled["spec"]["containers"][0]["env"][0]["value"] = foreign.driver_url
    world.create(labelled)
    with pytest.raises(RuntimeRefused, match="this driver"):
        world.adopt(runtime, world.adoption(mine, executor_id="2"))
    with pytest.raises(RuntimeRefused, match=r"192\.0\.2\.7"):
        world.adopt(runtime, dataclasses.replace(world.adoption(mine), host="192.0.2.7"))
    with pytest.raises(RuntimeFailed, match="no pod"):
        runtime.adopt(world.adoption(mine, executor_id="3"))
    world.adopt(runtime, world.adoption(mine))
    with pytest.raises(RuntimeRefused, match="app/1"):
        runtime.adopt(dataclasses.replace(world.adoption(mine), key=ExecutorKey("thief", "1")))


def test_a_pod_that_claims_to_be_anothers_is_recognised_by_its_address(world: World) -> None:
    runtime, mine = world.runtime(), world.pod()
    world.pod("copy")
    key = world.adopt(runtime, world.adoption(mine, 0.3))
    world.in_force(300)
    assert (world.look("copy").limit_m, runtime.observe()[key].running) == (500, True)


def test_a_pod_that_is_gone_has_ended(world: World) -> None:
    runtime, key = world.paced()
    world.delete("exec-1")
    ended = world.until(lambda: seen if not (seen := runtime.observe()[key]).running else None)
    assert ended.quota_cores is None
    assert not runtime.set_quota(key, 1.0)
    runtime.remove(key)


def test_pods_that_cannot_be_read_are_left_out(standin: World) -> None:
    runtime, key = standin.paced()
    odd, state = executor_pod("odd", standin.serves("9")), standin.server
    with state.changed:
        made = state.create(standin.namespace, odd)
        state.events.pop()
        broken = state.pods[standin.namespace, "odd"]
        broken["spec"]["containers"] = [{"name": 7, "resources": {}}]
        state._event("ADDED", broken)
        state.end_watches()
    runtime.set_quota(key, 0.7)
    standin.in_force(700)
    with pytest.raises(RuntimeFailed, match="no pod"):
        runtime.adopt(dataclasses.replace(standin.adoption(standin.look(), executor_id="9"), host=made["status"]["podIP"]))


def test_a_pod_with_a_line_separator_in_its_annotations_ends_no_watch(standin: World) -> None:
    runtime, _ = standin.paced()
    odd = executor_pod("odd", standin.serves("9"))
    odd["metadata"]["annotations"] = {"note": "one\x85two"}
    standin.create(odd)
    standin.until(lambda: "odd" in {pod.name for pod in list(runtime._pods.values())})
    assert runtime._away.failures == 0
