"""Inputs are made once, whole or not at all; an unknown name is refused."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from experiments.workloads import inputs
from experiments.workloads.inputs import prepare_inputs
from stage_model.errors import BadInput

TOOL = """#!{python}
import pathlib, sys
folder = pathlib.Path(sys.argv[sys.argv.index("--output-dir") + 1])
folder.mkdir()
(folder / "scale").write_text(sys.argv[1] + " " + sys.argv[sys.argv.index("--scale-factor") + 1])
sys.exit(1 if (folder.parent / "broken").exists() else 0)
"""


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide a generator that only says which scale it was asked for."""
    path = tmp_path / "tpcgen-cli"
    path.write_text(TOOL.format(python=sys.executable))
    path.chmod(0o755)
    monkeypatch.setattr(inputs, "find_tool", lambda: str(path))
    return path


def test_what_the_words_name_is_made_once(tmp_path: Path, tool: Path) -> None:
    words = ("tpch.py", "{out}/tpch-0.5", "{out}/tpcds-2", "{out}/graph.txt", "--copies", "9")
    prepare_inputs(tmp_path, words)
    assert (tmp_path / "tpch-0.5" / "scale").read_text() == "tpch 0.5"
    assert (tmp_path / "tpcds-2" / "scale").read_text() == "tpcds 2"
    graph = (tmp_path / "graph.txt").read_text().splitlines()
    assert all(len(line.split()) == 2 for line in graph[:100])
    (tmp_path / "graph.txt").write_text("kept")
    tool.unlink()
    prepare_inputs(tmp_path, words)
    assert (tmp_path / "graph.txt").read_text() == "kept"


def test_files_lie_on_the_hosts_that_their_folders_name_and_the_answer_of_a_scan_next_to_them(tmp_path: Path) -> None:
    prepare_inputs(tmp_path, ["hosted://{out}/hosted-1-127.0.0.2_127.0.0.3+127.0.0.4"])
    folder = tmp_path / "hosted-1-127.0.0.2_127.0.0.3+127.0.0.4"
    assert sorted(path.name for path in folder.iterdir()) == ["127.0.0.2_127.0.0.3", "127.0.0.4"]
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    assert [path.name for path in files] == [f"part-{number}" for number in range(4)] * 2
    # a million bytes in lines of 64, shared by eight files
    assert {path.stat().st_size for path in files} == {64 * 1953}
    lines, _ = json.loads((tmp_path / f"{folder.name}.json").read_text())
    assert lines == 8 * 1953


def test_half_an_input_is_none(tmp_path: Path, tool: Path) -> None:
    (tmp_path / "broken").touch()
    with pytest.raises(BadInput, match=r"tpcgen-cli .* 1: .* 1"):
        prepare_inputs(tmp_path, ["{out}/tpch-1"])
    assert not (tmp_path / "tpch-1").exists()
    (tmp_path / "broken").unlink()
    prepare_inputs(tmp_path, ["{out}/tpch-1"])
    assert (tmp_path / "tpch-1" / "scale").exists()


def test_another_name_is_refused(tmp_path: Path) -> None:
    for name in ("graph.csv", "tpch-", "tpch-1x", "tpcdi-1", "spark-data-0-a.txt", "spark-data-2"):
        with pytest.raises(BadInput, match=r"graph\.txt, hosted\.jar, eventlogs, tpch-SCALE, "):
            prepare_inputs(tmp_path, [f"{{out}}/{name}"])


def test_without_the_generator_one_sentence_says_where_it_comes_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(inputs, "find_tool", lambda: None)
    with pytest.raises(BadInput, match=r"tpcgen-cli .*sparkpace\[experiments\]"):
        prepare_inputs(tmp_path, ["{out}/tpch-1"])


def test_a_file_of_the_data_of_the_examples_is_repeated_line_by_line(tmp_path: Path) -> None:
    prepare_inputs(tmp_path, ["{out}/spark-data", "{out}/spark-data-3-kmeans_data.txt"])
    once, often = (tmp_path / name / "data" / "mllib" for name in ("spark-data", "spark-data-3-kmeans_data.txt"))
    lines = (once / "kmeans_data.txt").read_text().splitlines()
    assert len(lines) == 6
    assert (often / "kmeans_data.txt").read_text() == 3 * "".join(f"{line}\n" for line in lines)
    names = {path.name for path in once.rglob("*.txt")}
    assert {path.name for path in often.rglob("*.txt")} == names
    assert (often / "gmm_data.txt").read_bytes() == (once / "gmm_data.txt").read_bytes()


def test_a_file_that_the_examples_lack_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r" 0 .*none\.txt"):
        prepare_inputs(tmp_path, ["{out}/spark-data-3-none.txt"])
    assert not (tmp_path / "spark-data-3-none.txt").exists()
