"""Deadlines of jobs that wait: a scan of cold Parquet under a limited device rate, and a shuffle over a limited network.

Each job runs twice on all cores without a deadline, which teaches its profile, and then with their mean time, `STRETCH`
times, as its deadline. Executors are Docker containers. As soon as one runs, its reads from the device of the input are
limited in its control group, and what it sends is limited by a token bucket on its network interface. So
root is needed. Before each run, the kernel drops the input from its page cache.

    python -m experiments.bench.waits --out out/waits [--repetitions 3] [--only scan] [--disk-mb 8] [--net-mbit 40]
"""

from __future__ import annotations

import argparse
import json
import math
import os
import statistics
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from controller.machine.devices import whole_device
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.docker import container
from controller.runtime.docker.client import connect
from experiments.harness.local_cluster import LocalCluster
from experiments.harness.recorded import JobRecord, Order

STRETCH = 1.2
APART_PCT, ALLOCATED_TO_USED = 2.5, 1.1
"""Limits of each run's error, percent of its deadline, and of allocated / used."""
LOOK_S = 0.1
CALL_S = 10.0
JOBS = {
    "scan": ("tpch.py", "{out}/tpch-4", "--queries", "6"),
    "scan-long": ("tpch.py", "{out}/tpch-16", "--queries", "6"),
    "shuffle": ("big_shuffle.py", "--millions", "6"),
    "shuffle-fine": ("big_shuffle.py", "--millions", "6", "--partitions", "64"),
}
OPTIONS = {"shuffle-fine": ("--conf", "spark.sql.adaptive.coalescePartitions.enabled=false")}
KEPT = ("end_s", "deadline_s", "error_pct", "allocated_core_s", "used_core_s")


def limit_executors(cluster_id: str, device: str, disk_mb: float, net_mbit: float, end: threading.Event) -> None:
    """Limit each executor of a cluster until `end`. `device` is a number, "MAJOR:MINOR". Raise `SystemExit` if no executor
    could be limited.

    An agent lifts the disk rates of each executor that it sees for the first time, so rates that are gone are set again."""
    labels, groups, tree = [f"{container.CLUSTER}={cluster_id}", container.EXECUTOR], dict[str, Path | None](), CgroupTree()
    rates = (disk_mb * 1e6, math.inf)
    with closing(connect()) as engine:
        while not end.wait(LOOK_S):
            for found in engine.containers(filters={"label": labels}):
                if found["Id"] not in groups:
                    pid = int(engine.inspect_container(found["Id"])["State"]["Pid"])
                    group = tree.group_of(pid, found["Id"])
                    groups[found["Id"]] = group.io if group else None
                    limit_network(pid, net_mbit)
                directory = groups[found["Id"]]
                if directory and (tree.io_rates(directory) or {}).get(device) != rates:
                    tree.write_io_rates(directory, device, rates)
    if not any(groups.values()):
        raise SystemExit(
            f"the reads of none of {len(groups)} executors could be limited; run as root, with control groups for disks"
        )


def limit_network(pid: int, net_mbit: float) -> None:
    shaper = ("tc", "qdisc", "replace", "dev", "eth0", "root", "tbf")
    bucket = ("rate", f"{net_mbit:g}mbit", "burst", "64kb", "latency", "400ms")
    subprocess.run(("nsenter", "-t", str(pid), "-n", *shaper, *bucket), check=True, timeout=CALL_S)


def drop_from_cache(folder: Path) -> None:
    """Drop the folder's files from the page cache."""
    os.sync()
    for file in filter(Path.is_file, folder.rglob("*")):
        with file.open("rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


@contextmanager
def slow(cluster: LocalCluster, disk_mb: float, net_mbit: float) -> Iterator[None]:
    """Limit the cluster's executors. Raise at the end what went wrong, because runs without limits are no results."""
    end, device = threading.Event(), whole_device(cluster.folder)
    with ThreadPoolExecutor(1) as pool:
        limiting = pool.submit(limit_executors, cluster.home.need_cluster().cluster_id, device, disk_mb, net_mbit, end)
        try:
            yield
        finally:
            end.set()
        limiting.result()


def measure(cluster: LocalCluster, job: str, repetitions: int) -> list[JobRecord]:
    """Return the records of the runs of a job, of which the first two have no deadline."""
    done: list[JobRecord] = []
    for number in range(2 + repetitions):
        deadline_s = None if number < 2 else STRETCH * statistics.fmean(one.summary["end_s"] for one in done[:2])
        order = Order(job, JOBS[job], deadline_s, options=("--num-executors", "2", *OPTIONS.get(job, ())))
        cluster.prepare([order])
        drop_from_cache(cluster.folder)
        [record] = cluster.perform(f"{job}-{number}", [order], limit_s=900)
        print(job, number, {name: record.summary[name] for name in KEPT}, flush=True)
        done.append(record)
    return done


def against_limits(runs: list[JobRecord]) -> dict[str, Any]:
    paced = [run.summary for run in runs[2:]]
    ratio = sum(run["allocated_core_s"] for run in paced) / sum(run["used_core_s"] for run in paced)
    met = ratio <= ALLOCATED_TO_USED and all(abs(run["error_pct"]) <= APART_PCT for run in paced)
    kept = [{name: run.summary[name] for name in KEPT} for run in runs]
    return {"allocated_to_used": round(ratio, 3), "met": met, "runs": kept}


def main() -> None:
    parser = argparse.ArgumentParser(description="Deadlines of a cold scan and of a shuffle that wait.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--only", choices=sorted(JOBS))
    parser.add_argument("--disk-mb", type=float, default=8.0)
    parser.add_argument("--net-mbit", type=float, default=40.0)
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    cluster = LocalCluster(out)
    jobs = [given.only] if given.only else sorted(JOBS)
    with cluster.running(("--workers", "2", "--runtime", "docker")), slow(cluster, given.disk_mb, given.net_mbit):
        runs = {job: measure(cluster, job, given.repetitions) for job in jobs}
    for job, done in runs.items():
        found = against_limits(done)
        measured = {"disk_mb": given.disk_mb, "net_mbit": given.net_mbit, **found}
        (out / f"{job}.json").write_text(json.dumps(measured, indent=1) + "\n")
        print(f"{job}: allocated / used {found['allocated_to_used']}, limits {'kept' if found['met'] else 'missed'}")


if __name__ == "__main__":
    main()
