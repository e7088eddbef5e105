"""The committed results: each folder can be read by today's code, and goals.json is what they show."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import pytest

from experiments.harness.experiment import goals
from experiments.harness.result_folder import reading

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
def test_a_folder_is_listed_and_has_no_path_of_a_machine(folder: Path) -> None:
    assert f"[{folder.name}]({folder.name}/report.md)" in (RESULTS / "README.md").read_text()
    with reading(folder) as results:
        texts = [path for path in results.data_path.rglob("*") if path.is_file()]
        assert texts
        for path in (*texts, *folder.glob("*.md"), *folder.glob("*.json")):
            # a stage's call site, where Spark has the script's whole path
            assert " at /" not in path.read_text(), path


def test_the_table_of_homes_is_put_together_from_their_reports() -> None:
    reports = [(folder / "report.md").read_text() for folder in FOLDERS if folder.name.startswith("homes")]
    columns, *rows = dict.fromkeys(line for text in reports for line in table_below("All applications together:", text))
    shown_columns, *shown = table_below("## Homes", (RESULTS / "README.md").read_text())
    assert shown_columns == columns
    assert sorted(shown) == sorted(rows)


def table_below(heading: str, text: str) -> list[str]:
    lines = text.partition(f"{heading}\n")[2].splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("| "))
    return list(itertools.takewhile(lambda line: line.startswith("| "), lines[first:]))


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_a_committed_folder_is_packed(folder: Path) -> None:
    others = {path.name for path in folder.iterdir() if path.suffix != ".png"} - {"withdrawn.json", "explained.json"}
    assert others == {"report.md", "data.tar.xz"}


@pytest.mark.parametrize("path", sorted(RESULTS.glob("*/withdrawn.json")), ids=lambda path: path.parent.name)
def test_what_is_withdrawn_is_in_the_folder_and_named_in_its_report(path: Path) -> None:
    with reading(path.parent) as results:
        data = results.data()
    step_of = {job.app_id: step.step for step in data.steps.values() for job in step.jobs}
    assert data.withdrawn.runs, "a file without a run withdraws nothing"
    steps = {step_of[run] for run in data.withdrawn.runs}
    named = ", ".join(step for step in data.steps if step in steps)
    said = f"Withdrawn, {len(steps)} of {len(data.steps)} runs: {named}. Why: {data.withdrawn.why}."
    assert said in (path.parent / "report.md").read_text()
