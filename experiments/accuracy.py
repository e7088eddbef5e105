"""How close to their deadlines do jobs end? Each run with a deadline goes beside one at an oracle's constant quota.

For every job: base = its time on all cores; then, for each stretch, pairs of a run with deadline = base * stretch under
default settings and a run at the constant quota that an oracle would choose (corrected from its own runs). The constant
runs' spread is the machine's noise. Results go to `accuracy.jsonl`, one run a line; a repeated call goes on where it was.

    python -m experiments.accuracy --out out/accuracy [--runs 5] [--jobs pagerank,sort_by_key,sql_aggregate]
"""

from __future__ import annotations

import argparse
import json
import lzma
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from experiments.local_cluster import WORKLOADS, Sparkpace
from experiments.workloads.pagerank import DATA

STRETCHES = (1.2, 1.5)
JOBS: dict[str, tuple[str, ...]] = {
    "pagerank": ("pagerank.py", "{out}/graph.txt", "--copies", "9"),
    "sort_by_key": ("sort_by_key.py",),
    "sql_aggregate": ("sql_aggregate.py", "--millions", "125"),
}
"""Each takes at least 60 s on 1.7 cores of the machine they were sized on."""


@dataclass(frozen=True, slots=True)
class Run:
    """One line of results. `kind` is base, paced or constant."""

    job: str
    kind: str
    stretch: float
    number: int
    summary: dict[str, Any]

    @property
    def key(self) -> tuple[str, str, float, int]:
        return (self.job, self.kind, self.stretch, self.number)


class Accuracy:
    """Runs what is missing in `out`. `runs` pairs per job and stretch, `bases` base runs per job."""

    def __init__(self, out: Path, runs: int, bases: int, runtime: str, law: str, options: Sequence[str]) -> None:
        self.out, self.runs, self.bases, self.runtime = out, runs, bases, runtime
        self.law, self.options = law, tuple(options)
        self.sparkpace = Sparkpace(out / "home", out)
        self.done: dict[tuple[str, str, float, int], Run] = {}

    def measure(self, jobs: Sequence[str]) -> None:
        self.out.mkdir(parents=True, exist_ok=True)
        (self.out / "graph.txt").write_bytes(lzma.decompress(DATA.read_bytes()))
        self.done = {run.key: run for run in read(self.out)}
        self._sparkpace("up", "--workers", "2", "--runtime", self.runtime, "--port", "0")
        try:
            for job in jobs:
                for number in range(self.bases):
                    self._once(job, "base", 1.0, number, ())
            for number in range(self.runs):
                for job in jobs:
                    for stretch in STRETCHES:
                        self._pair(job, stretch, number)
        finally:
            self._sparkpace("down")

    def _pair(self, job: str, stretch: float, number: int) -> None:
        deadline_s = stretch * self._base_s(job)
        deadline = ("--deadline", f"{deadline_s:.2f}s")
        self._once(job, "paced", stretch, number, (*deadline, "--law", self.law, "--force"))
        cores = self._oracle(job, stretch, deadline_s)
        constant = ("--law", "constant", "--conf", f"spark.pace.law.constant.cores={cores:.3f}", "--force")
        self._once(job, "constant", stretch, number, (*deadline, *constant))

    def _base_s(self, job: str) -> float:
        return float(statistics.median(run.summary["end_s"] for run in self.done.values() if run.key[:2] == (job, "base")))

    def _oracle(self, job: str, stretch: float, deadline_s: float) -> float:
        """The constant cores that end at the deadline, as far as the runs before show: work / (deadline - fixed time)."""
        before = [r.summary for r in self.done.values() if r.key[:3] == (job, "constant", stretch)]
        if not before:
            used = [r.summary for r in self.done.values() if r.key[:3] == (job, "paced", stretch)]
            span_s = statistics.median(s["last_task_s"] - s["first_task_s"] for s in used)
            return float(statistics.median(s["allocated_core_s"] for s in used) / span_s)
        guesses = []
        for summary in before:
            span_s = summary["last_task_s"] - summary["first_task_s"]
            wanted_s = span_s + deadline_s - summary["end_s"]
            guesses.append(summary["settings"]["constant.cores"] * span_s / max(1.0, wanted_s))
        return float(min(1.7, statistics.median(guesses)))

    def _once(self, job: str, kind: str, stretch: float, number: int, options: Sequence[str]) -> None:
        if (job, kind, stretch, number) in self.done:
            return
        script, *words = (word.format(out=self.out) for word in JOBS[job])
        log = self.out / f"{job}-{kind}-{stretch}-{number}.log"
        self._sparkpace("submit", *options, *self.options, str(WORKLOADS / script), *words, log=log)
        run = Run(job, kind, stretch, number, json.loads(self._sparkpace("report", "last", "--json")))
        self.done[run.key] = run
        with (self.out / "accuracy.jsonl").open("a") as file:
            file.write(json.dumps(_line(run)) + "\n")
        summary = run.summary
        error = "" if summary["error_pct"] is None else f" {summary['error_pct']:+.2f}%"
        print(f"{job} {kind} x{stretch} #{number}: {summary['end_s']:.1f} s{error}", flush=True)

    def _sparkpace(self, *words: str, log: Path | None = None) -> str:
        done = self.sparkpace.run(words, errors=log)
        if done.code != 0:
            raise SystemExit(f"sparkpace {' '.join(words)} ended with code {done.code}; see {log}")
        return done.output


