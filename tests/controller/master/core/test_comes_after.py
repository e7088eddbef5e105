"""Applications that come after others: what they wait for, by which name they know it, and what a restart keeps of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.wire.driver import ExecutorWish
from stage_model.errors import BadInput
from tests.fakes.cluster import one_stage_run
from tests.fakes.placed import Scene


@pytest.fixture
def two(tmp_path: Path) -> Scene:
    return Scene(tmp_path, w1={}, w2={})


def test_it_starts_when_what_it_comes_after_has_ended(two: Scene) -> None:
    first = two.register("first")
    after, success = two.register("after", after=first), two.register("success", after="first:success")
    free = two.register("free")
    assert (two.where(after), two.where(success), two.where(free)) == ([], [], ["w2"])
    assert f"{first} (first)" in two.view(after).reason
    two.state.commands.kill(first, two.cluster.now_s)
    two.end(first)
    assert len(two.where(after)) == 1
    ended = two.view(success)
    assert (ended.state, ended.outcome) == ("ended", "stopped")
    assert f"success of {first} (first)" in ended.reason


def succeed(scene: Scene, application_id: str) -> None:
    scene.cluster.driver(application_id, *one_stage_run(1000), ended=True, wanted={"0": ExecutorWish(count=1)})
    scene.sync()


def test_what_has_succeeded_lets_it_start_also_after_a_restart_and_an_unknown_id_is_refused(two: Scene) -> None:
    first = two.register("first")
    success = two.register("success", after="first:success")
    succeed(two, first)
    assert len(two.where(success)) == 1
    two.end(success)
    two.restart()
    for after in (first, f"{first}:success", "first:success"):
        assert len(two.where(two.register(f"after {after}", after=after))) == 1
    with pytest.raises(BadInput, match="pace-20000101-000000-abcdef"):
        two.register("typo", after="pace-20000101-000000-abcdef")
    # the same name again comes after the one before
    assert len(two.where(two.register("first", after="first"))) == 1


def test_the_name_it_was_submitted_with_is_one_too(two: Scene) -> None:
    first = two.register("tiny", name="load")
    second = two.register("small", name="report", after="load:success")
    assert f"{first} (tiny)" in two.view(second).reason
    two.register("big", name="report", after="other")
    with pytest.raises(BadInput, match="other after report after other"):
        two.register("tiny", name="other", after="report")
    succeed(two, first)
    two.restart()
    assert len(two.where(two.register("third", after="load:success"))) == 1


def test_what_was_not_submitted_yet_is_waited_for_and_circles_are_refused(two: Scene) -> None:
    a = two.register("a", after="b")
    assert "'b'" in two.view(a).reason
    with pytest.raises(BadInput, match="b after a after b"):
        two.register("b", after="a")
    b = two.register("b")
    two.sync()
    assert f"{b} (b)" in two.view(a).reason
    two.end(b)
    two.sync()
    assert len(two.where(a)) == 1


def test_its_predecessors_are_still_known_after_a_restart(two: Scene) -> None:
    first = two.register("nightly")
    second, third = two.register("nightly", after="nightly"), two.register("nightly", after="nightly")
    two.restart()
    two.end(first)
    assert (len(two.where(second)), two.where(third)) == (1, [])
    assert f"{second} (nightly)" in two.view(third).reason
