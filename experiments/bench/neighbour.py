"""The slowdown of a job by a hostile neighbour: rounds of the job next to one that only computes and next to one that
attacks, in turn, in Docker, both with 0.8 core of the same worker.

The slowed job (`neighbour.py`) times its own rounds, without its start. Medians of its rounds within a pair are compared.

    python -m experiments.bench.neighbour --out out/neighbour [--pairs 7]
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path

from controller.home import Home
from experiments.harness.live_cluster import Sparkpace, end_processes

RED_TEAM = Path(__file__).resolve().parents[2] / "tests" / "integration" / "apps" / "red_team.py"
ATTACKS = ("fork", "shout", "tmp", "forge")
PLAN = {"most_mb": 4096, "most_processes": 20_000, "log_mb": 256, "forge_s": 5}
CORES = 0.8
"""Cores of each job; drivers and services have the rest of the machine."""
ROUNDS = 24
NEIGHBOUR = f"""
import json, time
from pyspark import SparkContext
sc = SparkContext(appName="neighbour")
def work(n):
    return n % 7, sum(i * i for i in range(150_000))
took = []
for _ in range({ROUNDS}):
    began = time.monotonic()
    sc.parallelize(range(8), 2).map(work).reduceByKey(lambda a, b: a ^ b, 2).collect()
    took.append(time.monotonic() - began)
print(json.dumps(took), flush=True)
sc.stop()
"""
QUIET = """
import sys, time
from pathlib import Path
from pyspark import SparkContext
sc = SparkContext(appName="other")
def compute(_):
    until = time.monotonic() + 2
    while time.monotonic() < until:
        sum(i * i for i in range(10_000))
while not Path(sys.argv[1]).exists():
    sc.parallelize([0], 1).foreach(compute)
sc.stop()
"""
CONSTANT = ("--law", "constant", "--conf", f"spark.pace.law.constant.cores={CORES}", "--executor-cores", "1")


def round_s(sparkpace: Sparkpace, job_words: list[str], stop: Path) -> float:
    """Return the neighbour's median round, seconds, while the job with the words `job_words` runs. Raise `SystemExit`."""
    stop.unlink(missing_ok=True)
    words = sparkpace.command(("submit", "--name", "other", *CONSTANT, *job_words))
    other = sparkpace.start(words, sparkpace.cwd / "other.log")
    try:
        printed = sparkpace.need("submit", *CONSTANT, "neighbour.py")
        if other.poll() is not None:
            raise SystemExit(f"the other job ended by itself; see {sparkpace.cwd}/other.log")
    finally:
        stop.touch()
        try:
            other.wait(60)
        finally:
            end_processes([other])
    [line] = [line for line in printed.splitlines() if line.startswith("[")]
    return float(statistics.median(json.loads(line)[2:]))  # the first rounds warm the executor up


def main() -> None:
    parser = argparse.ArgumentParser(description="How much a hostile job slows its neighbour.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--pairs", type=int, default=7)
    given = parser.parse_args()
    out = given.out.resolve()
    out.mkdir(parents=True, exist_ok=True)
    stop = out / "stop"
    (out / "neighbour.py").write_text(NEIGHBOUR)
    (out / "quiet.py").write_text(QUIET)
    (out / "plan.json").write_text(json.dumps({**PLAN, "until": str(stop)}))
    jobs = {"quiet": ["quiet.py", str(stop)], "hostile": [str(RED_TEAM), "plan.json", *ATTACKS]}
    sparkpace = Sparkpace(Home(out / "home"), out)
    pairs = []
    with sparkpace.running("--workers", "1", "--cores", str(2 * CORES), "--runtime", "docker"):
        for number in range(given.pairs):
            order = list(jobs) if number % 2 else list(reversed(jobs))
            pairs.append({name: round_s(sparkpace, jobs[name], stop) for name in order})
            print(json.dumps({name: round(s, 3) for name, s in pairs[-1].items()}), flush=True)
    slower = [pair["hostile"] / pair["quiet"] - 1 for pair in pairs]
    result = {
        "pairs": pairs,
        "median_s": {name: statistics.median(pair[name] for pair in pairs) for name in jobs},
        "slower_median": statistics.median(slower),
        "slower_spread": [min(slower), max(slower)],
    }
    (out / "neighbour.json").write_text(json.dumps(result, indent=2) + "\n")
    print(json.dumps({name: value for name, value in result.items() if name != "pairs"}))


if __name__ == "__main__":
    main()
