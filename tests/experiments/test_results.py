"""The committed results: each folder can be read by today's code, and goals.json is what they show."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from experiments.harness import goals
from experiments.result_folder import reading

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
FOLDERS = sorted(path for path in RESULTS.iterdir() if path.is_dir())


def test_goals_are_those_of_the_folders() -> None:
    shown = []
    for folder in FOLDERS:
        with reading(folder) as results:
            shown += goals(results)
    assert msgspec.json.decode((RESULTS / "goals.json").read_bytes()) == shown
    assert len(shown) >= 12


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_is_told_of_and_has_no_path_of_a_machine(folder: Path) -> None:
    assert f"[{folder.name}]({folder.name}/report.md)" in (RESULTS / "README.md").read_text()
    with reading(folder) as results:
        texts = [path for path in results.data_path.rglob("*") if path.is_file()]
        assert texts
        for path in (*texts, *folder.glob("*.md"), *folder.glob("*.json")):
            # a stage's call site, where Spark has the script's whole path
            assert " at /" not in path.read_text(), path


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_committed_folder_is_packed(folder: Path) -> None:
    beside = {path.name for path in folder.iterdir() if path.suffix != ".png"} - {"withdrawn.json"}
    assert beside == {"report.md", "data.tar.xz"}
