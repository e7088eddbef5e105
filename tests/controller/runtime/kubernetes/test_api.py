"""Pacing pods by the API server: one suite for the stand-in and for a real server from 1.33 on.

What a real server cannot be made to do at will (refuse rights, hang up, be old) is asked only of the stand-in."""

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
from controller.runtime.kubernetes.api import KubernetesApi
from controller.runtime.kubernetes.pod_cpu import PodCpu
from controller.runtime.kubernetes.pod_resize import LATE_S, PodLater, ServerLater, TooOld
from controller.runtime.kubernetes.runtime import HANGS_S, KubernetesRuntime
from controller.runtime.table import choose_runtime
from stage_model.errors import RuntimeFailed, RuntimeRefused, Unavailable
from tests.controller.runtime.kubernetes.kube_worlds import IMAGE, World, real_world, standin_world, why_no_real_server
from tests.fakes.kube_api import config_of
from tests.fakes.kube_pods import executor_pod
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


def in_force(world: World, limit_m: int, name: str = "exec-1") -> PodCpu:
    """Wait until the node has put this limit in force."""

    def there() -> PodCpu | None:
        pod = world.look(name)
        return pod if pod.in_force_m == pod.limit_m == limit_m else None

    return world.until(there)


def settled(world: World, **pod: Any) -> tuple[KubernetesRuntime, ExecutorKey]:
    """Pace a pod at 0.3 and wait until that is in force."""
    runtime, key = paced(world, 0.3, **pod)
    in_force(world, 300)
    return runtime, key


def between(world: World, runtime: KubernetesRuntime, least_m: int, most_m: int) -> None:
    """Wait, while time passes for the runtime, until the pod has a limit between these."""

    def there() -> bool:
        world.skip(runtime, 1.5)
        return least_m <= (world.look().limit_m or 0) <= most_m

    world.until(there)


def remark(world: World, runtime: KubernetesRuntime, key: ExecutorKey, words: str) -> str:
    """Wait for a remark with these words."""
    return world.until(lambda: said if words in (said := runtime.observe()[key].remark) else None)


# ---------------------------------------------------------------- on both


def test_the_limit_follows_the_grant_in_place_and_memory_stays(world: World) -> None:
    runtime, key = paced(world, 0.3)
    before = world.raw("exec-1")
    in_force(world, 300)
    world.until(lambda: runtime.observe()[key].quota_cores == 0.3)
    for cores in (0.8, 0.25, 0.55):
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
    assert (seen.node, seen.least_cores, seen.ordered_cores) == (world.look().node, 0.2, 0.55)


def test_a_limit_may_be_more_than_the_node(world: World) -> None:
    runtime, key = paced(world, 0.3)
    runtime.set_quota(key, 100.0)
    in_force(world, 100_000)


def test_the_request_stays_and_the_limit_is_never_below_it_so_that_the_qos_class_stays(world: World) -> None:
    """A limit that equals the request would make a pod with equal amounts of memory Guaranteed, which is refused."""
    runtime, key = paced(world, 0.4, limit="600m", request="400m")
    assert in_force(world, 401).request_m == 400
    runtime.set_quota(key, 0.1)
    runtime.set_quota(key, 0.9)
    in_force(world, 900)
    runtime.set_quota(key, 0.1)
    pod = in_force(world, 401)
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
    runtime = world.runtime()
    pod = world.pod(limit=None, request="1", memory_request="32Mi")
    key = world.adopt(runtime, world.adoption(pod, 0.3, slots=1))
    in_force(world, 1001)
    seen = runtime.observe()[key]
    assert_names([seen.remark], "it is not slowed down")
    assert seen.risk == ""
    world.allow(max="1100m")
    runtime.set_quota(key, 2.0)
    said = remark(world, runtime, key, "maximum cpu")
    assert said == runtime.observe()[key].risk


