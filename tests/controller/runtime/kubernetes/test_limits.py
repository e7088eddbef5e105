"""The CPU limit of a pod: it follows the grant, as far as pod, namespace and node allow."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from controller.agent.open_quotas import let_go_all, open_all
from controller.runtime.kubernetes.pod_resize import LATE_S
from stage_model.errors import RuntimeRefused
from tests.controller.runtime.kubernetes.kube_worlds import World
from tests.fakes.refusals import assert_names

pytestmark = pytest.mark.kubernetes_api


def test_the_limit_follows_the_grant_in_place_and_memory_stays(world: World) -> None:
    runtime, key = world.paced()
    before = world.raw("exec-1")
    world.in_force(300)
    world.until(lambda: runtime.observe()[key].quota_cores == 0.3)
    for cores in (0.8, 0.25, 0.55):
        assert runtime.set_quota(key, cores)
        world.in_force(round(1000 * cores))
    after = world.raw("exec-1")
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    for raw in (before, after):
        resources = raw["spec"]["containers"][0]["resources"]
        assert (resources["limits"]["memory"], resources["requests"]["memory"]) == ("64Mi", "64Mi")
    seen = runtime.observe()[key]
    assert (seen.running, seen.counted, seen.cpu_s, seen.remark) == (True, False, 0.0, "")
    assert (seen.node, seen.least_cores, seen.ordered_cores) == (world.look().node, 0.2, 0.55)


def test_a_limit_may_be_more_than_the_node(world: World) -> None:
    runtime, key = world.paced()
    runtime.set_quota(key, 100.0)
    world.in_force(100_000)


def test_the_request_stays_and_the_limit_is_never_below_it_so_that_the_qos_class_stays(world: World) -> None:
    """A limit that equals the request would make a pod with equal amounts of memory Guaranteed, which is refused."""
    runtime, key = world.paced(0.4, limit="600m", request="400m")
    assert world.in_force(401).request_m == 400
    runtime.set_quota(key, 0.1)
    runtime.set_quota(key, 0.9)
    world.in_force(900)
    runtime.set_quota(key, 0.1)
    pod = world.in_force(401)
    assert (pod.request_m, pod.qos, runtime.observe()[key].remark) == (400, "Burstable", "")
    assert runtime.observe()[key].least_cores == 0.4


@pytest.mark.parametrize(
    ("amounts", "qos", "words"),
    [
        ({"limit": "500m", "request": "500m"}, "Guaranteed", "its pod is Guaranteed"),
        ({"limit": None, "request": None, "memory": None}, "BestEffort", "neither a CPU request nor a CPU limit"),
    ],
)
def test_a_pod_whose_limit_cannot_move_is_refused_with_what_would_help(
    world: World, amounts: dict[str, Any], qos: str, words: str
) -> None:
    runtime, pod = world.runtime(), world.pod(**amounts)
    assert pod.qos == qos
    with pytest.raises(RuntimeRefused, match=rf"{words}.*spark\.kubernetes\.executor\.request\.cores"):
        world.adopt(runtime, world.adoption(pod))


def test_a_pod_that_has_asked_for_all_that_it_can_use_is_in_the_log_and_hides_no_later_risk(world: World) -> None:
    """A risk that never ends would hide all that follow: the master reports one, and the next once that is over."""
    runtime, pod = world.runtime(), world.pod(limit=None, request="1", memory_request="32Mi")
    key = world.adopt(runtime, world.adoption(pod, 0.3, slots=1))
    world.in_force(1001)
    seen = runtime.observe()[key]
    assert_names([seen.remark], "it is not slowed down")
    assert seen.risk == ""
    world.allow(max="1100m")
    runtime.set_quota(key, 2.0)
    assert world.remark(runtime, key, "maximum cpu") == runtime.observe()[key].risk


def test_a_pod_without_a_limit_gets_one_and_has_one_for_its_slots_afterwards(world: World) -> None:
    runtime, key = world.paced(0.4, limit=None, request="200m")
    world.in_force(400)
    runtime.stop(key)
    world.in_force(2000)
    world.until(lambda: not runtime.observe()[key].running)
    runtime.remove(key)
    assert runtime.observe() == {}


def test_a_watched_pod_is_never_patched(standin: World) -> None:
    runtime, made = standin.runtime(), standin.pod(limit="605m", request="200m")
    key = standin.adopt(runtime, dataclasses.replace(standin.adoption(made), watched=True))
    assert runtime.set_quota(key, 0.3)
    standin.until(lambda: runtime.observe()[key].quota_cores == 0.605)
    assert runtime.held_back() == {}
    assert open_all(runtime, 2.0)
    standin.until(lambda: let_go_all(runtime))
    assert runtime.observe() == {}
    assert (standin.server.patches, standin.look().limit_m) == ([], 605)


def test_a_limit_that_a_limit_range_forbids_is_reported_and_a_lower_one_still_moves(world: World) -> None:
    runtime, key = world.settled()
    world.allow(max="600m")
    runtime.set_quota(key, 1.0)
    assert world.remark(runtime, key, "maximum cpu") == runtime.observe()[key].risk
    # it comes near to what is allowed
    world.between(runtime, 500, 600)
    assert runtime.held_back()
    runtime.set_quota(key, 0.25)
    world.in_force(250)
    assert runtime.observe()[key].risk == ""


def test_a_ratio_of_limit_to_request_locks_no_pod(world: World) -> None:
    runtime, key = world.paced(limit="600m", request="400m")
    world.in_force(401)
    world.allow(maxLimitRequestRatio="2")
    runtime.set_quota(key, 1.5)
    world.remark(runtime, key, "ratio")
    world.between(runtime, 700, 800)
    runtime.stop(key)
    world.in_force(600)
    world.until(lambda: not runtime.observe()[key].running)


def test_a_least_amount_of_a_limit_range_refuses_no_grant(world: World) -> None:
    runtime, key = world.settled()
    world.allow(min="200m")
    runtime.set_quota(key, 0.05)
    world.in_force(201)
    assert runtime.observe()[key].remark == ""


def test_a_quota_of_limits_refuses_what_is_too_much_and_gives_what_fits(standin: World) -> None:
    runtime, key = standin.paced()
    standin.pod("other", "2", limit="300m")
    standin.in_force(300)
    standin.server.quotas[standin.namespace] = 1.0
    runtime.set_quota(key, 1.5)
    standin.remark(runtime, key, "exceeded quota")
    standin.between(runtime, 600, 700)
    # what is free again is used after a while
    standin.delete("other")
    runtime.set_quota(key, 1.0)
    standin.between(runtime, 900, 1000)


def test_another_writer_of_the_limit_is_reported(world: World) -> None:
    runtime, key = world.settled()
    world.until(lambda: runtime.observe()[key].quota_cores == 0.3)
    world.api().resize(world.look(), 450)
    world.remark(runtime, key, "one agent")
    world.in_force(300)


def test_a_node_that_is_late_is_waited_for_and_reported_after_a_while(standin: World) -> None:
    runtime, key = standin.settled()
    standin.server.orders.kubelet_away = True
    runtime.set_quota(key, 0.9)
    standin.until(lambda: standin.look().limit_m == 900)
    standin.until(lambda: not runtime.held_back())
    seen = runtime.observe()[key]
    assert (seen.quota_cores, seen.ordered_cores, seen.remark) == (0.3, 0.9, "")
    standin.skip(runtime, LATE_S + 1)
    assert_names([runtime.observe()[key].remark], "node-1", "kubelet")
    standin.server.orders.kubelet_away = False
    standin.server.kubelet()
    standin.until(lambda: runtime.observe()[key].quota_cores == 0.9)
    assert runtime.observe()[key].remark == ""


def test_a_resize_that_a_node_can_never_do_is_reported(standin: World) -> None:
    standin.server.orders.infeasible = "In-place resize of Guaranteed pods alongside the static CPU policy is not supported"
    runtime, key = standin.paced()
    standin.remark(runtime, key, "Infeasible: In-place resize")


def test_no_pod_is_patched_more_than_once_a_second(standin: World) -> None:
    runtime, key = standin.paced(0.1)
    for step in range(30):
        runtime.set_quota(key, 0.2 + 0.1 * step)
        standin.skip(runtime, 0.1)
    standin.in_force(3100)
    assert all("requests" not in str(patch) and "memory" not in str(patch) for _, _, patch in standin.server.patches)
    # three seconds passed by its clock, and the rest in real time
    assert len(standin.server.patches) <= 2 + 3 + round(standin.now() - standin.skipped_s - standin.server.patches[0][0])
