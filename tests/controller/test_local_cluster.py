"""The command of an agent carries what `up` was asked for."""

from __future__ import annotations

from pathlib import Path

from controller.home import Home
from controller.local_cluster import Plan


def test_an_agent_is_told_period_and_floor(tmp_path: Path) -> None:
    plan = Plan(
        workers=4,
        runtime="docker",
        cores_each=0.4,
        memory_mb_each=4096,
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
    words = plan.agent_command(Home(tmp_path), "w1")
    told = dict(zip(words[words.index("agent") + 1 :: 2], words[words.index("agent") + 2 :: 2], strict=True))
    assert (told["--cores"], told["--period"], told["--floor"]) == ("0.4", "0.5s", "0.05")