def test_a_pod_without_a_limit_gets_one_and_has_one_for_its_slots_afterwards(world: World) -> None:
    runtime, key = paced(world, 0.4, limit=None, request="200m")
    in_force(world, 400)
    runtime.stop(key)
    in_force(world, 2000)
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
    assert (standin.standin.patches, standin.look().limit_m) == ([], 605)


def test_what_is_let_go_has_what_it_had_and_goes_on(world: World) -> None:
    runtime, _ = settled(world, limit="605m", request="200m")
    world.until(lambda: let_go_all(runtime))
    in_force(world, 605)
    assert not world.look().ended
    assert list((world.folder / "pods").iterdir()) == []


def test_a_limit_that_a_limit_range_forbids_is_reported_and_a_lower_one_still_moves(world: World) -> None:
    runtime, key = settled(world)
    world.allow(max="600m")
    runtime.set_quota(key, 1.0)
    said = remark(world, runtime, key, "maximum cpu")
    assert said == runtime.observe()[key].risk
    # it comes near to what is allowed
    between(world, runtime, 500, 600)
    assert runtime.held_back()
    runtime.set_quota(key, 0.25)
    in_force(world, 250)
    assert runtime.observe()[key].risk == ""


def test_a_ratio_of_limit_to_request_locks_no_pod(world: World) -> None:
    runtime, key = paced(world, 0.3, limit="600m", request="400m")
    in_force(world, 401)
    world.allow(maxLimitRequestRatio="2")
    runtime.set_quota(key, 1.5)
    remark(world, runtime, key, "ratio")
    between(world, runtime, 700, 800)
    runtime.stop(key)
    in_force(world, 600)
    world.until(lambda: not runtime.observe()[key].running)


def test_a_least_amount_of_a_limit_range_refuses_no_grant(world: World) -> None:
    runtime, key = settled(world)
    world.allow(min="200m")
    runtime.set_quota(key, 0.05)
    in_force(world, 201)
    assert runtime.observe()[key].remark == ""


def test_another_writer_of_the_limit_is_reported(world: World) -> None:
    runtime, key = settled(world)
    world.until(lambda: runtime.observe()[key].quota_cores == 0.3)
    with_api = KubernetesApi(world.config, world.namespace)
    with_api.resize(world.look(), 450)
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
    first, key = settled(world, limit="600m", request="200m")
    first.close()
    second = world.runtime()
    assert second.observe()[key].quota_cores == 0.3
    second.stop(key)
    in_force(world, 600)


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
    in_force(world, 300)
    assert (world.look("copy").limit_m, runtime.observe()[key].running) == (500, True)


def test_a_real_server_before_1_33_says_so(tmp_path: Path) -> None:
    if not (reason := why_no_real_server()) or "older" not in reason:
        pytest.skip("SPARKPACE_TEST_KUBECONFIG names no server before 1.33")
    with real_world(tmp_path) as world:
        world.create(executor_pod("exec-1", world.serves(), image="localhost/none"))
        api = KubernetesApi(world.config, world.namespace)
        (pod,) = world.until(lambda: api.pods()[0])
        with pytest.raises(ServerLater, match=r"1\.33") as refused:
            api.resize(pod, 300)
        assert str(refused.value) == str(TooOld())
        api.close()


# ---------------------------------------------------------------- what only the stand-in can be made to do


def test_the_missing_right_to_resize_is_reported(standin: World) -> None:
    standin.standin.orders.may_resize = False
    runtime, key = paced(standin)
    said = remark(standin, runtime, key, "patch pods/resize")
    assert said == runtime.observe()[key].risk
    standin.standin.orders.may_resize = True
    standin.skip(runtime, 31.0)
    in_force(standin, 300)
    standin.until(lambda: not runtime.observe()[key].remark)


