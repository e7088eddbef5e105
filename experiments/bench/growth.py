"""Further workers on real Docker: tables 4 and 5 and figure 7 of document 000, a deadline that comes to need a worker while
its job runs, and growth by number (N = H + V + n, section 3.3).

Figure 7 starts with four workers of a core, which take one kind of task. Two tasks of two cores make it grow by two workers
of a second kind, and a task of two cores and more memory by a worker of a third kind. Here each of the four has a quarter of
a core, so that a machine of few cores has room for all, and a task is a Spark job:

- `task1` has an executor on each of the four workers, and a deadline that takes nearly all their cores.
- `task2`, twice, has a deadline that needs the cores of two of these workers, which are promised to `task1`.
- `task3` has an executor that is too large for these workers.

Each case prints before its run what is expected. Times come from the master's log. The image `sparkpace-node` must be there
(dockerfiles/node/Dockerfile).

    python -m experiments.bench.growth --out out/growth [--only CASE]
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from controller.runs.run_folder import SUMMARY, read_summary
from controller.submit.driver_run import RECORD_S
from experiments.harness.live_cluster import end_processes
from experiments.harness.local_cluster import WORKLOADS, LocalCluster
from experiments.harness.machine import PROJECT, commit, describe_machine
from experiments.harness.markdown import table
from placement.growth import Growth, Limits, WorkerType, ideal_count, rounded

PRESENT, PRESENT_CORES, PRESENT_MB = 4, 0.25, 1536
WORKERS = tuple(
    word
    for number in range(1, PRESENT + 1)
    for word in ("--worker", f"cores={PRESENT_CORES} memory={PRESENT_MB}m id=pod1-{number}")
)
UTILISATION, USUAL_CORES = 0.8, 1.0
PROVIDER = ("--provider", "docker", "--provider-folder", str(PROJECT), "--idle", "3s", "--grow", "4")
SMALL_MB, LARGE_MB = 1472, 1984
"""Memory of the containers of executors with heaps of 512 MiB and 1 GiB."""
ALL_OF_FOUR, TWO_OF_FOUR = 8, 4
"""Eighths of the four workers' cores: those that the deadline of `task1` takes, and those that `task2`'s takes."""
MARGIN = 1.03
"""Least deadline over the time that all cores take, because admission counts the start of the driver that has passed."""
LATE_SHARE, LATE_AT = 1.0, 0.25
"""The shorter deadline, and the time at which it is set, over the job's time on the four workers without a deadline."""
RUN = ("submitted_epoch_s", "first_task_s", "end_s", "deadline_s", "error_pct", "workers", "profile")
LIMIT_S, LOOK_S = 600.0, 0.5
"""Most seconds of a wait, and seconds between two looks."""


@dataclass(frozen=True, slots=True)
class DemandedJob:
    """A Spark job. `heap` is its executors' heap, `most` the most executors that it asks for (None: no limit)."""

    name: str
    words: tuple[str, ...]
    heap: str = "512m"
    most: int | None = None
    priority: str = "normal"

    @property
    def options(self) -> tuple[str, ...]:
        most = () if self.most is None else ("--num-executors", str(self.most))
        settings = ("--driver-memory", "512m", "--executor-memory", self.heap, "--priority", self.priority)
        return ("--name", self.name, *settings, *most)


TASK1 = DemandedJob("task1", ("aggregate_by_key.py", "--millions", "14"), most=PRESENT)
TASK2 = DemandedJob("task2", ("aggregate_by_key.py", "--int", "--millions", "5"))
TASK3 = DemandedJob("task3", ("sort_by_key.py", "--int", "--millions", "0.2"), heap="1g", most=1, priority="high")


@dataclass(slots=True)
class Grown:
    """A worker that was started; its times are epoch seconds, None where the log has no such line."""

    name: str
    kind: str
    asked_s: float
    joined_s: float | None = None
    given_back_s: float | None = None


@dataclass(slots=True)
class GrowthLog:
    """The facts of a master's log: by application its name and the time at which it registered, and each started worker."""

    registered: dict[str, tuple[str, float]] = field(default_factory=dict)
    workers: dict[str, Grown] = field(default_factory=dict)
    needs: dict[str, list[str]] = field(default_factory=dict)
    """The sentences on further workers, by application."""


_LINE = re.compile(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) \w+ (.*)")
_REGISTERED = re.compile(r"(\S+) registered: (.*), deadline \S+$")
_STARTING = re.compile(r"starting worker (\S+): (.*)$")
_JOINED = re.compile(r"worker (\S+) joined: ")
_BACK = re.compile(r"giving worker (\S+) back: ")
_NEEDS = re.compile(r"(\S+): (its deadline needs .*)$")


