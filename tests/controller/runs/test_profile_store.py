from __future__ import annotations

import multiprocessing
import re
import stat
from pathlib import Path

import pytest

from controller.runs.profile_store import ProfileStore
from stage_model.errors import BadInput
from stage_model.history.profile import RUNS_KEPT, profile
from tests.fakes.records import run, stage


def test_what_was_learned_is_loaded_again(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path / "profiles")
    assert store.list() == ()
    assert store.load("app@app.py") is None
    store.learn("app@app.py", run("one", 1, stage("s")))
    store.learn("app@app.py", run("two", 2, stage("s")))
    known = ProfileStore(tmp_path / "profiles").load("app@app.py")
    assert known is not None
    assert [r.id for r in known.runs] == ["one", "two"]
    assert store.list() == ("app@app.py",)


def test_only_the_user_can_read_the_files_and_nothing_else_is_left(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path / "profiles")
    store.learn("k", run("one"))
    assert stat.S_IMODE((tmp_path / "profiles").stat().st_mode) == 0o700
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "profiles").iterdir()}
    assert modes == {"k.json": 0o600, ".lock": 0o600}


def test_a_run_that_failed_teaches_nothing(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="one"):
        ProfileStore(tmp_path).learn("k", run("one", complete=False))
    assert ProfileStore(tmp_path).list() == ()


def test_forgetting(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    store.learn("k", run("one"))
    assert store.forget("k")
    assert not store.forget("k")
    assert store.list() == ()


def test_a_profile_from_elsewhere_merges_in(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    store.learn("k", run("here", 1))
    merged = store.add(profile("k", [run("there", 2), run("here", 1)]))
    assert [r.id for r in merged.runs] == ["here", "there"]
    assert store.load("k") == merged


@pytest.mark.parametrize("content", ["{", '{"version": 9}', "", '{"version": 1, "key": "other"}'])
def test_a_damaged_file_is_named_and_never_overwritten(tmp_path: Path, content: str) -> None:
    store = ProfileStore(tmp_path)
    (tmp_path / "k.json").write_text(content)
    with pytest.raises(BadInput, match=re.escape(str(tmp_path / "k.json"))):
        store.load("k")
    with pytest.raises(BadInput, match=re.escape(str(tmp_path / "k.json"))):
        store.learn("k", run("one"))
    assert (tmp_path / "k.json").read_text() == content
    assert store.forget("k")


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("{}")
    (tmp_path / "k.json").symlink_to(tmp_path / "secret")
    with pytest.raises(BadInput, match=r"k.json"):
        ProfileStore(tmp_path).load("k")


@pytest.mark.parametrize("wild", ["../outside", "/etc/passwd", "..", "a/b"])
def test_no_key_leads_out_of_the_folder(tmp_path: Path, wild: str) -> None:
    store = ProfileStore(tmp_path / "profiles")
    store.learn(wild, run("one"))
    assert store.path(wild).parent == tmp_path / "profiles"
    assert [p.name for p in tmp_path.iterdir()] == ["profiles"]
    assert store.load(wild) is not None
    assert store.load(store.list()[0]) == store.load(wild)


def _learn(folder: Path, number: int) -> None:
    store = ProfileStore(folder)
    for turn in range(2):
        store.learn("k", run(f"{number}.{turn}"))


def test_runs_that_end_at_the_same_time_are_all_kept(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_learn, args=(tmp_path, number)) for number in range(4)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    known = ProfileStore(tmp_path).load("k")
    assert known is not None
    assert {r.id for r in known.runs} == {f"{number}.{turn}" for number in range(4) for turn in range(2)}


def test_a_run_that_has_just_ended_is_the_newest_though_the_clock_was_set_back(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    for number in range(RUNS_KEPT):
        store.learn("k", run(f"old {number}", when_ms=1000 + number))
    store.learn("k", run("new", when_ms=7), newest=True)
    again = store.learn("k", run("new", when_ms=7), newest=True)
    assert [one.id for one in again.runs] == [*(f"old {number}" for number in range(1, RUNS_KEPT)), "new"]
    assert again.runs[-1].when_ms == 1000 + RUNS_KEPT


def test_a_run_with_impossible_numbers_teaches_nothing_and_spoils_nothing(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path)
    known = store.learn("k", run("r1", 1, stage("a")))
    for wrong in (stage("a", records=-5), stage("a", task_cv=-1.0), stage("b", parents=("a",))):
        with pytest.raises(BadInput, match="'k'"):
            store.learn("k", run("r2", 2, wrong))
    assert store.load("k") == known
