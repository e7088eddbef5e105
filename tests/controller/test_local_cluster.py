"""The command of an agent carries what `up` was asked for."""

from __future__ import annotations

from pathlib import Path

from controller.local_cluster import Plan, WorkerPlan


def test_an_agent_is_told_period_and_floor(tmp_path: Path) -> None:
    plan = Plan(
        workers=(WorkerPlan("w1", 0.4, 4096, ("--labels", "zone=a")),),
        runtime="docker",
        host="127.0.0.1",
        port=7070,
        insecure=False,
        period_s=0.5,
        floor=0.05,
        allow_mounts=(),
        image=None,
        law="forecast",
        keep_runs=10,
    )
    words = plan.agent_words(plan.workers[0])
    assert words[0] == "agent"
    told = dict(zip(words[1::2], words[2::2], strict=True))
    assert (told["--cores"], told["--period"], told["--floor"]) == ("0.4", "0.5s", "0.05")
    assert (told["--worker-id"], told["--memory"], told["--labels"]) == ("w1", "4096", "zone=a")