def _line(run: Run) -> dict[str, Any]:
    return {"job": run.job, "kind": run.kind, "stretch": run.stretch, "number": run.number, "summary": run.summary}


def read(out: Path) -> list[Run]:
    """All runs recorded in `out`."""
    path = out / "accuracy.jsonl"
    return [Run(**json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []


def table(runs: Sequence[Run]) -> str:
    """A row per job and stretch: errors of the paced runs, spread of the constant ones, cores held and used."""
    rows = ["| job | x | n | paced errors % | mean | mean abs | violated | constant errors % | spread | alloc/used |"]
    rows.append("| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |")
    for job in dict.fromkeys(r.job for r in runs):
        for stretch in STRETCHES:
            paced = [r.summary for r in runs if r.key[:3] == (job, "paced", stretch)]
            constant = [r.summary for r in runs if r.key[:3] == (job, "constant", stretch)]
            if not paced:
                continue
            errors = [s["error_pct"] for s in paced]
            noise = [s["error_pct"] for s in constant]
            ratio = statistics.median(s["allocated_core_s"] / s["used_core_s"] for s in paced)
            rows.append(
                f"| {job} | {stretch} | {len(paced)} | {' '.join(f'{e:+.1f}' for e in errors)} | "
                f"{statistics.fmean(errors):+.2f} | {statistics.fmean(map(abs, errors)):.2f} | "
                f"{sum(s['violated'] for s in paced)} | {' '.join(f'{e:+.1f}' for e in noise)} | "
                f"{max(noise, default=0) - min(noise, default=0):.2f} | {ratio:.3f} |"
            )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(description="Deadline accuracy beside an oracle's constant quota.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--bases", type=int, default=2)
    parser.add_argument("--runtime", choices=("docker", "process"), default="docker")
    parser.add_argument("--law", default="forecast")
    parser.add_argument("--jobs", default=",".join(JOBS))
    parser.add_argument("--conf", action="append", default=[], help="passed on to submit (repeat)")
    parser.add_argument("--report", action="store_true", help="only print the table of what is there")
    given = parser.parse_args()
    out = given.out.resolve()
    options = [word for conf in given.conf for word in ("--conf", conf)]
    if not given.report:
        Accuracy(out, given.runs, given.bases, given.runtime, given.law, options).measure(given.jobs.split(","))
    print(table(read(out)))


if __name__ == "__main__":
    main()
