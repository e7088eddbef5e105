"""The patch of a pod that is due next, by orders of events that a server hardly ever brings about."""

from __future__ import annotations

from pathlib import Path

from controller.runtime.executor_record import PodRecord
from controller.runtime.kubernetes.api import PodLater
from controller.runtime.kubernetes.paced_pods import PacedPods
from controller.runtime.kubernetes.pod_cpu import CONTAINER, PodCpu
from controller.runtime.kubernetes.pod_resize import INTERVAL_S


def test_a_wish_that_is_refused_after_its_executor_was_let_go_delays_no_giving_back(tmp_path: Path) -> None:
    now_s = 10.0
    pods = PacedPods(lambda: now_s)
    owner = {"cluster_id": "cluster", "worker_id": "w1", "application_id": "app", "executor_id": "1"}
    with pods.changed:
        executor = pods.remember(tmp_path, PodRecord(**owner, uid="uid", namespace="jobs", slots=1, limit_m=500))
        pods.saw_all([PodCpu("uid", "jobs", "exec-1", CONTAINER, limit_m=300, in_force_m=300, request_m=10)])
        pods.want(executor, 0.45)
        wish = pods.due()
        assert wish is not None
        pods.let_go(executor)
        pods.book(wish, None, PodLater("odd", refused=True))
        now_s += INTERVAL_S
        given_back = pods.due()
    assert given_back is not None
    assert (wish.limit_m, given_back.limit_m) == (450, 500)
