"""Which application an executor belongs to, as its command line tells; real shares: tests/integration/test_standalone.py."""

from __future__ import annotations

from experiments.cpu_shares import application_of

EXECUTOR = ["java", "-cp", "x", "org.apache.spark.executor.CoarseGrainedExecutorBackend", "--cores", "1", "--app-id", "app-7"]


def test_an_executors_command_line_names_its_application_and_others_name_none() -> None:
    assert application_of([*EXECUTOR, "--worker-url", "spark://w"]) == "app-7"
    assert application_of(["java", "org.apache.spark.deploy.worker.Worker", "--cores", "4"]) == ""
    assert application_of(EXECUTOR[:-1]) == ""
    assert application_of([]) == ""
