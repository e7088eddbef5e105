"""Figures from the quota changes of recorded runs: how soon an agent's period raises a quota for the first stage, and how
many patches the same changes would be for pods that are resized over an API.

    python -m experiments.bench.quotas docs/results/homes-kubernetes

The figures are for applications that run by themselves: next to others a quota may be as it should be already. Runs without
quota changes are left out: folders of before 2026-11-25 have none. The patches are counted by the rules of
`controller.runtime.kubernetes.pod_resize` for a pod that takes each at once; no API server is asked.
"""

from __future__ import annotations

import argparse
import math
import statistics
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from controller.runs.run_folder import quotas_from, read_stages, read_summary
from controller.runtime.kubernetes import pod_resize
from controller.runtime.kubernetes.pod_cpu import PodCpu
from controller.wire.worker import OrderedQuota
from experiments.harness.result_folder import reading

BYTES = 1 << 30
"""Bytes, more than any table has."""
REQUEST_M = 100
"""CPU request of the pods of `homes-kubernetes`, thousandths of a core."""


def lag_s(first_stage_s: float, changes: Sequence[OrderedQuota]) -> float | None:
    """Return the seconds from the begin of the first stage to the first quota that is raised for it; None when no quota had
    to be raised. Times are seconds since submission."""
    raised = [q.time_s for q in changes if q.time_s >= first_stage_s and q.before is not None and q.cores > q.before]
    return min(raised) - first_stage_s if raised else None


def patches(changes: Sequence[OrderedQuota], request_m: int = REQUEST_M) -> int:
    """Return the number of patches of its pod that one executor's quota changes, in order of time, would be."""
    pod = PodCpu("uid", "jobs", "exec-1", "executor", request_m=request_m)
    has_m: int | None = None
    sent_s, count = -math.inf, 0
    for change, until_s in zip(changes, [*(c.time_s for c in changes[1:]), math.inf], strict=False):
        now_s = max(change.time_s, sent_s + pod_resize.INTERVAL_S)
        limit_m = pod_resize.goal(pod, change.cores)
        if now_s < until_s and pod_resize.differs(has_m, limit_m):
            has_m, sent_s, count = limit_m, now_s, count + 1
    return count


def _tell(folder: Path) -> str:
    lags, minutes, changed, patched = list[float](), 0.0, 0, 0
    with reading(folder) as found:
        for run in sorted(found.runs.iterdir()):
            changes, _ = quotas_from(run, 0, BYTES)
            summary, stages = read_summary(run), read_stages(run)
            if not changes or not stages or summary["deadline_s"] is None:
                continue
            by_executor = defaultdict[str, list[OrderedQuota]](list)
            for change in sorted(changes, key=lambda change: change.time_s):
                by_executor[change.executor_id].append(change)
            lag = lag_s(min(stage.start_s for stage in stages), changes)
            lags += [] if lag is None else [lag]
            minutes += summary["end_s"] / 60 * len(by_executor)
            changed += len(changes)
            patched += sum(patches(theirs) for theirs in by_executor.values())
    if not lags:
        return f"{folder}: no run with a deadline has quota changes"
    return (
        f"{folder}: n={len(lags)}; first stage to quota, ms: median {1000 * statistics.median(lags):.0f}, "
        f"most {1000 * max(lags):.0f}; a minute and executor: {changed / minutes:.1f} changes, "
        f"as patches {patched / minutes:.1f}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path, metavar="DIR", help="result folders, packed or not")
    for folder in parser.parse_args().folders:
        print(_tell(folder))


if __name__ == "__main__":
    main()
