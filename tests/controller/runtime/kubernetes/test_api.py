"""Pacing pods by the API server: one suite for the stand-in and for a real server from 1.33 on.

What a real server cannot be made to do at will (refuse rights, hang up, be old) is asked of the stand-in alone."""

from __future__ import annotations

import dataclasses
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.agent.open_quotas import let_go_all, open_all
from controller.runtime.base import ExecutorKey
from controller.runtime.kubernetes.api import KubernetesApi, PatchRefused, ServerAway
from controller.runtime.kubernetes.executors import AT_ONCE, KubernetesRuntime
from controller.runtime.kubernetes.paced_pods import Pause
from controller.runtime.kubernetes.pod_cpu import CpuM, PodCpu
from controller.runtime.kubernetes.pod_resize import RETRY_S
from stage_model.errors import RuntimeFailed, RuntimeRefused
from tests.controller.runtime.kubernetes.kube_worlds import IMAGE, World, real_world, standin_world, why_no_real_server
from tests.fakes.kube_api import config_of, executor_pod
from tests.fakes.refusals import assert_names

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
    """Wait until the node has put these amounts in force."""

    def there() -> PodCpu | None:
        pod = world.look(name)
        has = pod.actual
        if has is None or has.limit_m != limit_m or request_m not in (None, has.request_m):
            return None
        return pod

    return world.until(there)


def remark(world: World, runtime: KubernetesRuntime, key: ExecutorKey, words: str) -> str:
    """Wait for a remark with these words."""
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
    """A limit that equals the request would make a pod with equal amounts of memory Guaranteed, which is refused."""
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
    said = remark(world, runtime, key, "Deferred")
    assert said == runtime.observe()[key].risk
    runtime.set_quota(key, (has_m + 500) / 1000)
    in_force(world, has_m + 500, 49)
    assert said == runtime.observe()[key].risk
    world.delete("filler")
    world.skip(runtime, RETRY_S + 1)
    in_force(world, has_m + 500, has_m)
    world.until(lambda: not runtime.observe()[key].remark)


def test_a_pod_starts_as_requests_fell_and_a_raise_then_waits_and_is_told(world: World) -> None:
    node, room_m = world.free_m()
    has_m = room_m // 20 * 10
    runtime, key = paced(world, has_m / 1000, limit=f"{has_m + 100}m", request=f"{has_m}m", node=node)
    wanted_m = room_m - has_m + 100
    waiting = executor_pod("waiting", world.serves("2"), limit=f"{wanted_m}m", request=f"{wanted_m}m", image=IMAGE)
    waiting["spec"]["nodeSelector"] = {"kubernetes.io/hostname": node}
    world.create(waiting)

    def why_not_placed() -> str:
        conditions = world.raw("waiting")["status"].get("conditions", [])
        return next((one["message"] for one in conditions if one.get("reason") == "Unschedulable"), "")

    assert "Insufficient cpu" in world.until(why_not_placed)
    runtime.tell_need(key, 0.05)
    runtime.set_quota(key, 0.05)
    in_force(world, 50)
    world.until(lambda: world.look("waiting").actual)
    assert (world.look("waiting").node, why_not_placed()) == (node, "")
    runtime.tell_need(key, 1000.0)
    runtime.set_quota(key, has_m / 1000)
    remark(world, runtime, key, "Deferred")
    assert runtime.observe()[key].risk
    # it may use what others leave, but has nothing set aside
    in_force(world, has_m, 49)


def test_what_a_limit_range_forbids_is_told_and_less_than_that_still_moves(world: World) -> None:
    runtime, key = paced(world, 0.3)
    in_force(world, 300)
    world.most_cores("600m")
    runtime.set_quota(key, 1.0)
    remark(world, runtime, key, "maximum cpu")
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
    remark(world, runtime, key, "one agent")
    in_force(world, 300)


def test_a_pod_that_is_gone_has_ended(world: World) -> None:
    runtime, key = paced(world, 0.3)
    world.delete("exec-1")
    ended = world.until(lambda: seen if not (seen := runtime.observe()[key]).running else None)
    assert ended.quota_cores is None
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
    """The supervisor opens quotas in this way for an agent that is stuck."""
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
    with pytest.raises(RuntimeRefused, match="this driver"):
        world.adopt(runtime, world.adoption(mine, executor_id="2"))
    with pytest.raises(RuntimeRefused, match=r"192\.0\.2\.7"):
        world.adopt(runtime, dataclasses.replace(world.adoption(mine), host="192.0.2.7"))
    with pytest.raises(RuntimeFailed, match="no pod"):
        runtime.adopt(world.adoption(mine, executor_id="3"))
    world.adopt(runtime, world.adoption(mine))
    with pytest.raises(RuntimeRefused, match="app/1"):
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
        with pytest.raises(PatchRefused, match=r"1\.33") as refused:
            api.resize(pod, CpuM(300, 100))
        assert refused.value.too_old
        api.close()


