"""Services that `up` starts where a cluster was started before, by examples: recorded services, living ones, and the
request."""

from __future__ import annotations

from typing import Any

import pytest

from controller.home import AgentProcess, Cluster
from controller.local.healing import Found, FoundAgent, Healing, decide_healing
from controller.locks import Holder
from controller.machine.process import Process
from stage_model.errors import BadInput

GONE = Process(2**22, 1, "none")
SOME = Holder(process=GONE)
WHOLE, CHILDLESS, ORPHANED = FoundAgent(SOME, SOME), FoundAgent(SOME, None), FoundAgent(None, SOME)


def recorded(**changes: Any) -> Cluster:
    plain: dict[str, Any] = {
        "cluster_id": "c1",
        "url": "https://127.0.0.1:7171",
        "host": "127.0.0.1",
        "port": 7171,
        "runtime": "process",
        "master": GONE,
        "master_words": ("master",),
        "agents": tuple(AgentProcess(worker_id=name, process=GONE, words=("agent",)) for name in ("w1", "w2")),
        "options": {"port": 0, "runtime": "auto", "workers": 2, "law": "forecast"},
    }
    return Cluster(**(plain | changes))


@pytest.mark.parametrize(
    ("found", "healing"),
    [
        (Found(SOME, {"w1": WHOLE, "w2": WHOLE}), Healing(False, (), (), ("w1", "w2"))),
        (Found(None, {"w1": WHOLE, "w2": WHOLE}), Healing(True, (), (), ("w1", "w2"))),
        (Found(SOME, {"w1": WHOLE}), Healing(False, ("w2",), (), ("w1",))),
        (Found(SOME, {"w1": CHILDLESS, "w2": WHOLE}), Healing(False, (), ("w1",), ("w2",))),
        (Found(SOME, {"w1": WHOLE, "w2": ORPHANED}), Healing(False, ("w2",), (), ("w1",))),
        (Found(None, {"w1": CHILDLESS, "w2": ORPHANED}), Healing(True, ("w2",), ("w1",), ())),
        (Found(None, {}), Healing(True, ("w1", "w2"), (), ())),
        # a worker that was started by hand is left as it is
        (Found(SOME, {"w1": WHOLE, "w2": WHOLE, "m3": WHOLE}), Healing(False, (), (), ("w1", "w2"))),
    ],
)
def test_just_what_is_missing_is_started(found: Found, healing: Healing) -> None:
    assert decide_healing(recorded(), found, {}) == healing
    assert healing.needed == (healing != Healing(False, (), (), ("w1", "w2")))


def test_without_a_cluster_a_new_one_is_started() -> None:
    assert decide_healing(None, Found(), {"law": "paper"}) is None


def test_a_dead_cluster_makes_room_for_one_with_the_options_given() -> None:
    assert decide_healing(recorded(), Found(), {"law": "paper"}) is None


@pytest.mark.parametrize(
    ("given", "named"),
    [
        ({"law": "paper"}, "--law"),
        ({"port": 7070}, "--port"),
        ({"workers": 3, "runtime": "docker"}, "--workers and --runtime"),
    ],
)
def test_other_options_than_those_of_what_lives_are_refused(given: dict[str, Any], named: str) -> None:
    with pytest.raises(BadInput, match=f"{named}.*`sparkpace down`"):
        decide_healing(recorded(), Found(None, {"w1": CHILDLESS}), given)


@pytest.mark.parametrize("given", [{"port": 0}, {"port": 7171}, {"runtime": "auto"}, {"runtime": "process"}])
def test_the_same_options_are_no_hindrance(given: dict[str, Any]) -> None:
    healing = decide_healing(recorded(), Found(None, {"w1": WHOLE, "w2": WHOLE}), given)
    assert healing is not None
    assert healing.master


def test_services_that_up_did_not_start_are_named() -> None:
    with pytest.raises(BadInput, match=r"agent of m3.*`sparkpace down`"):
        decide_healing(None, Found(SOME, {"m3": WHOLE}), {})


def test_a_file_that_does_not_say_how_to_start_is_refused_when_that_is_needed() -> None:
    with pytest.raises(BadInput, match="`sparkpace down`"):
        decide_healing(recorded(master_words=()), Found(None, {"w1": WHOLE, "w2": WHOLE}), {})
    assert decide_healing(recorded(master_words=()), Found(SOME, {"w1": WHOLE, "w2": WHOLE}), {}) is not None


def test_agents_end_before_the_master_and_supervisors_before_their_children() -> None:
    names = [name for name, _ in Found(SOME, {"w1": WHOLE, "w2": ORPHANED}).holders()]
    assert names == ["the agent of w1", "the agent's child of w1", "the agent's child of w2", "the master"]
