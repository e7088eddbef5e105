"""An agent's options as `sparkpace up` would write them, for a master that does not run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from controller.options import AgentOptions


def agent_options(home: Path, **changed: Any) -> AgentOptions:
    """Make options of worker w1: two cores, plain processes."""
    plain = AgentOptions(
        home=home,
        worker_id="w1",
        cores=2.0,
        memory_mb=1024,
        runtime="process",
        period_s=1.0,
        floor=0.1,
        master_url="https://127.0.0.1:1",
    )
    return replace(plain, **changed)