def read_log(text: str) -> GrowthLog:
    """Return what a master's log says of growth."""
    log = GrowthLog()
    for line in text.splitlines():
        if not (whole := _LINE.match(line)):
            continue
        at_s, said = datetime.strptime(whole[1], "%Y-%m-%d %H:%M:%S,%f").timestamp(), whole[2]  # noqa: DTZ007 - as logging
        if found := _REGISTERED.match(said):
            log.registered.setdefault(found[1], (found[2], at_s))
        elif found := _STARTING.match(said):
            log.workers[found[1]] = Grown(found[1], found[2], at_s)
        elif (found := _JOINED.match(said)) and found[1] in log.workers:
            log.workers[found[1]].joined_s = log.workers[found[1]].joined_s or at_s
        elif (found := _BACK.match(said)) and found[1] in log.workers:
            log.workers[found[1]].given_back_s = at_s
        elif found := _NEEDS.match(said):
            log.needs.setdefault(found[1], []).append(found[2])
    return log


def expected_type(container_mb: int, limits: Limits) -> WorkerType:
    """Return the type of worker that document 000 has for a demand, in the sizes of this project: a core at least."""
    return Growth(limits).sized(rounded(PRESENT_CORES, container_mb))


class GrowthCase:
    """Jobs that run on one cluster, and what was found. `jobs`: by place, each job's submission and log; `profiles`: the
    names of the profiles that jobs have taught."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster, self.jobs = cluster, list[tuple[DemandedJob, subprocess.Popen[bytes], Path]]()
        self.profiles = dict[str, str]()

    def submit(self, task: DemandedJob, deadline_s: float | None = None) -> None:
        """Submit a job in the background, without --force: a deadline out of reach is refused."""
        log = self.cluster.logs / f"{self.cluster.home.path.name}-{len(self.jobs)}-{task.name}.log"
        deadline = () if deadline_s is None else ("--deadline", f"{deadline_s:.1f}s")
        script, *arguments = task.words
        words = ("submit", *task.options, *deadline, str(WORKLOADS / script), *arguments)
        sparkpace = self.cluster.sparkpace
        self.jobs.append((task, sparkpace.start(sparkpace.command(words), log.with_suffix(".out"), log), log))

    def log(self) -> GrowthLog:
        return read_log((self.cluster.home.logs / "master.log").read_text(errors="replace"))

    def until(self, look: Callable[[], bool], what: str) -> None:
        """Wait until something is true. Raise `SystemExit` after `LIMIT_S`, and if all jobs have ended before."""
        end_s = time.monotonic() + LIMIT_S
        while not look():
            over = all(process.poll() is not None for _, process, _ in self.jobs) and not look()
            if over or time.monotonic() > end_s:
                raise SystemExit(
                    f"{what} did not come about, or not within {LIMIT_S:g} s; the logs are in {self.cluster.logs}"
                )
            time.sleep(LOOK_S)

    def until_ended(self) -> None:
        """Wait until all jobs have ended and all started workers are given back."""
        self.until(lambda: all(process.poll() is not None for _, process, _ in self.jobs), "the end of all jobs")
        end_s = time.monotonic() + LIMIT_S
        while not all(one.given_back_s for one in self.log().workers.values()) and time.monotonic() < end_s:
            time.sleep(LOOK_S)

    def alone_s(self, task: DemandedJob) -> float:
        """Run a job without a deadline, which teaches its profile; return the seconds from its submission to its end."""
        self.submit(task)
        self.until_ended()
        found = [one for one in self.runs() if one["name"] == task.name]
        if self.jobs[-1][1].returncode or not found:
            raise SystemExit(f"{task.name} did not end well; the logs are in {self.cluster.logs}")
        self.profiles[task.name] = found[-1]["profile"]
        return float(found[-1]["end_s"])

    def deadline_s(self, task: DemandedJob, eighths: int) -> float:
        """Return the deadline that takes that many eighths of the cores of all workers, by `plan`; all cores keep it with
        a margin."""
        plan = self.cluster.sparkpace.need("plan", "--profile", self.profiles[task.name], "--curve", "--output", "json")
        ends_s = [float(point["end_s"]) for point in json.loads(plan)["curve"]["points"]]
        return max(ends_s[eighths - 1], MARGIN * ends_s[-1])

    def runs(self) -> list[dict[str, Any]]:
        """Return the jobs that registered, in that order: their times, in seconds from their submission, and workers."""
        log, rows = self.log(), list[dict[str, Any]]()
        for app_id, (name, registered_s) in log.registered.items():
            folder = self.cluster.home.runs / app_id
            end_s = time.monotonic() + RECORD_S
            while not (folder / SUMMARY).exists() and time.monotonic() < end_s:
                time.sleep(LOOK_S)
            summary = read_summary(folder)
            known = {key: summary[key] for key in RUN}
            name = summary["submitted_name"] or name  # noqa: PLW2901 - the application names itself otherwise
            rows.append({"name": name, "registered_s": registered_s, **known, "needs": log.needs.get(app_id, [])})
        return rows

    def found(self, **more: Any) -> dict[str, Any]:
        """Return all that is known of the phase."""
        ends = [
            {"name": task.name, "exit_code": process.returncode, "said": last_line(log)} for task, process, log in self.jobs
        ]
        return {
            **more,
            "runs": self.runs(),
            "submissions": ends,
            "workers": [asdict(one) for one in self.log().workers.values()],
        }


def last_line(file: Path) -> str:
    """Return the last line of a submission without the path of the run's folder, because results are published."""
    said = (file.read_text(errors="replace").strip().splitlines() or [""])[-1]
    return said.partition("; run folder")[0][:500]


