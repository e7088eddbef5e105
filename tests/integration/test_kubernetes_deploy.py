"""deploy/kubernetes on a real cluster: the master as a Deployment, an agent on its node as a DaemonSet, a job they pace."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from controller.home import Home
from controller.submit.attaching import attach_settings
from tests.integration.kubernetes_cluster import Kubernetes
from tests.integration.kubernetes_deployed import deployed
from tests.integration.local_cluster import conf_words, eventually
from tests.integration.pacing import AIM, assert_paced, deadline_for

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.docker, pytest.mark.kubernetes]

JOB = ("stages.py", "--work", "40", "--tasks", "8", "--rounds", "3")


def test_a_job_is_paced_by_what_kustomize_deploys_and_nothing_stays(
    kubernetes: Kubernetes, executor_image: str, node_image: str, tmp_path: Path
) -> None:
    with deployed(kubernetes, node_image) as inside:
        home = Home(tmp_path / "home", inside.url)
        home.create()
        home.ca_file.write_text(inside.ca())
        home.submit_token_file.write_text(inside.submit_token())
        words = conf_words(attach_settings(home, home.need_cluster()))

        def run(*more: str) -> dict[str, Any]:
            job = kubernetes.spark_submit(Path(sys.executable), executor_image, *words, "--name", "deployed", *more, *JOB)
            assert job.finish().ok().answer["ok"]
            return inside.summary()

        taught = run()
        assert taught["executors"] == 2
        paced = run("--conf", f"spark.pace.deadline={deadline_for(taught['end_s']):.0f}s", *AIM)
        assert paced["app_id"] != taught["app_id"]
        assert paced["deadline_s"] is not None
        assert_paced(paced, ())
    eventually(lambda: not kubernetes.all("pods"), "the end of all pods")