def test_a_server_that_has_just_started_and_knows_no_roles_yet_is_asked_again(
    standin: World, caplog: pytest.LogCaptureFixture
) -> None:
    runtime, key = settled(standin)
    orders, words = standin.standin.orders, 'pods "exec-1" is forbidden: User "agent" cannot patch resource "pods/resize"'
    denied = (403, json.dumps({"kind": "Status", "message": words, "code": 403}).encode(), "application/json")
    orders.refuse, orders.denials = [denied] * 2, 2
    standin.standin.forget()
    standin.standin.end_watches()
    runtime.set_quota(key, 0.7)
    in_force(standin, 700)
    standin.until(lambda: not orders.denials and runtime.observe()[key].quota_cores == 0.7)
    assert runtime.observe()[key].remark == ""
    assert "may not" not in caplog.text


def test_a_server_before_1_33_is_reported_and_later_executors_are_refused(standin: World) -> None:
    standin.standin.orders.has_resize = False
    runtime, _ = paced(standin)
    remark(standin, runtime, ExecutorKey("app", "1"), "1.33")
    later = standin.pod("exec-2", "2")
    with pytest.raises(RuntimeRefused, match="--runtime adopt"):
        standin.adopt(runtime, standin.adoption(later, executor_id="2"))


def test_what_is_not_found_is_the_pod_or_the_way_to_resize_it(standin: World) -> None:
    api, pod = KubernetesApi(standin.config), standin.pod()
    standin.standin.orders.refuse = [(404, b"404 page not found\n", "text/plain")]
    with pytest.raises(ServerLater) as later:
        api.resize(pod, 300)
    assert isinstance(later.value, TooOld)
    with pytest.raises(PodLater) as gone:
        api.resize(dataclasses.replace(pod, name="gone"), 300)
    assert not gone.value.refused
    api.close()


def test_the_missing_right_to_watch_is_reported(standin: World) -> None:
    standin.standin.orders.may_watch = False
    runtime = standin.runtime()
    with pytest.raises(RuntimeFailed, match=r"list and watch.*--namespace"):
        runtime.adopt(standin.adoption(standin.pod()))


def test_a_server_works_here_if_it_shows_the_pods_of_the_namespace(standin: World, monkeypatch: pytest.MonkeyPatch) -> None:
    config = {
        "clusters": [{"name": "one", "cluster": {"server": standin.config.cluster.server}}],
        "users": [{"name": "one", "user": {"token": "of-a-test"}}],
        "contexts": [{"name": "one", "context": {"cluster": "one", "user": "one"}}],
        "current-context": "one",
    }
    file = standin.folder / "kubeconfig"
    file.write_text(json.dumps(config))
    monkeypatch.setenv("KUBECONFIG", str(file))
    standin.standin.orders.may_watch_all = False
    assert choose_runtime("kubernetes", "jobs").name == "kubernetes"
    with pytest.raises(Unavailable, match=r"list and watch.*--namespace"):
        choose_runtime("kubernetes")
    standin.standin.orders.may_watch = False
    with pytest.raises(Unavailable, match=r"list and watch.*--namespace"):
        choose_runtime("kubernetes", "jobs")


def test_a_patch_whose_connection_is_closed_is_sent_again(standin: World) -> None:
    runtime, key = settled(standin)
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


def test_a_watch_that_is_not_begun_again_is_seen(standin: World) -> None:
    runtime, key = settled(standin)
    standin.until(lambda: runtime.observe()[key].quota_cores == 0.3)  # the last news of its pod
    assert runtime.alive()
    standin.skip(runtime, HANGS_S)
    assert not runtime.alive()
    standin.standin.end_watches()
    standin.until(runtime.alive)