def all_ended_well(found: Mapping[str, Any]) -> bool:
    return all(one["exit_code"] == 0 for one in found["submissions"])


def most_at_once(workers: Iterable[Grown]) -> list[str]:
    """Return the types of the started workers that were there, or on their way, when these were most."""
    known = list(workers)
    at_once = [
        sorted(one.kind for one in known if one.asked_s <= at.asked_s < (one.given_back_s or at.asked_s + 1)) for at in known
    ]
    return max(at_once, key=len, default=[])


@contextmanager
def phase(out: Path, name: str, up: Sequence[str]) -> Iterator[GrowthCase]:
    """Keep a cluster of the four workers up that knows nothing of earlier calls. At the end, its jobs and its started workers
    end, too."""
    cluster = LocalCluster(out, name)
    if cluster.home.cluster_file.exists():
        cluster.sparkpace.need("down")
    shutil.rmtree(cluster.home.path, ignore_errors=True)
    with cluster.running((*WORKERS, "--runtime", "docker", *PROVIDER, *up)):
        begun = GrowthCase(cluster)
        try:
            yield begun
        finally:
            end_processes([process for _, process, _ in begun.jobs])


# ------------------------------------------------------------------ the cases


def figure7(out: Path) -> dict[str, Any]:
    """Reproduce figure 7. The first runs teach; that of `task3` already starts a worker, which shows how long that takes."""
    limits = Limits(cores=3, memory_mb=6144)
    second, third = expected_type(SMALL_MB, limits), expected_type(LARGE_MB, limits)
    expected = f"{PRESENT} workers as before, two of {second} and one of {third}; no job is refused"
    print(f"figure7: expected: {expected}", flush=True)
    with phase(out, "figure7", ("--grow-up-to", "cores=3 memory=6g")) as run:
        alone = {task.name: run.alone_s(task) for task in (TASK3, TASK1, TASK2)}
        before = len(run.log().workers)
        print(f"figure7: seconds without a deadline: {alone}", flush=True)
        most_s, two_s = run.deadline_s(TASK1, ALL_OF_FOUR), run.deadline_s(TASK2, TWO_OF_FOUR)
        run.submit(TASK1, most_s)
        run.until(lambda: len(run.log().registered) > len(alone), "the registration of task1")
        for task, deadline_s in ((TASK2, two_s), (TASK2, two_s), (TASK3, None)):
            run.submit(task, deadline_s)
        run.until_ended()
        found = run.found(expected=expected, alone_s=alone)
    kinds = sorted(one["kind"] for one in found["workers"][before:])
    return found | {"as_expected": all_ended_well(found) and kinds == sorted([str(second), str(second), str(third)])}


def late(out: Path) -> dict[str, Any]:
    """Make a deadline shorter, by force, while its job runs, so that it comes to need a further worker."""
    limits = Limits(cores=1, memory_mb=2048)
    kind = expected_type(SMALL_MB, limits)
    expected = f"one worker of {kind}, 5 s or more after the deadline has become shorter"
    print(f"late: expected: {expected}", flush=True)
    with phase(out, "late", ("--grow-up-to", "cores=1 memory=2g")) as run:
        run.alone_s(TASK3)
        alone_s = run.alone_s(TASK2)
        before = len(run.log().workers)
        run.submit(TASK2, 2 * alone_s)
        time.sleep(LATE_AT * alone_s)
        deadline_s, changed_s = LATE_SHARE * alone_s, time.time()
        run.cluster.sparkpace.need("set", list(run.log().registered)[-1], "--deadline", f"{deadline_s:.1f}s", "--force")
        run.until_ended()
        found = run.found(expected=expected, alone_s=alone_s, changed_s=changed_s, changed_to_s=deadline_s)
    kinds = [one["kind"] for one in found["workers"][before:]]
    return found | {"as_expected": all_ended_well(found) and kinds == [str(kind)]}


