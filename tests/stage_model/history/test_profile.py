from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage_model.errors import BadInput
from stage_model.history.profile import (
    RUNS_KEPT,
    Profile,
    like_named,
    merge,
    parse_profile,
    profile,
    profile_json,
    profile_key,
)
from tests.fakes.records import run, stage


def test_a_profile_survives_its_json() -> None:
    whole = profile("k", [run("b", 2, stage("s1"), stage("s2", parents=("s1",))), run("a", 1)])
    assert [r.id for r in whole.runs] == ["a", "b"]
    assert parse_profile(profile_json(whole), expected_key="k", expected_main="app.py") == whole
    assert parse_profile(profile_json(whole).decode()) == whole


def test_the_last_20_runs_are_kept() -> None:
    whole = profile("k", [run(f"r{i:02}", 100 + i) for i in range(30)])
    assert [r.id for r in whole.runs] == [f"r{i:02}" for i in range(10, 30)]


def test_profiles_of_different_jobs_do_not_merge() -> None:
    with pytest.raises(BadInput, match="of different jobs"):
        merge(Profile(key="a"), Profile(key="b"))


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "JSON"),
        (b"PageRank", "JSON"),
        (b"\xff\xfe\x00", "JSON"),
        (b"[" * 100_000, "JSON|profile"),
        (b"[]", "profile file p.json "),
        (b'{"key": "k"}', "profile file p.json "),
        (b'{"version": 2, "key": "k", "tuns": []}', "version 2.* 1"),
        (b'{"version": 1, "key": "k", "tuns": []}', "profile file p.json "),
        (b'{"version": 1, "key": "k", "runs": [{"id": "x"}]}', "profile file p.json "),
        (profile_json(profile("k", [run("r", 0, stage("s"), stage("s"))])), "twice"),
        (profile_json(profile("k", [run("r", 0, stage("s", parents=("t",)))])), "before"),
        (profile_json(profile("k", [run("r", 0, stage("s", work_core_s=-1.0))])), "profile file p.json "),
    ],
)
def test_what_is_no_profile_is_refused_in_one_sentence(content: bytes, sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence) as refusal:
        parse_profile(content, source="profile file p.json")
    assert "profile file p.json " in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_another_jobs_profile_is_refused() -> None:
    content = profile_json(profile("pagerank", [run("r")]))
    with pytest.raises(BadInput, match="'pagerank'"):
        parse_profile(content, expected_key="kmeans")
    with pytest.raises(BadInput, match=r"app\.py"):
        parse_profile(content, expected_main="kmeans.py")


def test_a_profile_taught_by_the_same_file_in_a_folder_is_of_the_same_job() -> None:
    for main in ("/jobs/app.py", "local:///jobs/app.py", "app.py"):
        taught = profile("k", [run("r", main=main)])
        assert parse_profile(profile_json(taught), expected_main="app.py") == taught


@pytest.mark.parametrize(
    ("explicit", "name", "main", "expected"),
    [
        ("pagerank", "x", "y.py", "pagerank"),
        (None, "PageRank", "/home/me/pagerank.py", "PageRank@pagerank.py"),
        (None, "app", "org.example.Main$", "app@org.example.Main$"),
        (None, "app", None, "app"),
    ],
)
def test_keys_name_the_application_and_its_main(explicit: str | None, name: str, main: str | None, expected: str) -> None:
    assert profile_key(explicit, name, main) == expected


@pytest.mark.parametrize("wild", ["../../etc/passwd", ".", "..", "-rf", "my job", "a\nb", "ä", "x" * 500, "\0"])
def test_any_key_is_fit_for_a_file_name_and_passes_through_unchanged(wild: str) -> None:
    key = profile_key(wild, "", None)
    assert "/" not in key
    assert "\0" not in key
    assert key[0] not in ".-"
    assert len(key.encode()) <= 120
    assert profile_key(key, "", None) == key


def test_replaced_characters_do_not_make_two_jobs_one() -> None:
    assert profile_key("my job", "", None) != profile_key("my_job", "", None)


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(BadInput, match="profile name '' is empty"):
        profile_key(" ", "app", None)