# ---------------------------------------------------------------- what only the stand-in can be made to do


def test_without_the_right_to_resize_it_is_told_which_is_missing(standin: World) -> None:
    standin.standin.orders.may_resize = False
    runtime, key = paced(standin)
    remark(standin, runtime, key, "patch pods/resize")
    standin.standin.orders.may_resize = True
    standin.skip(runtime, RETRY_S + 1)
    in_force(standin, 300)
    standin.until(lambda: not runtime.observe()[key].remark)


def test_a_server_before_1_33_is_told_and_what_comes_later_is_refused(standin: World) -> None:
    standin.standin.orders.has_resize = False
    runtime, _ = paced(standin)
    remark(standin, runtime, ExecutorKey("app", "1"), "1.33")
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
    with pytest.raises(RuntimeFailed, match="get, list and watch"):
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
    with pytest.raises(PatchRefused, match="422: odd odd") as refused:
        api.resize(pod, CpuM(300, 100))
    assert len(str(refused.value)) < 350
    api.close()


def test_a_server_that_is_away_is_told_and_quotas_stay(standin: World) -> None:
    api = KubernetesApi(config_of("http://127.0.0.1:9"))
    with pytest.raises(ServerAway):
        api.pods()
    runtime = KubernetesRuntime("cluster", "w2", standin.folder / "away", api)
    with pytest.raises(RuntimeFailed):
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
    remark(standin, runtime, key, "Infeasible: In-place resize")


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


# ---------------------------------------------------------------- many pods, and pods that cause trouble


def many(world: World, number: int, cores: float = 0.3) -> tuple[KubernetesRuntime, list[str]]:
    """Pace executors, each at `cores`, of pods that had 0.5 and asked for 0.01."""
    runtime, names = world.runtime(), [f"exec-{index:02d}" for index in range(number)]
    for index, name in enumerate(names):
        pod = world.pod(name, str(index), request="10m")
        world.adopt(runtime, world.adoption(pod, cores, executor_id=str(index)))
    return runtime, names


def has_limit(world: World, names: list[str], limit_m: int) -> None:
    world.until(lambda: all(world.look(name).wanted.limit_m == limit_m for name in names))


@pytest.mark.parametrize("code", [409, 500, 504])
def test_pods_that_cause_trouble_hold_back_no_other(standin: World, code: int) -> None:
    """Twelve that fail would cost two minutes if all waited for them, as each failure doubled the wait."""
    state = standin.standin
    runtime, names = many(standin, 13)
    has_limit(standin, names, 300)
    good = names.pop()
    state.orders.refuse_pods = dict.fromkeys(names, code)
    for index in range(12):
        runtime.set_quota(ExecutorKey("app", str(index)), 0.8)
    standin.until(lambda: set(names) <= set(state.tries[13:]))
    runtime.set_quota(ExecutorKey("app", "12"), 0.8)
    standin.until(lambda: standin.look(good).wanted.limit_m == 800)
    remark(standin, runtime, ExecutorKey("app", "0"), f" {code} ")
    assert runtime.observe()[ExecutorKey("app", "0")].risk == ""
    state.orders.refuse_pods = {}
    standin.skip(runtime, 31.0)
    has_limit(standin, names, 800)
    standin.until(lambda: not any(seen.remark for seen in runtime.observe().values()))


@pytest.mark.parametrize("code", [429, 503])
def test_a_server_that_asks_to_be_left_alone_is_by_all(standin: World, code: int) -> None:
    state = standin.standin
    runtime, names = many(standin, 2)
    has_limit(standin, names, 300)
    state.orders.retry_after = "25"
    state.orders.refuse = [(code, b'{"kind":"Status","message":"busy","code":%d}' % code, "application/json")]
    runtime.set_quota(ExecutorKey("app", "0"), 0.8)
    remark(standin, runtime, ExecutorKey("app", "0"), f" {code}")
    runtime.set_quota(ExecutorKey("app", "1"), 0.8)
    with runtime._pods.changed:
        assert runtime._pods.due() is None
        assert 20.0 < runtime._pods.pause.until_s - standin.now() <= 25.0
    standin.skip(runtime, 26.0)
    has_limit(standin, names, 800)


def test_some_patches_are_under_way_together_and_never_two_of_one_pod(
    standin: World, caplog: pytest.LogCaptureFixture
) -> None:
    state = standin.standin
    runtime, names = many(standin, 2 * AT_ONCE)
    has_limit(standin, names, 300)
    state.orders.gate.clear()
    for cores in (0.6, 0.7, 0.8):
        for index in range(2 * AT_ONCE):
            runtime.set_quota(ExecutorKey("app", str(index)), cores)
        standin.until(lambda: len(state.under_way) == AT_ONCE)
        standin.skip(runtime, 2.0)
    state.orders.gate.set()
    has_limit(standin, names, 800)
    assert (state.most_at_once, state.most_of_one_pod) == (AT_ONCE, 1)
    assert "answer" not in caplog.text, "one was given up while it waited, so they were not under way together"


