"""deploy/kubernetes on a real cluster: the master as a Deployment, an agent on its node as a DaemonSet, a job they pace.

Not covered: a deadline that is kept there (`test_kubernetes_driver`).
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from controller.home import Home
from controller.submit.bridge_jar import attach_settings
from tests.integration.kubernetes_cluster import Kubernetes
from tests.integration.kubernetes_deployed import InMaster, deployed
from tests.integration.local_cluster import conf_words, eventually
from tests.integration.test_failures import assert_unharmed
from tests.integration.test_kubernetes_node_mode import group_of, quota

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.docker, pytest.mark.kubernetes]

SMALL = ("stages.py", "--work", "5", "--tasks", "4")
HALF = ("--conf", "spark.pace.law=constant", "--conf", "spark.pace.law.constant.cores=0.5")
"""Half a core for both executors together, while an agent or master knows the deadline."""


def processes(pod: Mapping[str, Any]) -> list[psutil.Process]:
    """Return the processes of a pod, as this machine sees them."""
    uid = pod["metadata"]["uid"]
    found = []
    for process in psutil.process_iter():
        with suppress(OSError):
            if uid in Path(f"/proc/{process.pid}/cgroup").read_text():
                found.append(process)
    return found


@contextmanager
def stopped(pod: Mapping[str, Any]) -> Iterator[None]:
    """Suspend the pod's processes: it takes connections and answers no one."""
    held = processes(pod)
    assert held
    for process in held:
        process.suspend()
    try:
        yield
    finally:
        for process in held:
            with suppress(psutil.NoSuchProcess):
                process.resume()


def client_words(inside: InMaster, home: Home) -> list[str]:
    """Return the options of a job whose driver is on this machine."""
    home.create()
    home.ca_file.write_text(inside.ca())
    home.submit_token_file.write_text(inside.submit_token())
    return conf_words(attach_settings(home, home.need_cluster()))


def test_an_agents_successor_in_a_new_pod_goes_on_while_the_master_is_away(
    kubernetes: Kubernetes, executor_image: str, node_image: str, tmp_path: Path
) -> None:
    """The agent is killed so hard that its pod goes with it: only the records on its node hold what it knew."""
    with deployed(kubernetes, node_image) as inside:
        words = client_words(inside, Home(tmp_path / "home", inside.url))
        go_on = tmp_path / "go-on"
        more = ("--name", "held", "--conf", "spark.pace.deadline=2h", *HALF, *SMALL, "--hold", str(go_on))
        job = kubernetes.spark_submit(Path(sys.executable), executor_image, *words, *more)
        groups = [eventually(partial(group_of, pod), "an executor") for pod in kubernetes.running("spark-role=executor", 2)]

        def paced() -> bool:
            return all(quota(group) <= 0.25 for group in groups)

        eventually(paced, "a quarter of a core for each at most")
        # what an agent has not handed over dies with it: the summary counts between the samples that the master has
        sampled = eventually(partial(inside.sampled, "held", more_than=Counter()), "a sample of each")
        [agent] = kubernetes.running("app=sparkpace-agent", 1)
        with stopped(inside.pod):
            with stopped(agent):  # so it cannot let go of anybody
                kubernetes.kubectl("delete", "pod", agent["metadata"]["name"], "--force", "--grace-period=0")
                eventually(lambda: not processes(agent), "the end of the agent")
            # no one here knows its deadline
            eventually(lambda: all(quota(group) > 0.25 for group in groups), "more than its law gives it for each")
            [successor] = kubernetes.running("app=sparkpace-agent", 1)
            assert successor["metadata"]["uid"] != agent["metadata"]["uid"]
        eventually(paced, "a quarter of a core for each at most again")
        eventually(partial(inside.sampled, "held", more_than=sampled), "a sample of each by the successor")
        go_on.touch()
        assert job.finish().ok().answer["ok"]
        assert_unharmed(inside.summary("held"), inside.summary("held")["app_id"])
    eventually(lambda: not kubernetes.all("pods"), "the end of all pods")
