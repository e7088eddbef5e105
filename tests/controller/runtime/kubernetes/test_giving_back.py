"""The limit that a pod had at first: it is recorded before it changes, and given back at the end."""

from __future__ import annotations

import threading

import pytest

from controller.agent.open_quotas import let_go_all, open_all
from stage_model.errors import RuntimeFailed
from tests.controller.runtime.kubernetes.kube_worlds import AWAY, World
from tests.fakes.refusals import assert_names

pytestmark = pytest.mark.kubernetes_api


def test_what_is_let_go_has_what_it_had_and_goes_on(world: World) -> None:
    runtime, _ = world.settled(limit="605m", request="200m")
    world.until(lambda: let_go_all(runtime))
    world.in_force(605)
    assert not world.look().ended
    assert list((world.folder / "pods").iterdir()) == []


def test_the_next_agent_knows_what_a_pod_had_at_first(world: World) -> None:
    first, key = world.settled(limit="600m", request="200m")
    first.close()
    second = world.runtime()
    assert second.observe()[key].quota_cores == 0.3
    second.stop(key)
    world.in_force(600)


def test_all_of_many_pods_are_given_back_before_a_stop_is_over(standin: World) -> None:
    runtime, names = standin.many(60)
    assert let_go_all(runtime)
    assert {standin.look(name).limit_m for name in names} == {500}
    assert list((standin.folder / "pods").iterdir()) == []


def test_a_limit_that_cannot_be_given_back_is_reported_and_the_next_agent_tries_again(
    standin: World, caplog: pytest.LogCaptureFixture
) -> None:
    state = standin.server
    first, names = standin.many(2)
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
    standin.have_limit(names, 500)
    assert list((standin.folder / "pods").iterdir()) == []


def test_a_refused_give_back_is_tried_again_by_the_same_agent(standin: World) -> None:
    runtime, key = standin.settled()
    standin.server.orders.refuse_pods = {"exec-1": 422}
    runtime.stop(key)
    standin.remark(runtime, key, "422: ")
    with pytest.raises(RuntimeFailed, match="app/1"):
        runtime.remove(key)
    standin.server.orders.refuse_pods = {}
    standin.between(runtime, 500, 500)
    standin.until(lambda: not runtime.observe()[key].running)


def test_quotas_are_not_opened_before_the_server_has_accepted_it(standin: World, caplog: pytest.LogCaptureFixture) -> None:
    runtime, key = standin.settled()
    standin.server.orders.refuse_pods = {"exec-1": 500}
    standin.skip(runtime, 2.0)
    runtime.set_quota(key, 2.0)
    standin.remark(runtime, key, " 500")
    assert not open_all(runtime, 2.0, within_s=0.1)
    assert_names([message for message in caplog.messages if "not opened" in message], "app/1", " 500 ")
    caplog.clear()
    runtime.close()
    away = standin.runtime(AWAY)
    assert not open_all(away, 2.0, within_s=0.1)
    assert_names([message for message in caplog.messages if "not opened" in message], "app/1")
    away.close()
    standin.server.orders.refuse_pods = {}
    assert open_all(standin.runtime(), 2.0)
    assert standin.look().limit_m == 2000
    assert key in runtime.observe()


def test_a_record_that_cannot_be_written_costs_no_former_executor_of_that_key_its_removal(
    standin: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime, key = standin.settled()
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
    runtime, key = standin.settled()
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
        standin.in_force(800)
    finally:
        may_go_on.set()
        adopting.join()
    standin.in_force(400, name="exec-2")
