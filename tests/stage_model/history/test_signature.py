from __future__ import annotations

import re

import pytest

from stage_model.history.signature import call_site, folded_scopes
from tests.fakes.spark_events import Story, info


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("reduceByKey at /x/app.py:12", "reduceByKey at app.py"),
        ("reduceByKey at C:\\jobs\\app.py:12", "reduceByKey at app.py"),
        ("count at NativeMethodAccessorImpl.java:0", "count at NativeMethodAccessorImpl.java"),
        (
            "$anonfun$withThreadLocalCaptured$2 at CompletableFuture.java:1768",
            "$anonfun$withThreadLocalCaptured at Com",
        ),
        ("collect at /tmp/ipykernel_4711/3121.py:2", "collect at notebook"),
        ("collect at <ipython-input-7-0a1b>:2", "collect at notebook"),
        ("look at this at /x/app.py:9", "look at this at app.py"),
        ("no call site", "no call site"),
    ],
)
def test_a_call_site_loses_line_path_and_counters(name: str, expected: str) -> None:
    assert call_site(name).startswith(expected)
    assert not re.search(r":\d+$|/", call_site(name))


def test_micro_batches_of_one_stream_have_the_same_scopes() -> None:
    # as Spark names them: a long operation's time is on a line of its own, and short batches have milliseconds
    first = folded_scopes(("map @ 19:26:33", "queue stream [0]\n@ 19:26:33"), leaf=True)
    assert first == folded_scopes(("map @ 19:26:34.500", "queue stream [0]\n@ 19:26:34.500"), leaf=True)
    assert first == ("map", "queue stream [0]")
    assert folded_scopes(("load @ noon",), leaf=True) == ("load @ noon",)


def test_consecutive_equal_scopes_fold_and_only_leaves_keep_code_generation_numbers() -> None:
    scopes = ("Scan parquet /data/a", "WholeStageCodegen (1)", "WholeStageCodegen (1)", "Exchange", "Exchange")
    assert folded_scopes(scopes, leaf=True) == ("Scan parquet a", "WholeStageCodegen (1)", "Exchange")
    assert folded_scopes(scopes, leaf=False) == ("Scan parquet a", "WholeStageCodegen", "Exchange")


def test_a_signature_is_short_readable_and_knows_no_ids_and_lines() -> None:
    one, other = Story(), Story()
    one.job(0, info(0, "reduceByKey at /a/app.py:12"))
    other.job(5, info(17, "reduceByKey at /b/c/app.py:99"))
    first = one.submit(info(0, "reduceByKey at /a/app.py:12"))
    second = other.submit(info(17, "reduceByKey at /b/c/app.py:99"))
    assert first == second
    assert re.fullmatch(r"reduceByKey-at-app\.py-[0-9a-f]{8}-1", first)


def test_equal_stages_are_distinguished_by_ordinal_and_get_the_same_names_again() -> None:
    def loop() -> list[str]:
        story = Story()
        names = []
        for turn in range(3):
            story.job(turn, info(turn))
            names.append(story.whole(info(turn)))
            story.job_end(turn)
        return names

    assert len(set(loop())) == 3
    assert loop() == loop()


def test_parents_tell_iterations_apart_whatever_the_ids() -> None:
    def chain(base: int) -> list[str]:
        stages = [info(base + i, parents=(base + i - 1,) if i else ()) for i in range(4)]
        story = Story()
        story.job(0, *stages)
        return [story.whole(stage) for stage in stages]

    assert len(set(chain(0))) == 4
    assert chain(0) == chain(40)


def test_a_parent_may_have_the_larger_id() -> None:
    story, twin = Story(), Story()
    story.job(0, info(1, parents=(2,)), info(2, "map at /x/app.py:1"))
    twin.job(0, info(8, "map at /x/app.py:1"), info(9, parents=(8,)))
    assert story.submit(info(2, "map at /x/app.py:1")) == twin.submit(info(8, "map at /x/app.py:1"))
    assert story.submit(info(1, parents=(2,))) == twin.submit(info(9, parents=(8,)))


def test_parallel_branches_of_equal_shape_keep_their_names_in_any_order_if_codegen_numbers_differ() -> None:
    big = info(0, "collect at /x/app.py:9", scopes=("WholeStageCodegen (1)", "Exchange"))
    small = info(1, "collect at /x/app.py:9", scopes=("WholeStageCodegen (2)", "Exchange"))
    one, other = Story(), Story()
    for story, order in ((one, (big, small)), (other, (small, big))):
        for job, stage in enumerate(order):
            story.job(job, stage, sql="0")
    names = [one.submit(big), one.submit(small)]
    swapped = [other.submit(small), other.submit(big)]
    assert names == swapped[::-1]


def test_a_further_attempt_has_the_same_signature() -> None:
    story = Story()
    story.job(0, info(0))
    assert story.submit(info(0)) == story.submit(info(0, attempt=1))


def test_very_long_chains_are_fine() -> None:
    stages = [info(i, parents=(i + 1,) if i < 1499 else ()) for i in range(1500)]
    story = Story()
    story.job(0, *stages)
    assert len({story.submit(stage) for stage in stages}) == 1500


@pytest.mark.timeout(300)  # a million steps are a second; their square is a day
@pytest.mark.parametrize("piece", [" ", "x", "(", "(1", "/", " *", "(1) ", "$1", " at ", ":1"])
def test_names_as_long_as_a_driver_likes_hold_no_other_work_up(piece: str) -> None:
    text = piece * (1_000_000 // len(piece))
    assert all(len(scope) <= 120 for leaf in (True, False) for scope in folded_scopes((text,), leaf=leaf))
    assert len(call_site(text)) <= len(text)


def test_code_generation_numbers_go_wherever_they_are() -> None:
    found = folded_scopes(("a (1) (2)  *(3)b", "  (4) c ( 5) *(x)"), leaf=False)
    assert found == ("ab", "c ( 5) *(x)")
