"""Savings that were predicted from watched runs, next to what the same jobs saved when they were paced afterwards.

Each job runs twice by itself and only watched (`submit --observe`), then paced, once with each deadline. A deadline is the
mean time of the watched runs, stretched. The prediction is that of `sparkpace savings` for the second watched run, as if it
had had that deadline. The real saving is what this run held less what the paced run held. Executors are Docker containers.

    python -m experiments.bench.savings --out out/savings [--only JOB]
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from controller.runs.profile_store import ProfileStore
from controller.runs.run_folder import read_samples
from controller.runs.watched_runs import held_and_used
from experiments.harness.local_cluster import LocalCluster
from experiments.harness.recorded import JobRecord, Order
from stage_model.forecast.saving import watched_saving
from stage_model.history.held import Held

STRETCHES = (1.2, 1.5)
WATCHED = 2
WITHIN = 0.1
"""Limit, written down before any run: the sums of predicted and of real savings differ by at most this share of what the
watched runs held."""
LIMIT_S = 600.0
JOBS = {
    "group_by": ("group_by.py", "--millions", "54"),
    "kmeans": ("kmeans.py", "--millions", "1.15"),
    "pagerank": ("pagerank.py", "{out}/graph.txt", "--copies", "8"),
    "als": ("als.py", "--users", "3000", "--models", "2"),
    "sql_aggregate": ("sql_aggregate.py", "--millions", "14"),
    "small_queries": ("small_queries.py", "--queries", "30", "--millions", "2"),
}


class SavingRow(msgspec.Struct, frozen=True, kw_only=True):
    """A job with a deadline, in seconds and core-seconds: what its watched run held and used, what its paced run held
    (`paced_core_s`) and used, and the predicted saving with its interval."""

    job: str
    deadline_s: float
    paced_end_s: float
    held_core_s: float
    used_core_s: float
    paced_core_s: float
    paced_used_core_s: float
    predicted_core_s: float
    least_core_s: float | None
    most_core_s: float | None

    @property
    def saved_core_s(self) -> float:
        """Return the real saving; it is negative where the paced run held more."""
        return self.held_core_s - self.paced_core_s

    @property
    def in_interval(self) -> bool:
        return (
            self.least_core_s is not None
            and self.most_core_s is not None
            and (self.least_core_s <= self.saved_core_s <= self.most_core_s)
        )


def totals(rows: Sequence[SavingRow]) -> dict[str, Any]:
    """Return the sums over all rows, and whether they keep the limit."""
    held, predicted, real = (
        math.fsum(values)
        for values in (
            (row.held_core_s for row in rows),
            (row.predicted_core_s for row in rows),
            (row.saved_core_s for row in rows),
        )
    )
    return {
        "held_core_s": held,
        "predicted_core_s": predicted,
        "saved_core_s": real,
        "in_interval": sum(row.in_interval for row in rows),
        "n": len(rows),
        "met": abs(predicted - real) <= WITHIN * held,
    }


def watch_and_pace(cluster: LocalCluster, job: str, words: tuple[str, ...]) -> list[SavingRow]:
    """Run a job watched and paced. Raise `SystemExit` if a run fails."""
    order = Order(job, words, options=("--observe",))
    watched = [_run(cluster, f"{job}-watched-{number}", order) for number in range(WATCHED)]
    base_s = statistics.fmean(run.summary["end_s"] for run in watched)
    last = watched[-1]
    held, used_core_s = _held_and_used_by(cluster, last)
    rows = []
    for stretch in STRETCHES:
        deadline_s = round(stretch * base_s, 2)
        paced = _run(cluster, f"{job}-{stretch:g}", Order(job, words, deadline_s))
        known = ProfileStore(cluster.home.profiles).load(last.summary["profile"])
        if known is None:
            raise SystemExit(f"the watched runs of {job} taught no profile; see {cluster.logs}")
        found = watched_saving(known, last.app_id, held, deadline_s)
        paced_held, paced_used_core_s = _held_and_used_by(cluster, paced)
        rows.append(
            SavingRow(
                job=job,
                deadline_s=deadline_s,
                paced_end_s=paced.summary["end_s"],
                held_core_s=held.core_s,
                used_core_s=used_core_s,
                paced_core_s=paced_held.core_s,
                paced_used_core_s=paced_used_core_s,
                predicted_core_s=found.saved_core_s,
                least_core_s=found.least_core_s,
                most_core_s=found.most_core_s,
            )
        )
        print(msgspec.json.encode(rows[-1]).decode(), flush=True)
    return rows


def _run(cluster: LocalCluster, step: str, order: Order) -> JobRecord:
    cluster.prepare([order])
    [record] = cluster.perform(step, [order], limit_s=LIMIT_S)
    if record.exit_code:
        raise SystemExit(f"{step} ended with {record.exit_code}; the logs are in {cluster.logs}")
    return record


def _held_and_used_by(cluster: LocalCluster, run: JobRecord) -> tuple[Held, float]:
    return held_and_used(read_samples(cluster.home.runs / run.app_id), run.summary["end_s"])


def written(rows: Iterable[SavingRow]) -> list[Mapping[str, Any]]:
    """Return the rows with their real savings."""
    return [{**msgspec.to_builtins(row), "saved_core_s": row.saved_core_s} for row in rows]


def main() -> None:
    parser = argparse.ArgumentParser(description="Predicted savings of watched runs, next to real ones.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=sorted(JOBS))
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    cluster = LocalCluster(out)
    rows: list[SavingRow] = []
    with cluster.running(("--workers", "2", "--runtime", "docker")):
        for job in [given.only] if given.only else JOBS:
            rows += watch_and_pace(cluster, job, JOBS[job])
    (out / "savings.json").write_text(json.dumps({**totals(rows), "rows": written(rows)}, indent=1) + "\n")
    print(json.dumps(totals(rows)))


if __name__ == "__main__":
    main()
