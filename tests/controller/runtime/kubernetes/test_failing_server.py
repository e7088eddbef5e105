"""Servers that fail, hang up, are slow or away, for all pods or for some: quotas stay, and calls are made again."""

from __future__ import annotations

import pytest

from controller.runtime.base import ExecutorKey
from controller.runtime.kubernetes.pod_cpu import PodCpu
from controller.runtime.kubernetes.pod_resize import PodLater, ServerLater
from controller.runtime.kubernetes.runtime import HANGS_S
from stage_model.errors import RuntimeFailed
from tests.controller.runtime.kubernetes.kube_worlds import AWAY, World
from tests.fakes.kube_resizes import Answer, Refused

pytestmark = pytest.mark.kubernetes_api


def test_a_patch_whose_connection_is_closed_is_sent_again(standin: World) -> None:
    runtime, key = standin.settled()
    standin.server.orders.close = 1
    runtime.set_quota(key, 0.7)
    standin.in_force(700)
    assert runtime.observe()[key].remark == ""


def test_a_watch_that_ends_or_is_too_old_loses_nothing(standin: World) -> None:
    runtime, key = standin.paced()
    for cores in (0.4, 0.6, 0.8):
        standin.server.forget()
        standin.server.end_watches()
        runtime.set_quota(key, cores)
        standin.in_force(round(1000 * cores))
        standin.until(lambda cores=cores: runtime.observe()[key].quota_cores == cores)  # type: ignore[misc]
    assert runtime.alive()


def test_a_watch_that_is_not_begun_again_is_seen(standin: World) -> None:
    runtime, key = standin.settled()
    standin.until(lambda: runtime.observe()[key].quota_cores == 0.3)  # the last news of its pod
    assert runtime.alive()
    standin.skip(runtime, HANGS_S)
    assert not runtime.alive()
    standin.server.end_watches()
    standin.until(runtime.alive)


def test_an_error_that_no_one_foresaw_holds_back_its_pod_only(standin: World, monkeypatch: pytest.MonkeyPatch) -> None:
    runtime, key = standin.settled()
    resize = runtime._api.resize

    def odd(pod: PodCpu, limit_m: int) -> PodCpu:
        if limit_m == 700:
            raise RuntimeError("unforeseen")
        return resize(pod, limit_m)

    monkeypatch.setattr(runtime._api, "resize", odd)
    runtime.set_quota(key, 0.7)
    standin.remark(runtime, key, "the agent's log")
    assert runtime.alive()
    standin.skip(runtime, 31.0)
    runtime.set_quota(key, 0.8)
    standin.in_force(800)


@pytest.mark.parametrize(
    "answer",
    [
        (500, b"<html>oh</html>", "text/html"),
        (200, b"{", "application/json"),
        Refused(429, "slow down").answer,
        Refused(409, "modified").answer,
        (403, b'"nonsense"', "application/json"),
    ],
)
def test_a_call_with_an_unusable_answer_is_tried_again(standin: World, answer: Answer) -> None:
    runtime, key = standin.settled()
    standin.server.orders.refuse = [answer]
    runtime.set_quota(key, 0.7)
    standin.in_force(700)


def test_an_unforeseen_refusal_is_reported_in_the_servers_words(standin: World) -> None:
    api, pod = standin.api(), standin.pod()
    standin.server.orders.refuse = [Refused(422, "odd " * 200).answer]
    with pytest.raises(PodLater, match="422: odd odd") as later:
        api.resize(pod, 300)
    assert later.value.refused
    assert len(str(later.value)) < 350


def test_a_server_that_is_away_is_reported_and_quotas_stay(standin: World) -> None:
    runtime = standin.runtime(AWAY)
    with pytest.raises(ServerLater):
        runtime._api.pods()
    with pytest.raises(RuntimeFailed):
        runtime.adopt(standin.adoption(standin.pod()))
    assert runtime.alive()


@pytest.mark.parametrize("code", [409, 500, 504])
def test_pods_that_cause_trouble_hold_back_no_other(standin: World, code: int) -> None:
    """Twelve that fail would cost two minutes if all waited for them, as each failure doubled the wait."""
    state = standin.server
    runtime, names = standin.many(13)
    good = names.pop()
    state.orders.refuse_pods = dict.fromkeys(names, code)
    for index in range(12):
        runtime.set_quota(ExecutorKey("app", str(index)), 0.8)
    standin.until(lambda: set(names) <= set(state.tries[13:]))
    runtime.set_quota(ExecutorKey("app", "12"), 0.8)
    standin.until(lambda: standin.look(good).limit_m == 800)
    standin.remark(runtime, ExecutorKey("app", "0"), f" {code} ")
    state.orders.refuse_pods = {}
    standin.skip(runtime, 31.0)
    standin.have_limit(names, 800)
    standin.until(lambda: not any(seen.remark for seen in runtime.observe().values()))


@pytest.mark.parametrize("code", [429, 503])
def test_a_server_that_asks_for_a_pause_gets_no_patches(standin: World, code: int) -> None:
    state = standin.server
    runtime, names = standin.many(2)
    state.orders.retry_after = "25"
    state.orders.refuse = [Refused(code, "busy").answer]
    runtime.set_quota(ExecutorKey("app", "0"), 0.8)
    standin.remark(runtime, ExecutorKey("app", "0"), f" {code}")
    runtime.set_quota(ExecutorKey("app", "1"), 0.8)
    assert 20.0 < runtime._pause.until_s - standin.now() <= 25.0
    assert len(state.tries) == 3
    standin.skip(runtime, 26.0)
    standin.have_limit(names, 800)


def test_a_pod_whose_patch_is_not_answered_holds_back_no_other_for_long(standin: World) -> None:
    """A webhook may be slow for one pod."""
    state = standin.server
    runtime, names = standin.many(3)
    state.orders.gated = frozenset(names[:1])
    for index in range(3):
        runtime.set_quota(ExecutorKey("app", str(index)), 0.8)
    standin.have_limit(names[1:], 800)
    standin.remark(runtime, ExecutorKey("app", "0"), "has not answered")
    state.orders.gate.set()
    standin.skip(runtime, 31.0)
    standin.have_limit(names, 800)


def test_a_patch_whose_answer_is_lost_is_not_sent_again_once_the_pod_shows_it(standin: World) -> None:
    runtime, names = standin.many(2)
    standin.server.orders.mute = 1
    runtime.set_quota(ExecutorKey("app", "0"), 0.7)
    standin.have_limit(names[:1], 700)
    # one thread patches: the second comes after the first, and after its next try
    for cores in (0.8, 0.4):
        runtime.set_quota(ExecutorKey("app", "1"), cores)
        standin.have_limit(names[1:], round(1000 * cores))
        standin.skip(runtime, 31.0)
    assert standin.server.tries.count(names[0]) == 2
    assert not runtime.held_back()