def test_the_documented_schema_is_current() -> None:
    documented = Path(__file__).parents[3] / "docs" / "profile-schema.json"
    schema = msgspec.json.format(msgspec.json.encode(unindented(msgspec.json.schema(Profile))), indent=2) + b"\n"
    assert documented.read_bytes() == schema, "write this schema to it"


def unindented(part: Any) -> Any:
    """Return a part of a schema without the indentation of docstrings, which some releases of msgspec leave out."""
    if isinstance(part, dict):
        return {key: unindented(value) for key, value in part.items()}
    if isinstance(part, list):
        return [unindented(one) for one in part]
    return inspect.cleandoc(part) if isinstance(part, str) else part


RECORDS = st.builds(
    lambda number, when_ms, work: run(f"r{number}", when_ms, stage("s", work_core_s=work)),
    st.integers(0, 40),
    st.integers(0, 10),
    st.sampled_from([1.0, 2.0]),
)
PROFILES = st.lists(RECORDS, max_size=30).map(lambda runs: profile("k", runs))


@given(PROFILES, PROFILES, PROFILES)
def test_merging_is_order_free(a: Profile, b: Profile, c: Profile) -> None:
    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    assert merge(a, a) == a


@given(PROFILES, PROFILES)
def test_a_merged_profile_has_each_run_once_and_the_newest_of_all(a: Profile, b: Profile) -> None:
    merged = merge(a, b)
    ids = [r.id for r in merged.runs]
    assert len(ids) == len(set(ids)) == min(RUNS_KEPT, len({r.id for r in (*a.runs, *b.runs)}))
    assert [(r.when_ms, r.id) for r in merged.runs] == sorted((r.when_ms, r.id) for r in merged.runs)
    if merged.runs:
        assert merged.runs[-1].when_ms == max(r.when_ms for r in (*a.runs, *b.runs))


# ---------------------------------------------------------------- the profile that may be meant


@pytest.mark.parametrize(
    ("key", "known", "nearest"),
    [
        # dates, times and ids in names
        (
            "load-2026-11-26@load.py",
            ("load-2026-11-24@load.py", "load-2026-11-25@load.py", "other@o.py"),
            "load-2026-11-25@load.py",
        ),
        ("taxi-1699999999", ("taxi-1699990000", "bus-1"), "taxi-1699990000"),
        ("job-123e4567-e89b-12d3-a456-426614174000", ("job-00000000-e89b-12d3-a456-426614174abc",), None),
        (profile_key(None, "load 2026-11-26", "load.py"), (profile_key(None, "load 2026-11-25", "load.py"),), None),
        # the main file of a log, or the name of a program, is not always known
        ("load@load.py", ("load", "store@store.py"), "load"),
        ("load", ("load@load.py",), "load@load.py"),
        ("load@org.x.Main", ("load@a.jar",), "load@a.jar"),
        ("@load.py", ("one@load.py", "two@load.py"), "two@load.py"),
        # nothing is like it, or it is there
        ("load@load.py", ("store@store.py", "feed"), ""),
        ("7", ("8", "9@x.py"), ""),
        ("load@load.py", ("load@load.py", "load-1@load.py"), ""),
        ("", ("a@a.py",), ""),
        ("load@load.py", (), ""),
    ],
)
def test_the_profile_that_may_be_meant_is_the_one_of_the_same_main_file_or_name(
    key: str, known: tuple[str, ...], nearest: str | None
) -> None:
    nearest = known[0] if nearest is None else nearest
    hint = f"; if it is the job of profile {nearest!r} under another name, give --profile {nearest}"
    assert like_named(key, known) == (hint if nearest else "")


def test_a_name_that_a_shell_would_read_is_quoted() -> None:
    assert like_named("a@Main$", ["b@Main$"]).endswith("--profile 'b@Main$'")


@given(st.dates(), st.dates(), st.sampled_from(["load-{}", "{}_load", "load {} again", "{}"]))
def test_two_days_of_one_job_are_alike(one: object, other: object, name: str) -> None:
    keys = [profile_key(None, name.format(day), "load.py") for day in (one, other)]
    assert bool(like_named(keys[0], [keys[1]])) is (one != other)
