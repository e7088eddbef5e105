"""Run folders: samples as they come, the summary at the end, only the newest kept."""

from __future__ import annotations

import os
import time
from pathlib import Path

import msgspec

from controller.master.storage.recorder import Recorder
from controller.runs.run_folders import find_run
from tests.fakes.views import sample

SAMPLE = sample(1.0, application_id="a", stage=2, progress=0.5)


def test_samples_go_to_their_own_run(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, 10)
    for name in ("a", "b"):
        recorder.begin(name)
    recorder.add("a", [SAMPLE])
    recorder.add("b", [msgspec.structs.replace(SAMPLE, application_id="b", time_s=2.0)])
    recorder.add("a", [msgspec.structs.replace(SAMPLE, time_s=3.0)])
    assert [s.time_s for s in recorder.samples("a")] == [1.0, 3.0]
    assert [s.time_s for s in recorder.samples("b")] == [2.0]


def test_samples_of_a_removed_run_are_dropped(tmp_path: Path) -> None:
    Recorder(tmp_path, 10).add("a", [SAMPLE])
    assert list(tmp_path.iterdir()) == []


def test_a_folder_is_the_owners_only_and_beginning_twice_is_fine(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, 10)
    recorder.begin("a")
    recorder.begin("a")
    assert recorder.folder("a").stat().st_mode & 0o777 == 0o700


def test_only_the_newest_finished_runs_are_kept(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, 2)
    recorder.begin("running")
    removed = []
    for age, name in enumerate(("first", "second", "third")):
        recorder.begin(name)
        removed = recorder.finish(name, {"app_id": name}, [])
        os.utime(recorder.folder(name) / "summary.json", (1000 + age, 1000 + age))
    assert removed == ["first"]
    assert {p.name for p in tmp_path.iterdir()} == {"running", "second", "third"}


def test_a_clock_that_was_set_back_makes_no_new_run_look_old(tmp_path: Path) -> None:
    recorder = Recorder(tmp_path, 2)
    to_come = time.time() + 86_400  # the two before ended when the clock was a day fast
    for age, name in enumerate(("first", "second")):
        recorder.begin(name)
        recorder.finish(name, {"app_id": name}, [])
        os.utime(recorder.folder(name) / "summary.json", (to_come + age, to_come + age))
    recorder.begin("third")
    assert recorder.finish("third", {"app_id": "third"}, []) == ["first"]
    assert find_run(tmp_path, "last", ended=True).application_id == "third"