def by_number(out: Path) -> dict[str, Any]:
    """Grow by number: `task1` has work on all workers, then `task3` needs a worker of its own."""
    limits = Limits(cores=4, memory_mb=8192)
    usual, large = WorkerType(USUAL_CORES, PRESENT_MB), expected_type(LARGE_MB, limits)
    first = ideal_count(PRESENT, UTILISATION, PRESENT * PRESENT_CORES, USUAL_CORES)
    demanded = PRESENT * PRESENT_CORES + large.cores
    then = ideal_count(PRESENT + 1, UTILISATION, demanded, USUAL_CORES)
    expected = f"N = {first}: H = {first - PRESENT}, V = 0, n = {PRESENT}; then N = {then}: H = {then - PRESENT - 1}, V = 1"
    print(f"number: expected: {expected}; usual workers of {usual}, the other of {large}", flush=True)
    up = ("--grow-up-to", "cores=4 memory=8g", "--usual-worker", f"cores={USUAL_CORES:g} memory={PRESENT_MB}m")
    with phase(out, "number", (*up, "--utilisation", str(UTILISATION))) as run:
        run.submit(TASK1)
        run.until(lambda: sum(one.joined_s is not None for one in run.log().workers.values()) >= first - PRESENT, "N")
        counted = [len(most_at_once(run.log().workers.values())) + PRESENT]
        run.submit(TASK3)
        run.until_ended()
        found, kinds = run.found(expected=expected), most_at_once(run.log().workers.values())
    counted.append(len(kinds) + PRESENT)
    met = counted == [first, then] and kinds == sorted([str(large), *[str(usual)] * (then - PRESENT - 1)])
    return found | {"counted": counted, "as_expected": all_ended_well(found) and met}


CASES: Mapping[str, Callable[[Path], dict[str, Any]]] = {"figure7": figure7, "late": late, "number": by_number}


# ------------------------------------------------------------------ what is printed


def worker_rows(case: str, found: Mapping[str, Any]) -> list[list[str]]:
    """Return a row for each worker that was started. The last job to register before its start has asked for it."""
    rows = list[list[str]]()
    for one in found["workers"]:
        asked_s, joined_s, back_s = one["asked_s"], one["joined_s"], one["given_back_s"]
        before = [run for run in found["runs"] if run["registered_s"] <= asked_s]
        joined = "-" if joined_s is None else f"{joined_s - asked_s:.1f} s"
        back = "-" if back_s is None else f"{back_s - asked_s:.1f} s"
        users = [f"{run['name']}" for run in found["runs"] if one["name"] in (run["workers"] or ())]
        after = f"{asked_s - before[-1]['registered_s']:.3f} s after {before[-1]['name']}" if before else "-"
        rows.append([case, one["name"], one["kind"], after, joined, back, ", ".join(users) or "none"])
    return rows


def job_rows(case: str, found: Mapping[str, Any]) -> list[list[str]]:
    rows = list[list[str]]()
    for run in found["runs"]:
        deadline = "none" if run["deadline_s"] is None else f"{run['deadline_s']:.1f} s"
        error = "-" if run["error_pct"] is None else f"{run['error_pct']:+.1f}%"
        where = ", ".join(run["workers"] or ())
        rows.append([case, run["name"], deadline, f"{run['first_task_s']:.1f} s", f"{run['end_s']:.1f} s", error, where])
    return rows


def markdown(results: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the tables for docs/experiments.md."""
    workers = [row for case, found in results.items() for row in worker_rows(case, found)]
    jobs = [row for case, found in results.items() for row in job_rows(case, found)]
    columns = ("case", "worker", "type", "asked for", "joined after", "given back after", "jobs that had it")
    runs = ("case", "job", "deadline", "first task", "end", "error", "workers")
    return "\n".join([*table(columns, workers), *table(runs, jobs)])


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Further workers for deadlines, for executors that fit nowhere, and by number."
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", choices=sorted(CASES))
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    results = {}
    for case in [given.only] if given.only else CASES:
        results[case] = CASES[case](out)
        print(f"{case}: {'as expected' if results[case]['as_expected'] else 'not as expected'}", flush=True)
        measured = {"commit": commit(), "machine": describe_machine(), "cases": results}
        (out / "growth.json").write_text(json.dumps(measured, indent=1) + "\n")
    print(markdown(results))


if __name__ == "__main__":
    main()
