"""A wheel, built from this checkout and installed where nothing of the checkout can be imported."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import sysconfig
import zipfile
from pathlib import Path

import pytest

from tests.integration.local_cluster import cluster_in

pytestmark = pytest.mark.spark

ROOT = Path(__file__).resolve().parents[2]
PAGERANK = ROOT / "experiments" / "workloads" / "pagerank.py"
UI = ("LICENSE.uPlot", "icon.svg", "index.html", "page.css", "page.js", "uPlot.esm.js", "uPlot.json", "uPlot.min.css")
OURS = ("controller", "dockerfiles", "master_memory", "placement", "stage_model")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    dist = tmp_path_factory.mktemp("dist")
    subprocess.run([sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(dist)], cwd=ROOT, check=True)
    (built,) = dist.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the Python of an environment with the wheel. Its dependencies are those of the tests: a .pth file puts their
    folder on the path, but .pth files in there, by which a checkout is installed, have no effect then."""
    environment = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    python = environment / "bin" / "python"
    pip = [sys.executable, "-m", "pip", "--python", str(python), "--disable-pip-version-check", "--quiet"]
    subprocess.run([*pip, "install", "--no-index", "--no-deps", str(wheel)], check=True)
    (site,) = environment.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return python


def run(words: list[str], cwd: Path) -> str:
    environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
    done = subprocess.run(words, cwd=cwd, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_wheel_has_one_name_at_its_top_and_carries_what_is_no_python(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    (information,) = {name.split("/")[0] for name in names} - {"sparkpace"}
    assert information.endswith(".dist-info")
    assert {name.split("/")[1] for name in names if name.startswith("sparkpace/")} == {"__init__.py", *OURS}
    assert {name.removeprefix("sparkpace/") for name in names if not name.endswith((".py", "py.typed"))} == {
        "controller/agent/executors/executor_classes.txt.gz",
        "controller/submit/driver_classes.txt.gz",
        "controller/jars/sparkpace-bridge.jar",
        *(f"dockerfiles/{name}" for name in ("compose.yaml", "engine.sh", "kubernetes.sh")),
        *(f"dockerfiles/{name}/Dockerfile" for name in ("executor", "node")),
        *(f"controller/ui/static/{name}" for name in UI),
        *(f"{information}/{name}" for name in ("METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE")),
        f"{information}/licenses/controller/ui/static/LICENSE.uPlot",
    }


def test_other_programs_find_no_package_of_sparkpace(python: Path, tmp_path: Path) -> None:
    find = f"import sparkpace, importlib.util as u; print([name for name in {OURS} if u.find_spec(name)])"
    assert run([str(python), "-c", find], tmp_path) == "[]\n"


def test_the_command_does_not_take_a_users_folders_for_its_own(python: Path, tmp_path: Path) -> None:
    for name in (*OURS, "click"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise SystemExit('not yours')\n")
    assert "Spark jobs that end on time" in run([str(python.parent / "sparkpace"), "--help"], tmp_path)
    (start,) = python.parents[1].glob("lib/python*/site-packages/sparkpace/controller/start.py")
    assert "Spark jobs that end on time" in run([str(python), str(start), "controller.cli.main", "--help"], tmp_path)


@pytest.mark.slow
def test_an_installed_sparkpace_runs_the_demos_job(python: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Files lie where class archives for the installed jar would be made: jobs run without archives, too.
    cache = tmp_path / "cache" / "sparkpace"
    cache.mkdir(parents=True)
    for archives in ("class-archives", "driver-archives"):
        (cache / archives).touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache.parent))
    graph, draw = tmp_path / "graph.txt", random.Random(1)
    graph.write_text("".join(f"{draw.randrange(30)} {draw.randrange(30)}\n" for _ in range(200)))
    with cluster_in(tmp_path, "process", "--workers", "1", program=(str(python.parent / "sparkpace"),)) as cluster:
        # the first run of its name, so it takes what is free and does not wait for its deadline
        small = ("--copies", "2", "--iterations", "2", "--partitions", "2")
        assert cluster.run("--deadline", "10min", str(PAGERANK), str(graph), *small).ok().answer["ok"]
        summary = json.loads(cluster.command("report", "last", "--output", "json").stdout)
        assert (summary["deadline_s"], summary["runtime"]) == (600, "process")