def test_a_wish_that_is_refused_once_its_executor_is_let_go_does_not_delay_giving_back(standin: World) -> None:
    state, (runtime, names) = standin.standin, many(standin, 1)
    has_limit(standin, names, 300)
    state.orders.gate.clear()
    runtime.set_quota(ExecutorKey("app", "0"), 0.6)
    standin.until(lambda: state.under_way)
    [executor] = runtime._pods.known.values()
    runtime.stop(executor.record.key)
    state.orders.refuse = [(422, b'{"kind":"Status","message":"odd","code":422}', "application/json")]
    state.orders.gate.set()
    has_limit(standin, names, 500)
    assert executor.pause == Pause(), "it was not put off"


def test_all_of_many_pods_are_given_back_before_a_stop_is_over(standin: World) -> None:
    runtime, names = many(standin, 60)
    has_limit(standin, names, 300)
    assert let_go_all(runtime)
    assert {standin.look(name).wanted for name in names} == {CpuM(500, 10)}
    assert list((standin.folder / "pods").iterdir()) == []


def test_what_cannot_be_given_back_is_told_and_the_next_agent_tries_again(
    standin: World, caplog: pytest.LogCaptureFixture
) -> None:
    state = standin.standin
    first, names = many(standin, 2)
    has_limit(standin, names, 300)
    state.orders.refuse_pods = {names[0]: 422}
    standin.skip(first, 2.0)
    assert not let_go_all(first, news_s=2.0)
    [told] = [message for message in caplog.messages if "next agent" in message]
    assert_names(told, "app/0", "422: ")
    assert "executors let go: 1, not let go: 1" in caplog.text
    first.close()
    assert len(list((standin.folder / "pods").iterdir())) == 1
    state.orders.refuse_pods = {}
    second = standin.runtime()
    assert let_go_all(second)
    has_limit(standin, names, 500)
    assert list((standin.folder / "pods").iterdir()) == []


def test_a_refused_give_back_is_tried_again_by_the_same_agent(standin: World) -> None:
    runtime, key = paced(standin)
    in_force(standin, 300)
    standin.standin.orders.refuse_pods = {"exec-1": 422}
    runtime.stop(key)
    remark(standin, runtime, key, "422: ")
    with pytest.raises(RuntimeFailed, match="app/1"):
        runtime.remove(key)
    standin.standin.orders.refuse_pods = {}
    standin.skip(runtime, RETRY_S + 1)
    in_force(standin, 500, 200)
    standin.until(lambda: not runtime.observe()[key].running)


def test_quotas_are_not_opened_before_the_server_has_accepted_it(standin: World, caplog: pytest.LogCaptureFixture) -> None:
    runtime, key = paced(standin)
    in_force(standin, 300)
    standin.standin.orders.refuse_pods = {"exec-1": 500}
    standin.skip(runtime, 2.0)
    runtime.set_quota(key, 2.0)
    remark(standin, runtime, key, " 500")
    assert not open_all(runtime, 2.0, within_s=0.1)
    assert_names([message for message in caplog.messages if "not opened" in message], "app/1", " 500 ")
    caplog.clear()
    runtime.close()
    away = KubernetesRuntime("cluster", "w1", standin.folder / "pods", KubernetesApi(config_of("http://127.0.0.1:9")))
    assert not open_all(away, 2.0, within_s=0.1)
    assert_names([message for message in caplog.messages if "not opened" in message], "app/1")
    away.close()
    standin.standin.orders.refuse_pods = {}
    assert open_all(standin.runtime(), 2.0)
    assert standin.look().wanted.limit_m == 2000
    assert key in runtime.observe()


def test_a_slow_disk_holds_up_no_period(standin: World, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, key = paced(standin)
    in_force(standin, 300)
    second = standin.pod("exec-2", "2")
    writes, may_go_on = threading.Event(), threading.Event()

    def slow(_descriptor: int) -> None:
        writes.set()
        assert may_go_on.wait(60.0)

    standin.until(lambda: second.uid in runtime._pods.by_uid)
    monkeypatch.setattr("os.fsync", slow)
    adopting = threading.Thread(target=runtime.adopt, args=[standin.adoption(second, 0.4, executor_id="2")])
    adopting.start()
    try:
        assert writes.wait(60.0)
        # from another thread, as this one must not hang if it waits
        looked = threading.Thread(target=lambda: (runtime.observe(), runtime.set_quota(key, 0.8)), daemon=True)
        looked.start()
        looked.join(20.0)
        assert not looked.is_alive()
        in_force(standin, 800)
        with pytest.raises(RuntimeFailed, match="taken over"):
            runtime.adopt(dataclasses.replace(standin.adoption(second, executor_id="2"), key=ExecutorKey("thief", "1")))
    finally:
        may_go_on.set()
        adopting.join()
    in_force(standin, 400, name="exec-2")
