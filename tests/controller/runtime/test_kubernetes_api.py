"""Pacing pods by the API server: one suite for the stand-in and for a real server from 1.33 on.

What a real server cannot be made to do at will (refuse rights, hang up, be old) is asked of the stand-in alone."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.agent.open_quotas import let_go_all, open_all
from controller.runtime.base import ExecutorKey
from controller.runtime.kubernetes import KubernetesRuntime
from controller.runtime.kubernetes_api import KubernetesApi, PatchRefused, ServerAway
from controller.runtime.pod_cpu import CpuM, PodCpu
from controller.runtime.pod_resize import RETRY_S
from stage_model.errors import RuntimeFailed, RuntimeRefused
from tests.controller.runtime.kube_worlds import IMAGE, World, real_world, standin_world, why_no_real_server
from tests.fakes.kube_api import config_of, executor_pod

pytestmark = pytest.mark.kubernetes_api


@pytest.fixture(params=["stand-in", "real"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    if request.param == "stand-in":
        with standin_world(tmp_path) as made:
            yield made
    elif reason := why_no_real_server():
        pytest.skip(reason)
    else:
        with real_world(tmp_path) as made:
            yield made


@pytest.fixture
def standin(tmp_path: Path) -> Iterator[World]:
    with standin_world(tmp_path) as made:
        yield made


def paced(world: World, cores: float = 0.3, **pod: Any) -> tuple[KubernetesRuntime, ExecutorKey]:
    runtime, made = world.runtime(), world.pod(**pod)
    return runtime, world.adopt(runtime, world.adoption(made, cores))


def in_force(world: World, limit_m: int | None, request_m: int | None = None, name: str = "exec-1") -> PodCpu:
    """Waits until the node has it so."""

    def there() -> PodCpu | None:
        pod = world.look(name)
        has = pod.actual
        if has is None or has.limit_m != limit_m or request_m not in (None, has.request_m):
            return None
        return pod

    return world.until(there)


def remark(world: World, runtime: KubernetesRuntime, key: ExecutorKey, words: str) -> str:
    """Waits until it is told."""
    return world.until(lambda: said if words in (said := runtime.observe()[key].remark) else None)


# ---------------------------------------------------------------- on both


def test_the_limit_follows_the_grant_in_place_and_memory_stays(world: World) -> None:
    runtime, key = paced(world, 0.3)
    before = world.raw("exec-1")
    in_force(world, 300)
    world.until(lambda: runtime.observe()[key].quota_cores == 0.3)
    for cores in (0.8, 0.1, 0.55):
        assert runtime.set_quota(key, cores)
        in_force(world, round(1000 * cores))
    after = world.raw("exec-1")
    assert after["status"]["containerStatuses"][0]["restartCount"] == 0
    assert after["metadata"]["uid"] == before["metadata"]["uid"]
    for raw in (before, after):
        resources = raw["spec"]["containers"][0]["resources"]
        assert (resources["limits"]["memory"], resources["requests"]["memory"]) == ("64Mi", "64Mi")
    seen = runtime.observe()[key]
    assert (seen.running, seen.counted, seen.cpu_s, seen.remark) == (True, False, 0.0, "")
    assert seen.node == world.look().node


def test_a_limit_may_be_more_than_the_node(world: World) -> None:
    runtime, key = paced(world, 0.3)
    runtime.set_quota(key, 100.0)
    in_force(world, 100_000)


def test_the_request_falls_to_the_need_and_a_margin_and_rises_again_to_what_it_was(world: World) -> None:
    runtime, key = paced(world, 0.5, limit="600m", request="400m")
    runtime.tell_need(key, 0.1)
    pod = in_force(world, 500, 120)
    assert pod.qos == "Burstable"
    runtime.tell_need(key, 7.0)
    in_force(world, 500, 400)


def test_a_limit_below_the_request_takes_it_along_and_the_qos_class_stays(world: World) -> None:
    """With equal amounts of memory, a limit that equals the request would make it Guaranteed, which is refused."""
    runtime, key = paced(world, 0.4, limit="600m", request="400m")
    pod = in_force(world, 400, 399)
    runtime.set_quota(key, 0.1)
    pod = in_force(world, 100, 99)
    runtime.set_quota(key, 0.5)
    pod = in_force(world, 500, 400)
    assert (pod.qos, runtime.observe()[key].remark) == ("Burstable", "")


def test_a_guaranteed_pod_stays_one_and_gets_no_more_than_it_had(world: World) -> None:
    runtime, key = paced(world, 0.2, limit="500m", request="500m")
    assert in_force(world, 200, 200).qos == "Guaranteed"
    runtime.set_quota(key, 1.5)
    in_force(world, 500, 500)


def test_a_pod_without_cpu_amounts_is_refused_with_what_would_help(world: World) -> None:
    runtime = world.runtime()
    pod = world.pod(limit=None, request=None, memory=None)
    assert pod.qos == "BestEffort"
    with pytest.raises(RuntimeRefused, match=r"spark\.kubernetes\.executor\.request\.cores"):
        world.adopt(runtime, world.adoption(pod))


def test_a_pod_without_a_limit_gets_one_and_has_one_for_its_slots_afterwards(world: World) -> None:
    runtime, key = paced(world, 0.4, limit=None, request="200m")
    in_force(world, 400)
    runtime.stop(key)
    in_force(world, 2000, 200)
    world.until(lambda: not runtime.observe()[key].running)
    runtime.remove(key)
    assert runtime.observe() == {}


def test_what_is_let_go_has_what_it_had_and_goes_on(world: World) -> None:
    runtime, key = paced(world, 0.3, limit="600m", request="400m")
    runtime.tell_need(key, 0.1)
    in_force(world, 300, 120)
    world.until(lambda: let_go_all(runtime))
    in_force(world, 600, 400)
    assert not world.look().ended
    assert list((world.folder / "pods").iterdir()) == []


def test_a_raise_without_room_is_a_risk_that_is_told_and_tried_again(world: World) -> None:
    node, room_m = world.free_m()
    has_m = room_m // 20 * 10
    runtime, key = paced(world, 0.05, limit=f"{has_m + 100}m", request=f"{has_m}m", node=node)
    runtime.tell_need(key, 0.05)
    in_force(world, 50)
    filler = executor_pod("filler", world.serves("2"), limit=f"{room_m}m", request=f"{room_m - 60}m", image=IMAGE, node=node)
    world.create(filler)
    world.until(lambda: world.look("filler").actual)
    runtime.tell_need(key, 1000.0)
    runtime.set_quota(key, (has_m + 200) / 1000)
    # the limit needs no room
    in_force(world, has_m + 200)
    said = remark(world, runtime, key, "no room")
    assert "Deferred" in said
    assert "deadline is at risk" in said
    runtime.set_quota(key, (has_m + 500) / 1000)
    in_force(world, has_m + 500, 49)
    assert said == runtime.observe()[key].risk
    world.delete("filler")
    world.skip(runtime, RETRY_S + 1)
    in_force(world, has_m + 500, has_m)
    world.until(lambda: not runtime.observe()[key].remark)


def test_what_a_limit_range_forbids_is_told_and_less_than_that_still_moves(world: World) -> None:
    runtime, key = paced(world, 0.3)
    in_force(world, 300)
    world.most_cores("600m")
    runtime.set_quota(key, 1.0)
    assert "maximum cpu" in remark(world, runtime, key, "does not allow")
    world.skip(runtime, 2.0)
    runtime.set_quota(key, 0.2)
    in_force(world, 200)


def test_another_writer_of_the_limit_is_told(world: World) -> None:
    runtime, key = paced(world, 0.3)
    in_force(world, 300)
    world.until(lambda: runtime.observe()[key].quota_cores == 0.3)
    with_api = KubernetesApi(world.config, world.namespace)
    with_api.resize(world.look(), CpuM(450, None))
    with_api.close()
    assert "accepted: one agent for a pod" in remark(world, runtime, key, "somebody else writes")
    in_force(world, 300)


def test_a_pod_that_is_gone_has_ended(world: World) -> None:
    runtime, key = paced(world, 0.3)
    world.delete("exec-1")
    ended = world.until(lambda: seen if not (seen := runtime.observe()[key]).running else None)
    assert (ended.reason, ended.quota_cores) == ("it ended", None)
    assert not runtime.set_quota(key, 1.0)
    runtime.remove(key)


def test_the_next_agent_knows_what_a_pod_had_at_first(world: World) -> None:
    first, key = paced(world, 0.2, limit="600m", request="400m")
    first.tell_need(key, 0.1)
    in_force(world, 200, 120)
    first.close()
    second = world.runtime()
    assert second.observe()[key].quota_cores == 0.2
    second.stop(key)
    in_force(world, 600, 400)


def test_opening_waits_for_no_room(world: World) -> None:
    """As the supervisor does it for an agent that is stuck."""
    first, key = paced(world, 0.05, limit="600m", request="400m")
    in_force(world, 50)
    first.close()
    second = world.runtime()
    assert open_all(second, 2.0)
    in_force(world, 2000)
    assert key in second.observe()


def test_pods_that_are_not_what_they_say_are_refused(world: World) -> None:
    runtime, mine = world.runtime(), world.pod()
    foreign = dataclasses.replace(world.serves("2"), driver_url="spark://CoarseGrainedScheduler@somebody:7078")
    labelled = executor_pod("foreign", world.serves("2"), image=IMAGE)
    labelled["spec"]["containers"][0]["env"][0]["value"] = foreign.driver_url
    world.create(labelled)
    with pytest.raises(RuntimeRefused, match="was not started for it"):
        world.adopt(runtime, world.adoption(mine, executor_id="2"))
    with pytest.raises(RuntimeRefused, match="has address"):
        world.adopt(runtime, dataclasses.replace(world.adoption(mine), host="192.0.2.7"))
    with pytest.raises(RuntimeFailed, match="no pod"):
        runtime.adopt(world.adoption(mine, executor_id="3"))
    world.adopt(runtime, world.adoption(mine))
    with pytest.raises(RuntimeRefused, match="is paced as executor app/1 already"):
        runtime.adopt(dataclasses.replace(world.adoption(mine), key=ExecutorKey("thief", "1")))


def test_a_pod_that_claims_to_be_anothers_is_told_apart_by_its_address(world: World) -> None:
    runtime, mine = world.runtime(), world.pod()
    world.pod("copy")
    key = world.adopt(runtime, world.adoption(mine, 0.3))
    in_force(world, 300)
    assert (world.look("copy").wanted, runtime.observe()[key].running) == (CpuM(500, 200), True)


def test_a_real_server_before_1_33_says_so(tmp_path: Path) -> None:
    if not (reason := why_no_real_server()) or "older" not in reason:
        pytest.skip("SPARKPACE_TEST_KUBECONFIG names no server before 1.33")
    with real_world(tmp_path) as world:
        world.create(executor_pod("exec-1", world.serves(), image="localhost/none"))
        api = KubernetesApi(world.config, world.namespace)
        (pod,) = world.until(lambda: api.pods()[0])
        with pytest.raises(PatchRefused, match=r"needs Kubernetes 1\.33 or newer") as refused:
            api.resize(pod, CpuM(300, 100))
        assert refused.value.too_old
        api.close()


# ---------------------------------------------------------------- what only the stand-in can be made to do


def test_without_the_right_to_resize_it_is_told_which_is_missing(standin: World) -> None:
    standin.standin.orders.may_resize = False
    runtime, key = paced(standin)
    assert "a role with patch of pods/resize" in remark(standin, runtime, key, "may not resize")
    standin.standin.orders.may_resize = True
    standin.skip(runtime, RETRY_S + 1)
    in_force(standin, 300)
    standin.until(lambda: not runtime.observe()[key].remark)


def test_a_server_before_1_33_is_told_and_what_comes_later_is_refused(standin: World) -> None:
    standin.standin.orders.has_resize = False
    runtime, _ = paced(standin)
    remark(standin, runtime, ExecutorKey("app", "1"), "needs Kubernetes 1.33 or newer")
    later = standin.pod("exec-2", "2")
    with pytest.raises(RuntimeRefused, match="--runtime adopt"):
        standin.adopt(runtime, standin.adoption(later, executor_id="2"))


def test_what_is_not_found_is_the_pod_or_the_way_to_resize_it(standin: World) -> None:
    api, pod = KubernetesApi(standin.config), standin.pod()
    standin.standin.orders.refuse = [(404, b"404 page not found\n", "text/plain")]
    with pytest.raises(PatchRefused) as refused:
        api.resize(pod, CpuM(300, 100))
    assert (refused.value.too_old, refused.value.pod_gone) == (True, False)
    with pytest.raises(PatchRefused) as refused:
        api.resize(dataclasses.replace(pod, name="gone"), CpuM(300, 100))
    assert (refused.value.too_old, refused.value.pod_gone) == (False, True)
    api.close()


def test_without_the_right_to_watch_it_is_told(standin: World) -> None:
    standin.standin.orders.may_watch = False
    runtime = standin.runtime()
    with pytest.raises(RuntimeFailed, match=r"may not look at pods .* accepted: get, list and watch"):
        runtime.adopt(standin.adoption(standin.pod()))


def test_a_patch_whose_connection_is_closed_is_sent_again(standin: World) -> None:
    runtime, key = paced(standin)
    in_force(standin, 300)
    standin.standin.orders.close = 1
    runtime.set_quota(key, 0.7)
    in_force(standin, 700)
    assert runtime.observe()[key].remark == ""


def test_a_watch_that_ends_or_is_too_old_loses_nothing(standin: World) -> None:
    runtime, key = paced(standin)
    for cores in (0.4, 0.6, 0.8):
        standin.standin.forget()
        standin.standin.end_watches()
        runtime.set_quota(key, cores)
        in_force(standin, round(1000 * cores))
        standin.until(lambda cores=cores: runtime.observe()[key].quota_cores == cores)  # type: ignore[misc]
    assert runtime.alive()


STRANGE = [
    (500, b"<html>oh</html>", "text/html"),
    (200, b"{", "application/json"),
    (429, b'{"kind":"Status","message":"slow down","code":429}', "application/json"),
    (409, b'{"kind":"Status","message":"modified","code":409}', "application/json"),
    (403, b'"nonsense"', "application/json"),
]


@pytest.mark.parametrize("answer", STRANGE)
def test_an_answer_that_is_none_is_tried_again(standin: World, answer: tuple[int, bytes, str]) -> None:
    runtime, key = paced(standin)
    in_force(standin, 300)
    standin.standin.orders.refuse = [answer]
    runtime.set_quota(key, 0.7)
    in_force(standin, 700)


def test_a_refusal_nobody_foresaw_is_told_in_the_servers_words(standin: World) -> None:
    api, pod = KubernetesApi(standin.config), standin.pod()
    standin.standin.orders.refuse = [
        (422, json.dumps({"kind": "Status", "message": "odd " * 200, "code": 422}).encode(), "application/json")
    ]
    with pytest.raises(PatchRefused, match=r"refused to resize its pod \(422: odd odd") as refused:
        api.resize(pod, CpuM(300, 100))
    assert len(str(refused.value)) < 350
    api.close()


def test_a_server_that_is_away_is_told_and_quotas_stay(standin: World) -> None:
    api = KubernetesApi(config_of("http://127.0.0.1:9"))
    with pytest.raises(ServerAway, match="quotas stay as they are"):
        api.pods()
    runtime = KubernetesRuntime("cluster", "w2", standin.folder / "away", api)
    with pytest.raises(RuntimeFailed, match="does not answer"):
        runtime.adopt(standin.adoption(standin.pod()))
    assert runtime.alive()
    runtime.close()


def test_a_node_that_is_late_is_waited_for(standin: World) -> None:
    runtime, key = paced(standin)
    in_force(standin, 300)
    standin.standin.orders.kubelet_away = True
    runtime.set_quota(key, 0.9)
    standin.until(lambda: standin.look().wanted.limit_m == 900)
    assert runtime.observe()[key].quota_cores == 0.3
    standin.standin.orders.kubelet_away = False
    standin.standin.kubelet()
    standin.until(lambda: runtime.observe()[key].quota_cores == 0.9)


def test_what_a_node_can_never_do_is_told(standin: World) -> None:
    standin.standin.orders.infeasible = "In-place resize of Guaranteed pods alongside the static CPU policy is not supported"
    runtime, key = paced(standin, limit="500m", request="500m")
    assert "Infeasible: In-place resize" in remark(standin, runtime, key, "does not resize it")


def test_pods_that_cannot_be_read_are_left_out(standin: World) -> None:
    runtime, key = paced(standin)
    odd, state = executor_pod("odd", standin.serves("9")), standin.standin
    with state.changed:
        made = state.create(standin.namespace, odd)
        state.events.pop()
        broken = state.pods[standin.namespace, "odd"]
        broken["spec"]["containers"] = [{"name": 7, "resources": {}}]
        state._event("ADDED", broken)
        state.end_watches()
    runtime.set_quota(key, 0.7)
    in_force(standin, 700)
    with pytest.raises(RuntimeFailed, match="no pod"):
        runtime.adopt(dataclasses.replace(standin.adoption(standin.look(), executor_id="9"), host=made["status"]["podIP"]))


def test_no_pod_is_patched_more_than_once_a_second(standin: World) -> None:
    runtime, key = paced(standin, 0.1)
    for step in range(30):
        runtime.set_quota(key, 0.2 + 0.1 * step)
        standin.skip(runtime, 0.1)
    in_force(standin, 3100)
    # three seconds passed by its clock, and the rest in real time
    assert len(standin.standin.patches) <= 2 + 3 + round(standin.now() - standin.skipped_s - standin.standin.patches[0][0])