def test_an_error_that_no_one_foresaw_holds_back_its_pod_only(standin: World, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, key = settled(standin)
    resize = runtime._api.resize

    def odd(pod: PodCpu, limit_m: int) -> PodCpu:
        if limit_m == 700:
            raise RuntimeError("unforeseen")
        return resize(pod, limit_m)

    monkeypatch.setattr(runtime._api, "resize", odd)
    runtime.set_quota(key, 0.7)
    remark(standin, runtime, key, "the agent's log")
    assert runtime.alive()
    standin.skip(runtime, 31.0)
    runtime.set_quota(key, 0.8)
    in_force(standin, 800)


STRANGE = [
    (500, b"<html>oh</html>", "text/html"),
    (200, b"{", "application/json"),
    (429, b'{"kind":"Status","message":"slow down","code":429}', "application/json"),
    (409, b'{"kind":"Status","message":"modified","code":409}', "application/json"),
    (403, b'"nonsense"', "application/json"),
]


@pytest.mark.parametrize("answer", STRANGE)
def test_a_call_with_an_unusable_answer_is_tried_again(standin: World, answer: tuple[int, bytes, str]) -> None:
    runtime, key = settled(standin)
    standin.standin.orders.refuse = [answer]
    runtime.set_quota(key, 0.7)
    in_force(standin, 700)


def test_an_unforeseen_refusal_is_reported_in_the_servers_words(standin: World) -> None:
    api, pod = KubernetesApi(standin.config), standin.pod()
    standin.standin.orders.refuse = [
        (422, json.dumps({"kind": "Status", "message": "odd " * 200, "code": 422}).encode(), "application/json")
    ]
    with pytest.raises(PodLater, match="422: odd odd") as later:
        api.resize(pod, 300)
    assert later.value.refused
    assert len(str(later.value)) < 350
    api.close()


def test_a_server_that_is_away_is_reported_and_quotas_stay(standin: World) -> None:
    api = KubernetesApi(config_of("http://127.0.0.1:9"))
    with pytest.raises(ServerLater):
        api.pods()
    runtime = KubernetesRuntime("cluster", "w2", standin.folder / "away", api)
    with pytest.raises(RuntimeFailed):
        runtime.adopt(standin.adoption(standin.pod()))
    assert runtime.alive()
    runtime.close()


def test_a_node_that_is_late_is_waited_for_and_reported_after_a_while(standin: World) -> None:
    runtime, key = settled(standin)
    standin.standin.orders.kubelet_away = True
    runtime.set_quota(key, 0.9)
    standin.until(lambda: standin.look().limit_m == 900)
    standin.until(lambda: not runtime.held_back())
    seen = runtime.observe()[key]
    assert (seen.quota_cores, seen.ordered_cores, seen.remark) == (0.3, 0.9, "")
    standin.skip(runtime, LATE_S + 1)
    assert_names([runtime.observe()[key].remark], "node-1", "kubelet")
    standin.standin.orders.kubelet_away = False
    standin.standin.kubelet()
    standin.until(lambda: runtime.observe()[key].quota_cores == 0.9)
    assert runtime.observe()[key].remark == ""


def test_a_resize_that_a_node_can_never_do_is_reported(standin: World) -> None:
    standin.standin.orders.infeasible = "In-place resize of Guaranteed pods alongside the static CPU policy is not supported"
    runtime, key = paced(standin)
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


def test_a_pod_with_a_line_separator_in_its_annotations_ends_no_watch(standin: World) -> None:
    runtime, _ = paced(standin)
    odd = executor_pod("odd", standin.serves("9"))
    odd["metadata"]["annotations"] = {"note": "one\x85two"}
    standin.create(odd)
    standin.until(lambda: "odd" in {pod.name for pod in list(runtime._pods.values())})
    assert runtime._away.failures == 0


def test_no_pod_is_patched_more_than_once_a_second(standin: World) -> None:
    runtime, key = paced(standin, 0.1)
    for step in range(30):
        runtime.set_quota(key, 0.2 + 0.1 * step)
        standin.skip(runtime, 0.1)
    in_force(standin, 3100)
    assert all("requests" not in str(patch) and "memory" not in str(patch) for _, _, patch in standin.standin.patches)
    # three seconds passed by its clock, and the rest in real time
    assert len(standin.standin.patches) <= 2 + 3 + round(standin.now() - standin.skipped_s - standin.standin.patches[0][0])


# ---------------------------------------------------------------- many pods, and pods that cause trouble


def many(world: World, number: int) -> tuple[KubernetesRuntime, list[str]]:
    """Pace executors at 0.3, of pods that had 0.5 and asked for 0.01, and wait for it."""
    runtime, names = world.runtime(), [f"exec-{index:02d}" for index in range(number)]
    for index, name in enumerate(names):
        pod = world.pod(name, str(index), request="10m")
        world.adopt(runtime, world.adoption(pod, executor_id=str(index)))
    has_limit(world, names, 300)
    return runtime, names


def has_limit(world: World, names: list[str], limit_m: int) -> None:
    world.until(lambda: all(world.look(name).limit_m == limit_m for name in names))


@pytest.mark.parametrize("code", [409, 500, 504])
def test_pods_that_cause_trouble_hold_back_no_other(standin: World, code: int) -> None:
    """Twelve that fail would cost two minutes if all waited for them, as each failure doubled the wait."""
    state = standin.standin
    runtime, names = many(standin, 13)
    good = names.pop()
    state.orders.refuse_pods = dict.fromkeys(names, code)
    for index in range(12):
        runtime.set_quota(ExecutorKey("app", str(index)), 0.8)
    standin.until(lambda: set(names) <= set(state.tries[13:]))
    runtime.set_quota(ExecutorKey("app", "12"), 0.8)
    standin.until(lambda: standin.look(good).limit_m == 800)
    remark(standin, runtime, ExecutorKey("app", "0"), f" {code} ")
    state.orders.refuse_pods = {}
    standin.skip(runtime, 31.0)
    has_limit(standin, names, 800)
    standin.until(lambda: not any(seen.remark for seen in runtime.observe().values()))


@pytest.mark.parametrize("code", [429, 503])
def test_a_server_that_asks_for_a_pause_gets_no_patches(standin: World, code: int) -> None:
    state = standin.standin
    runtime, names = many(standin, 2)
    state.orders.retry_after = "25"
    state.orders.refuse = [(code, b'{"kind":"Status","message":"busy","code":%d}' % code, "application/json")]
    runtime.set_quota(ExecutorKey("app", "0"), 0.8)
    remark(standin, runtime, ExecutorKey("app", "0"), f" {code}")
    runtime.set_quota(ExecutorKey("app", "1"), 0.8)
    assert 20.0 < runtime._pause.until_s - standin.now() <= 25.0
    assert len(state.tries) == 3
    standin.skip(runtime, 26.0)
    has_limit(standin, names, 800)


def test_a_pod_whose_patch_is_not_answered_holds_back_no_other_for_long(standin: World) -> None:
    """A webhook may be slow for one pod."""
    state = standin.standin
    runtime, names = many(standin, 3)
    state.orders.gated = frozenset(names[:1])
    state.orders.gate.clear()
    for index in range(3):
        runtime.set_quota(ExecutorKey("app", str(index)), 0.8)
    has_limit(standin, names[1:], 800)
    remark(standin, runtime, ExecutorKey("app", "0"), "has not answered")
    state.orders.gate.set()
    standin.skip(runtime, 31.0)
    has_limit(standin, names, 800)


def test_a_patch_whose_answer_is_lost_is_not_sent_again_once_the_pod_shows_it(standin: World) -> None:
    runtime, names = many(standin, 2)
    standin.standin.orders.mute = 1
    runtime.set_quota(ExecutorKey("app", "0"), 0.7)
    has_limit(standin, names[:1], 700)
    # one thread patches: the second comes after the first, and after its next try
    for cores in (0.8, 0.4):
        runtime.set_quota(ExecutorKey("app", "1"), cores)
        has_limit(standin, names[1:], round(1000 * cores))
        standin.skip(runtime, 31.0)
    assert standin.standin.tries.count(names[0]) == 2
    assert not runtime.held_back()


def test_a_quota_of_limits_refuses_what_is_too_much_and_gives_what_fits(standin: World) -> None:
    runtime, key = paced(standin, 0.3)
    standin.pod("other", "2", limit="300m")
    in_force(standin, 300)
    standin.standin.quotas[standin.namespace] = 1.0
    runtime.set_quota(key, 1.5)
    remark(standin, runtime, key, "exceeded quota")
    between(standin, runtime, 600, 700)
    # what is free again is used after a while
    standin.delete("other")
    runtime.set_quota(key, 1.0)
    between(standin, runtime, 900, 1000)


def test_all_of_many_pods_are_given_back_before_a_stop_is_over(standin: World) -> None:
    runtime, names = many(standin, 60)
    assert let_go_all(runtime)
    assert {standin.look(name).limit_m for name in names} == {500}
    assert list((standin.folder / "pods").iterdir()) == []


def test_a_limit_that_cannot_be_given_back_is_reported_and_the_next_agent_tries_again(
    standin: World, caplog: pytest.LogCaptureFixture
) -> None:
    state = standin.standin
    first, names = many(standin, 2)
    state.orders.refuse_pods = {names[1]: 422}
    standin.skip(first, 2.0)
    assert not let_go_all(first, news_s=5.0)
    [warning] = [message for message in caplog.messages if "next agent" in message]
    assert_names(warning, "app/1", "422: ")
    assert "executors let go: 1, not let go: 1" in caplog.text
    first.close()
    assert len(list((standin.folder / "pods").iterdir())) == 1
    state.orders.refuse_pods = {}
    second = standin.runtime()
    assert let_go_all(second)
    has_limit(standin, names, 500)
    assert list((standin.folder / "pods").iterdir()) == []


def test_a_refused_give_back_is_tried_again_by_the_same_agent(standin: World) -> None:
    runtime, key = settled(standin)
    standin.standin.orders.refuse_pods = {"exec-1": 422}
    runtime.stop(key)
    remark(standin, runtime, key, "422: ")
    with pytest.raises(RuntimeFailed, match="app/1"):
        runtime.remove(key)
    standin.standin.orders.refuse_pods = {}
    between(standin, runtime, 500, 500)
    standin.until(lambda: not runtime.observe()[key].running)


def test_quotas_are_not_opened_before_the_server_has_accepted_it(standin: World, caplog: pytest.LogCaptureFixture) -> None:
    runtime, key = settled(standin)
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
    assert standin.look().limit_m == 2000
    assert key in runtime.observe()


def test_a_record_that_cannot_be_written_costs_no_former_executor_of_that_key_its_removal(
    standin: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, key = settled(standin)
    standin.delete("exec-1")
    standin.until(lambda: not runtime.observe()[key].running)
    second = standin.pod("exec-2")
    standin.until(lambda: second.uid in runtime._pods)

    def full(_descriptor: int) -> None:
        raise OSError("no space left")

    with monkeypatch.context() as patched:
        patched.setattr("os.fsync", full)
        with pytest.raises(RuntimeFailed, match="no space left"):
            runtime.adopt(standin.adoption(second))
    assert not runtime.observe()[key].running
    runtime.remove(key)
    assert list((standin.folder / "pods").glob("*.json")) == []
    runtime.adopt(standin.adoption(second))
    assert runtime.observe()[key].running


def test_a_slow_disk_holds_up_no_period(standin: World, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, key = settled(standin)
    second = standin.pod("exec-2", "2")
    writes, may_go_on = threading.Event(), threading.Event()

    def slow(_descriptor: int) -> None:
        writes.set()
        assert may_go_on.wait(60.0)

    standin.until(lambda: second.uid in runtime._pods)
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
    finally:
        may_go_on.set()
        adopting.join()
    in_force(standin, 400, name="exec-2")
