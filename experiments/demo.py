"""The main job, as `make demo` runs it: PageRank over Debian's package graph, once to learn, once with a deadline.

The demo starts a cluster of its own below `out/demo`, so it needs no running cluster and leaves none. Results:
`learn/summary.json`, `deadline/summary.json`, `progress.png`, all in `out/demo`.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import signal
import sys
import time
from pathlib import Path
from typing import Any

from controller.home import Home
from experiments.harness.live_cluster import Sparkpace, end_by_signal
from experiments.workloads.inputs import GRAPH, make_input

ROOT = Path(__file__).resolve().parents[1]
PAGERANK = ROOT / "experiments" / "workloads" / "pagerank.py"
STRETCH = 1.5
"""The deadline is the learning run's duration times this."""
LAST_LINES = 30
"""Lines of a log that are shown where its command failed."""


class Demo:
    """One demo run in `out`; every command is one that a user would type."""

    def __init__(self, out: Path, runtime: str, copies: int) -> None:
        self.out, self.runtime, self.copies = out, runtime, copies
        self.home = out / "home"
        self.sparkpace = Sparkpace(Home(self.home), out)

    def run(self) -> None:
        started_s = time.monotonic()
        print("Two runs of PageRank follow. On 2 cores, each takes 60 to 100 s.", flush=True)
        graph = self._fresh()
        try:
            self._sparkpace("up", "--workers", "2", "--runtime", self.runtime, "--port", "0")
            print("\nLearning run: no profile yet, so it takes what is free.", flush=True)
            learn = self._job(graph, "learn")
            deadline_s = STRETCH * learn["end_s"]
            print(f"\nDeadline run: {deadline_s:.0f} s, {STRETCH} x the learning run.", flush=True)
            paced = self._job(graph, "deadline", "--deadline", f"{deadline_s:.1f}s")
            self._sparkpace("plot", paced["app_id"], "-o", str(self.out / "progress.png"), log=self.out / "plot.log")
        finally:
            self._sparkpace("down")
        print("\n" + summary(learn, paced, self.out / "progress.png", time.monotonic() - started_s))
        print("\n" + next_steps(Path(sys.executable).with_name("sparkpace"), Path.cwd()))

    def _fresh(self) -> Path:
        """Return an empty output folder with the graph as plain text, so that executors read it themselves."""
        if (self.home / "cluster.json").exists():
            self._sparkpace("down")
        shutil.rmtree(self.out, ignore_errors=True)
        self.out.mkdir(parents=True)
        graph = self.out / GRAPH
        make_input(graph)
        return graph

    def _job(self, graph: Path, name: str, *options: str) -> dict[str, Any]:
        """Run PageRank, leave a copy of its record in `name`, and return the record."""
        words = (str(PAGERANK), str(graph), "--copies", str(self.copies))
        self._sparkpace("submit", *options, *words, log=self.out / f"{name}.log")
        record: dict[str, Any] = json.loads(self._sparkpace("report", "last", "--output", "json", quiet=True))
        shutil.copytree(self.home / "runs" / record["app_id"], self.out / name)
        return record

    def _sparkpace(self, *words: str, log: Path | None = None, quiet: bool = False) -> str:
        """Run the command and print its output; return all of it. With a `log`, only lines of Sparkpace are printed, or the
        last lines where the command failed."""
        done = self.sparkpace.run(words, log=log)
        if log is not None:
            # Spark's own log goes to a file; the progress line and notices would be lost in it
            print(*lines_of_a_log(done.output, failed=done.code != 0), sep="", end="", flush=True)
        elif not quiet:
            print(done.output, end="", flush=True)
        if done.code != 0:
            raise SystemExit(f"sparkpace {words[0]} ended with code {done.code}" + (f"; see {log}" if log else ""))
        return done.output


def lines_of_a_log(text: str, *, failed: bool) -> list[str]:
    """Return the lines that Sparkpace printed; where the command failed, return the last lines of any program."""
    lines = [f"{line}\n" for line in text.splitlines()]
    return lines[-LAST_LINES:] if failed else [line for line in lines if line.startswith("sparkpace:")]


def summary(learn: dict[str, Any], paced: dict[str, Any], picture: Path, took_s: float) -> str:
    """Return five lines: both runs, the error, the cores that both held, where the picture is."""
    verdict = "late" if paced["violated"] else "on time"
    return "\n".join(
        (
            f"Learning run:  {learn['end_s']:.1f} s with all {learn['cluster_cores']:.2f} cores ({learn['runtime']} runtime)",
            f"Deadline run:  {paced['end_s']:.1f} s of {paced['deadline_s']:.1f} s, {verdict} ({paced['error_pct']:+.1f}%)",
            f"Cores held:    {_held(paced)}; in the learning run {_held(learn)}",
            f"Picture:       {picture}",
            f"Took:          {took_s:.0f} s",
        )
    )


def _held(run: dict[str, Any]) -> str:
    core_s, lasts_s = run["allocated_core_s"], run["last_task_s"] - run["first_task_s"]
    return f"{core_s / lasts_s:.2f} on average, {core_s:.0f} core-s in all"


def next_steps(program: Path, here: Path) -> str:
    """Return three commands to try next, as they are typed in the folder `here`, each with its purpose."""
    name = shlex.quote(str(program.relative_to(here) if program.is_relative_to(here) else program))
    return "\n".join(
        (
            "Three things to try next, with an event log and a job of yours in place of EVENTLOG and app.py:",
            "",
            "A plan from a log of any Spark cluster: the job's end with fewer cores, and what they save",
            f"    {name} plan EVENTLOG",
            "A job that is only watched, not paced: `savings` then says what pacing would have saved",
            f"    {name} up --observe && {name} submit app.py && {name} savings",
            "A job with a deadline, on as few cores as keep it",
            f"    {name} down && {name} up && {name} submit --deadline 10min app.py",
        )
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="Runs the main job: PageRank, once to learn, once with a deadline.")
    parser.add_argument("--runtime", choices=("auto", "docker", "process"), default="auto")
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "demo")
    parser.add_argument("--copies", type=int, default=8, help="times the graph is replicated: the size of the job")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, end_by_signal)
    Demo(options.out.resolve(), options.runtime, options.copies).run()


if __name__ == "__main__":
    main()
