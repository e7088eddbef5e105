"""The committed results: each folder can be read by today's code, and goals.json is what they show."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from experiments.harness import goals
from experiments.result_folder import ResultFolder

RESULTS = Path(__file__).resolve().parents[2] / "docs" / "results"
FOLDERS = sorted(path.parent for path in RESULTS.glob("*/settings.json"))


def test_goals_are_those_of_the_folders() -> None:
    shown = [goal for folder in FOLDERS for goal in goals(ResultFolder(folder))]
    assert msgspec.json.decode((RESULTS / "goals.json").read_bytes()) == shown
    assert len(shown) >= 12


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_folder_is_told_of_and_has_no_path_of_a_machine(folder: Path) -> None:
    assert f"[{folder.name}]({folder.name}/report.md)" in (RESULTS / "README.md").read_text()
    for path in (p for p in folder.rglob("*") if p.suffix in (".json", ".jsonl", ".csv", ".md")):
        # a stage's call site, where Spark has the script's whole path
        assert " at /" not in path.read_text(), path
