"""Servers before 1.33, and servers that deny the right to resize or to watch pods."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import pytest

from controller.runtime.kubernetes.pod_resize import PodLater, ServerLater, TooOld
from controller.runtime.table import choose_runtime
from stage_model.errors import RuntimeFailed, RuntimeRefused, Unavailable
from tests.controller.runtime.kubernetes.kube_worlds import World, real_world, why_no_real_server
from tests.fakes.kube_pods import executor_pod
from tests.fakes.kube_resizes import Refused

pytestmark = pytest.mark.kubernetes_api


def test_a_real_server_before_1_33_says_so(tmp_path: Path) -> None:
    if not (reason := why_no_real_server()) or "older" not in reason:
        pytest.skip("SPARKPACE_TEST_KUBECONFIG names no server before 1.33")
    with real_world(tmp_path) as world:
        world.create(executor_pod("exec-1", world.serves(), image="localhost/none"))
        api = world.api()
        (pod,) = world.until(lambda: api.pods()[0])
        with pytest.raises(ServerLater, match=r"1\.33") as refused:
            api.resize(pod, 300)
        assert str(refused.value) == str(TooOld())


def test_the_missing_right_to_resize_is_reported(standin: World) -> None:
    standin.server.orders.may_resize = False
    runtime, key = standin.paced()
    assert standin.remark(runtime, key, "patch pods/resize") == runtime.observe()[key].risk
    standin.server.orders.may_resize = True
    standin.skip(runtime, 31.0)
    standin.in_force(300)
    standin.until(lambda: not runtime.observe()[key].remark)


def test_a_server_that_has_just_started_and_knows_no_roles_yet_is_asked_again(
    standin: World, caplog: pytest.LogCaptureFixture
) -> None:
    runtime, key = standin.settled()
    orders, words = standin.server.orders, 'pods "exec-1" is forbidden: User "agent" cannot patch resource "pods/resize"'
    orders.refuse, orders.denials = [Refused(403, words).answer] * 2, 2
    standin.server.forget()
    standin.server.end_watches()
    runtime.set_quota(key, 0.7)
    standin.in_force(700)
    standin.until(lambda: not orders.denials and runtime.observe()[key].quota_cores == 0.7)
    assert runtime.observe()[key].remark == ""
    assert "may not" not in caplog.text


def test_a_server_before_1_33_is_reported_and_later_executors_are_refused(standin: World) -> None:
    standin.server.orders.has_resize = False
    runtime, key = standin.paced()
    standin.remark(runtime, key, "1.33")
    later = standin.pod("exec-2", "2")
    with pytest.raises(RuntimeRefused, match="--runtime adopt"):
        standin.adopt(runtime, standin.adoption(later, executor_id="2"))


def test_what_is_not_found_is_the_pod_or_the_way_to_resize_it(standin: World) -> None:
    api, pod = standin.api(), standin.pod()
    standin.server.orders.refuse = [(404, b"404 page not found\n", "text/plain")]
    with pytest.raises(ServerLater) as later:
        api.resize(pod, 300)
    assert isinstance(later.value, TooOld)
    with pytest.raises(PodLater) as gone:
        api.resize(dataclasses.replace(pod, name="gone"), 300)
    assert not gone.value.refused


def test_the_missing_right_to_watch_is_reported(standin: World) -> None:
    standin.server.orders.may_watch = False
    runtime, pod = standin.runtime(), standin.pod()
    with pytest.raises(RuntimeFailed, match=r"list and watch.*--namespace"):
        runtime.adopt(standin.adoption(pod))


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
    standin.server.orders.may_watch_all = False
    assert choose_runtime("kubernetes", "jobs").name == "kubernetes"
    with pytest.raises(Unavailable, match=r"list and watch.*--namespace"):
        choose_runtime("kubernetes")
    standin.server.orders.may_watch = False
    with pytest.raises(Unavailable, match=r"list and watch.*--namespace"):
        choose_runtime("kubernetes", "jobs")
