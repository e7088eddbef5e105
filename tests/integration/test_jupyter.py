"""A notebook as Jupyter runs it, in a real kernel: its session is paced by the settings of `sparkpace conf`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.integration.local_cluster import LocalCluster
from tests.integration.pacing import AIM_SHARE, assert_paced, deadline_for

pytestmark = [pytest.mark.slow, pytest.mark.spark]

START = """\
import os
os.environ["PYSPARK_SUBMIT_ARGS"] = "--properties-file {file} pyspark-shell"
from pyspark.sql import SparkSession
spark = (
    SparkSession.builder.appName("book")
    .config("spark.pace.deadline", "{deadline}")
    .config("spark.pace.law.forecast.alpha", "{alpha}")
    .getOrCreate()
)
"""
WORK = """\
def burn(number):
    for i in range(1_000_000):
        number = (number * 31 + i) % 1_000_003
    return number
spark.sparkContext.parallelize(range(24), 8).map(burn).count()
"""
STOP = "spark.stop()"


def write_notebook(file: Path, *sources: str) -> None:
    cells: list[dict[str, Any]] = [
        {"cell_type": "code", "id": f"cell-{n}", "source": source, "metadata": {}, "outputs": [], "execution_count": None}
        for n, source in enumerate(sources)
    ]
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    file.write_text(json.dumps({"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": cells}))


def results(file: Path) -> list[str]:
    """Return the values of the cells of an executed notebook."""
    cells = json.loads(file.read_text())["cells"]
    outputs = [out for cell in cells for out in cell["outputs"] if out["output_type"] == "execute_result"]
    return ["".join(out["data"]["text/plain"]) for out in outputs]


def test_a_notebooks_session_keeps_its_deadline(process_cluster: LocalCluster, tmp_path: Path) -> None:
    book, settings = tmp_path / "book.ipynb", process_cluster.properties()
    own_folders = {
        name: str(tmp_path) for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "IPYTHONDIR")
    }

    def run(deadline: str) -> dict[str, Any]:
        write_notebook(book, START.format(file=settings, deadline=deadline, alpha=AIM_SHARE), WORK, STOP)
        program = Path(sys.executable).parent / "jupyter-execute"
        variables = {**own_folders, "PYSPARK_PYTHON": sys.executable}
        process_cluster.start([str(program), "--inplace", str(book)], variables, tmp_path).finish().ok()
        assert results(book) == ["24"]
        return process_cluster.summary("book")

    first = run("1h")
    assert (first["profile_runs"], first["taught"]) == (0, True)
    summary = run(f"{deadline_for(first['end_s']):.0f}s")
    assert summary["profile_runs"] == 1
    assert_paced(summary, process_cluster.samples(summary["app_id"]))
