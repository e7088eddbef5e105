"""A real Airflow runs a DAG whose operator finds the `spark-submit` of `sparkpace shim` before a real one."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from tests.integration.conftest import STAGES
from tests.integration.local_cluster import APPS, Job, LocalCluster, eventually
from tests.integration.pacing import assert_paced, deadline_for
from tests.integration.test_process_runtime import executors_of

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.airflow]

DAGS = Path(__file__).parent / "airflow"
REAL = Path(sys.executable).parent
"""Folder of the real spark-submit."""

Run = Callable[[str, Sequence[str]], Job]


@pytest.fixture(scope="module")
def settings(process_home: LocalCluster, airflow: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Make Airflow's database, which takes longer than a DAG; provide the variables that name it."""
    variables = {
        "AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow")),
        "AIRFLOW__CORE__DAGS_FOLDER": str(DAGS),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
    }
    process_home.start([str(airflow), "db", "migrate"], variables).finish().ok()
    return variables


@pytest.fixture
def dag(process_cluster: LocalCluster, airflow: Path, settings: dict[str, str], tmp_path: Path) -> Run:
    """Provide a function that runs the DAG as `airflow dags test` does, with this deadline and job."""
    process_cluster.command("shim", str(tmp_path / "shim"))
    known = process_cluster.cluster()
    connection = {"conn_type": "spark", "host": f"sparkpace://{known.host}", "port": known.port}
    variables = {
        **settings,
        "PATH": f"{tmp_path / 'shim'}:{REAL}:{os.environ['PATH']}",
        "AIRFLOW_CONN_SPARK_DEFAULT": json.dumps(connection),
    }

    def run(deadline: str, job: Sequence[str]) -> Job:
        words = (str(APPS / job[0]), *job[1:])
        return process_cluster.start(
            [str(airflow), "dags", "test", "nightly"], variables | {"DEADLINE": deadline, "JOB": shlex.join(words)}
        )

    return run


def test_an_operators_job_keeps_its_deadline(process_cluster: LocalCluster, dag: Run) -> None:
    process_cluster.run("--name", "report", *STAGES).ok()
    first = process_cluster.summary("report")
    dag(f"{deadline_for(first['end_s']):.0f}s", STAGES).finish().ok()
    summary = process_cluster.summary("report")
    assert (summary["profile"], summary["profile_runs"]) == (first["profile"], first["profile_runs"] + 1)
    assert (summary["priority"], summary["taught"]) == (100, True)
    assert_paced(summary, process_cluster.samples(summary["app_id"]))


def test_a_killed_task_ends_its_driver_and_executors(process_cluster: LocalCluster, dag: Run, stop_file: Path) -> None:
    task = dag("1h", ("rounds.py", str(stop_file)))
    view = process_cluster.running("report", executors=1)
    task.process.send_signal(signal.SIGTERM)
    assert task.finish().code != 0
    eventually(lambda: not executors_of(view.application_id), "the end of the executors")
    assert process_cluster.summary("report")["end_reason"] == "its driver died"
