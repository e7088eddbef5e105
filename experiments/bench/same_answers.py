"""The check that Spark's own examples print with Sparkpace what they print with plain Spark.

    python -m experiments.bench.same_answers OUT.json [--runtime process docker] [--only PATTERN ...]

Each example runs under plain `local-cluster`, and under `sparkpace submit` with each runtime. Examples whose answers differ
run under plain Spark again: an example that then prints another text has a random answer. Exit code 1: an answer differs.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

from controller.home import Home
from controller.runtime.table import RUNTIMES
from experiments.harness.live_cluster import Sparkpace, spark_home
from experiments.harness.local_cluster import WORKLOADS
from experiments.harness.outputs import difference
from experiments.workloads.inputs import make_input

ExampleAnswers = dict[str, dict[str, str]]
OPTIONS_OF_BOTH = (
    "--executor-memory",
    "1g",
    "--conf",
    "spark.ui.enabled=false",
    "--conf",
    "spark.ui.showConsoleProgress=false",
)


def judge_answers(plain: ExampleAnswers, again: ExampleAnswers, ours: ExampleAnswers) -> dict[str, str]:
    """Return a verdict in a few words for each example; verdicts that begin with "different" are faults."""
    return {name: _of_one(plain[name], again[name], ours[name]) for name in plain}


def _of_one(plain: dict[str, str], again: dict[str, str], ours: dict[str, str]) -> str:
    if plain["ended"] != again["ended"]:
        return "random"
    if ours["ended"] != plain["ended"]:
        return f"different: ended with {ours['ended'] or 'success'!r}, with plain Spark with {plain['ended'] or 'success'!r}"
    if plain["ended"]:
        return f"fails with plain Spark, too: {plain['ended']}"
    if difference(plain["printed"], again["printed"]) is not None:
        return "random"
    if not plain["printed"].strip():
        return "prints nothing"
    found = difference(plain["printed"], ours["printed"])
    if found is not None and sorted(plain["printed"].splitlines()) == sorted(ours["printed"].splitlines()):
        return "same in another order"  # no operator sorts these rows
    return "same" if found is None else f"different: {found}"


def _run(command: list[str], work: Path, environment: dict[str, str]) -> ExampleAnswers:
    # an example saves a table in a temporary folder and reads it in the driver: containers have a /tmp of their own
    environment = {**environment, "TMPDIR": str(work)}
    with work.with_suffix(".log").open("wb") as log:
        subprocess.run(command, cwd=work, env=environment, stdout=log, stderr=log, check=True)
    found: ExampleAnswers = json.loads(work.with_suffix(".json").read_text())
    return found


def compare_examples(folder: Path, runtimes: list[str], patterns: list[str]) -> dict[str, dict[str, str]]:
    """Run the examples in `folder`, and return a verdict on each for each runtime. Raise `subprocess.CalledProcessError` if a
    driver fails."""
    make_input(folder / "spark-data")
    labels = ("plain", "again", *runtimes)
    works = {label: Path(shutil.copytree(folder / "spark-data", folder / label)) for label in labels}
    plain = _run_plain(works["plain"], patterns)
    ours = {runtime: _run_paced(Home(folder / f"home-{runtime}"), runtime, works[runtime], patterns) for runtime in runtimes}
    doubtful = {
        name for answers in ours.values() for name, said in judge_answers(plain, plain, answers).items() if _differs(said)
    }
    again = {**plain, **(_run_plain(works["again"], sorted(doubtful)) if doubtful else {})}
    return {runtime: judge_answers(plain, again, answers) for runtime, answers in ours.items()}


def _differs(verdict: str) -> bool:
    return verdict.startswith("different")


def _run_plain(work: Path, patterns: list[str]) -> ExampleAnswers:
    driver, python = str(WORKLOADS / "every_example.py"), Path(sys.executable)
    plain = [str(python.parent / "spark-submit"), "--master", "local-cluster[2,1,1024]", *OPTIONS_OF_BOTH, driver]
    environment = {**os.environ, "PYSPARK_PYTHON": str(python), "SPARK_HOME": str(spark_home(python))}
    return _run([*plain, f"{work}.json", *patterns], work, environment)


def _run_paced(home: Home, runtime: str, work: Path, patterns: list[str]) -> ExampleAnswers:
    ours = Sparkpace(home, work)
    with ours.running("--workers", "2", "--runtime", runtime, "--allow-mount", str(work.parent)):
        # executors may write only where a folder is mounted for it
        driver = (str(WORKLOADS / "every_example.py"), f"{work}.json", *patterns)
        command = ours.command(("submit", "--mount", f"{work}:rw", *OPTIONS_OF_BOTH, *driver))
        return _run(command, work, ours.environment())


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=Path)
    parser.add_argument(
        "--runtime", nargs="+", choices=[row.name for row in RUNTIMES.values() if row.starts], default=["process"]
    )
    parser.add_argument("--only", nargs="+", default=["*"])
    given: Any = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        found = compare_examples(Path(name), given.runtime, given.only)
    given.out.write_text(json.dumps(found, indent=1) + "\n")
    verdicts = {runtime: Counter(said.partition(":")[0] for said in examples.values()) for runtime, examples in found.items()}
    for runtime, counts in verdicts.items():
        print(f"{runtime}: {', '.join(f'{count} {said}' for said, count in counts.most_common())}")
    return int(any(_differs(said) for counts in verdicts.values() for said in counts))


if __name__ == "__main__":
    sys.exit(main())
