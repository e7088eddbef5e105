"""Submit to first task: Sparkpace and Spark standalone with Master and Workers already up, run in turn.

Both have as many workers; standalone's share the machine's cores, Sparkpace's have what `up` gives them. The application
reports the wall time at which its first task ran.

    python -m experiments.bench.startup --out out/startup [--pairs 9] [--workers 2]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

from controller.home import Home
from experiments.harness.live_cluster import Sparkpace, free_port

SPARK_HOME = Path(pyspark.__file__).parent
APP = """
import time
from pyspark import SparkContext
sc = SparkContext(appName="startup")
print("FIRST-TASK", sc.parallelize([0], 1).map(lambda _: time.time()).first(), flush=True)
sc.stop()
"""


def first_task_s(command: list[str], environment: dict[str, str], cwd: Path) -> float:
    """Return the seconds from the call of `command` to its first task."""
    called = time.time()
    done = subprocess.run(command, env=environment, cwd=cwd, check=True, text=True, capture_output=True)
    [line] = [line for line in done.stdout.splitlines() if line.startswith("FIRST-TASK")]
    return float(line.split()[1]) - called


@contextmanager
def standalone_cluster(out: Path, environment: dict[str, str], workers: int) -> Iterator[str]:
    """Start a standalone Master and Workers that share the machine's cores, and end them by their ids."""
    spark_class = str(SPARK_HOME / "bin" / "spark-class")
    port = free_port()
    url = f"spark://127.0.0.1:{port}"
    words = [["org.apache.spark.deploy.master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]]
    cores = max(1, (os.cpu_count() or 1) // workers)
    worker = ["org.apache.spark.deploy.worker.Worker", "--host", "127.0.0.1", "--cores", str(cores), "--memory", "4g"]
    words += [[*worker, "--webui-port", "0", "--work-dir", str(out / f"work{n}"), url] for n in range(workers)]
    log = (out / "standalone.log").open("wb")
    daemons = [subprocess.Popen([spark_class, *w], env=environment, stdout=log, stderr=log) for w in words]
    try:
        while (out / "standalone.log").read_text(errors="replace").count("Successfully registered with master") < workers:
            time.sleep(0.5)
        yield url
    finally:
        for daemon in reversed(daemons):
            daemon.terminate()
            daemon.wait()
        log.close()


def main() -> None:
    parser = argparse.ArgumentParser(description="Submit to first task, compared with Spark standalone.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--runtime", choices=("docker", "process"), default="docker")
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    (out / "first_task.py").write_text(APP)
    variables = {"SPARK_LOCAL_IP": "127.0.0.1", "SPARK_HOME": str(SPARK_HOME), "PYSPARK_PYTHON": sys.executable}
    sparkpace = Sparkpace(Home(out / "home"), out, variables=variables)
    environment = sparkpace.environment()
    pairs = []
    with (
        sparkpace.running("--workers", str(given.workers), "--runtime", given.runtime),
        standalone_cluster(out, environment, given.workers) as url,
    ):
        theirs = [str(SPARK_HOME / "bin" / "spark-submit"), "--master", url, "first_task.py"]
        commands = {"standalone": theirs, "sparkpace": sparkpace.command(("submit", "first_task.py"))}
        for command in commands.values():
            first_task_s(command, environment, out)  # warms the disk cache and our image up; not counted
        for number in range(given.pairs):
            order = list(commands) if number % 2 else list(reversed(commands))
            times = {name: first_task_s(commands[name], environment, out) for name in order}
            pairs.append(times)
            print(json.dumps({k: round(v, 2) for k, v in times.items()}), flush=True)
    ratios = [pair["sparkpace"] / pair["standalone"] for pair in pairs]
    result = {
        "pairs": pairs,
        "median_s": {name: round(statistics.median(p[name] for p in pairs), 3) for name in commands},
        "ratio_median": round(statistics.median(ratios), 3),
        "ratio_spread": [round(min(ratios), 3), round(max(ratios), 3)],
    }
    (out / "startup.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({k: v for k, v in result.items() if k != "pairs"}))


if __name__ == "__main__":
    main()
