"""The patch of a pod that is due next, by orders of events that a server hardly ever brings about."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from controller.runtime.executor_record import PodRecord
from controller.runtime.kubernetes.api import PodLater
from controller.runtime.kubernetes.paced_pods import PacedPods
from controller.runtime.kubernetes.pod_cpu import CONTAINER, PodCpu
from controller.runtime.kubernetes.pod_resize import INTERVAL_S

OWNER: dict[str, Any] = {"cluster_id": "cluster", "worker_id": "w1", "application_id": "app", "executor_id": "1"}
RECORD = PodRecord(**OWNER, uid="uid", namespace="jobs", slots=1, limit_m=500)
POD = PodCpu("uid", "jobs", "exec-1", CONTAINER, limit_m=300, in_force_m=300, request_m=10)


def test_a_wish_that_is_refused_after_its_executor_was_let_go_delays_no_giving_back(tmp_path: Path) -> None:
    now_s = 10.0
    pods = PacedPods(lambda: now_s)
    with pods.changed:
        executor = pods.remember(tmp_path, RECORD)
        pods.saw_all([POD])
        pods.want(executor, 0.45)
        wish = pods.due()
        assert wish is not None
        pods.let_go(executor)
        pods.book(wish, None, PodLater("odd", refused=True))
        now_s += INTERVAL_S
        given_back = pods.due()
    assert given_back is not None
    assert (wish.limit_m, given_back.limit_m) == (450, 500)


def test_an_answer_that_shows_no_pod_makes_an_older_event_no_other_writers(tmp_path: Path) -> None:
    pods = PacedPods(lambda: 10.0)
    with pods.changed:
        executor = pods.remember(tmp_path, RECORD)
        pods.saw_all([POD])
        pods.want(executor, 0.45)
        patch = pods.due()
        assert patch is not None
        pods.book(patch, None)
        pods.saw(replace(POD, version=1), there=True)
        assert pods.show(executor).remark == ""
        pods.saw(replace(POD, version=2, limit_m=450), there=True)
        assert (pods.show(executor).remark, executor.unsure) == ("", False)
