"""Workloads on a real Spark (local, tiny): a right answer ends with 0, a faulty job with 1 and one sentence.

A fault is a change of the script's own text, so what is noticed is a job that computes something else.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from experiments.harness.local_cluster import WORKLOADS
from experiments.workloads.inputs import make_input
from tests.integration.local_cluster import QUICK_JVM

pytestmark = [pytest.mark.spark, pytest.mark.slow]

RUNNER = Path(__file__).with_name("run_scripts.py")
CONF = ("ui.enabled=false", "log.level=ERROR", "sql.shuffle.partitions=2", "sql.codegen.wholeStage=false")
"""Settings for tiny inputs, for which a query is compiled longer than it runs."""
SUBMIT_ARGS = f"--master local[1] {' '.join(f'--conf spark.{setting}' for setting in CONF)} pyspark-shell"


@dataclass(frozen=True)
class Case:
    """The words of a tiny job, and the fault: one text of the script and what replaces it."""

    words: tuple[str, ...]
    fault: tuple[str, str]


BY_KEY = ("--millions", "0.001", "--keys", "100", "--partitions", "2")
ITERATIVE = ("--millions", "0.002", "--iterations", "2", "--partitions", "2")
CASES = {
    "aggregate-by-key": Case(("aggregate_by_key.py", *BY_KEY), ("one[1] + other[1]", "one[1]")),
    "aggregate-by-key-int": Case(("aggregate_by_key.py", "--int", *BY_KEY), ("sc.range(pairs,", "sc.range(1, pairs,")),
    "group-by": Case(("group_by.py", *BY_KEY), ("sc.range(pairs,", "sc.range(1, pairs,")),
    "group-by, uneven": Case(
        ("group_by.py", *BY_KEY, "--skew", "2", "--stragglers", "1"), ("sc.range(pairs,", "sc.range(1, pairs,")
    ),
    "sort-by-key": Case(("sort_by_key.py", "--millions", "0", "--partitions", "2"), ("sortByKey(", "sortByKey(False, ")),
    "sort-by-key-int": Case(
        ("sort_by_key.py", "--int", "--millions", "0", "--partitions", "2"), ("sc.range(n,", "sc.range(1, n,")
    ),
    "kmeans": Case(("kmeans.py", *ITERATIVE), ("sc.range(count,", "sc.range(count - 1,")),
    "svm": Case(("svm.py", *ITERATIVE), ("sc.range(count,", "sc.range(count - 1,")),
    "pagerank": Case(
        ("pagerank.py", "{out}/graph.txt", "--copies", "2", "--iterations", "2", "--partitions", "2"),
        ("yield target, rank / len(targets)", "yield target, rank"),
    ),
    "few-long": Case(("few_long.py", "--millions", "0.01", "--tasks", "2"), ("number * FACTOR", "number + FACTOR")),
    "long-tail": Case(
        ("few_long.py", "--tail", "--millions", "0.01", "--tasks", "3"),
        ("sc.parallelize(times,", "sc.parallelize(times[::-1],"),
    ),
    "big-shuffle": Case(
        ("big_shuffle.py", "--millions", "0.001", "--partitions", "2"), ('"key").agg(', '"key", "left").limit(9).agg(')
    ),
    "pandas-udf": Case(
        ("pandas_udf.py", "--millions", "0.01", "--partitions", "2"),
        ("+ 11) % MODULUS\n        return numbers", "+ 12) % MODULUS\n        return numbers"),
    ),
    "micro-batches": Case(
        ("micro_batches.py", "--batches", "2", "--thousands", "1", "--partitions", "2"),
        ("reduceByKey(add,", "reduceByKey(max,"),
    ),
    "als": Case(
        ("als.py", "--users", "100", "--items", "40", "--models", "1", "--partitions", "2"),
        ("(user, item, rating(users[user], items[item]))", "(user, item, float(user * item % 7))"),
    ),
    "small-queries": Case(
        ("small_queries.py", "--queries", "2", "--millions", "0.001", "--partitions", "2"),
        ("* (query + 1)).alias", "* query).alias"),
    ),
    "cross-validate": Case(
        ("cross_validate.py", "--thousands", "3", "--iterations", "5"), ("inputCols=names,", 'inputCols=["x9", "x10"],')
    ),
    "stream-query": Case(
        ("stream_query.py", "--batches", "2", "--thousands", "2", "--partitions", "2"),
        ('F.sum("digits").alias', 'F.max("digits").alias'),
    ),
    "side-by-side": Case(("side_by_side.py", *BY_KEY), ("reduceByKey(add,", "reduceByKey(max,")),
    "sql-aggregate": Case(
        ("sql_aggregate.py", "--millions", "0.01", "--groups", "1000", "--partitions", "2"),
        ("count(*) facts", "count(*) + 1 facts"),
    ),
    "tpch": Case(
        ("tpch.py", "{out}/tpch-0.01", "--queries", "3", "6", "--partitions", "2"),
        ("spark.sql(QUERIES[number])", 'spark.sql(QUERIES[number].replace("0.05 and", "0.06 and"))'),
    ),
}


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[dict[str, Any], dict[str, Any]]]:
    """Run each workload as it is and with its fault; provide both ends."""
    folder = tmp_path_factory.mktemp("workloads")
    draw = random.Random(1)
    (folder / "graph.txt").write_text("".join(f"{draw.randrange(30)} {draw.randrange(30)}\n" for _ in range(200)))
    make_input(folder / "tpch-0.01")
    calls = []
    for name, case in CASES.items():
        script, *words = (word.format(out=folder) for word in case.words)
        text = (WORKLOADS / script).read_text()
        assert case.fault[0] in text
        faulty = folder / f"{name}-faulty.py"
        faulty.write_text(text.replace(*case.fault))
        calls += [[str(WORKLOADS / script), *words], [str(faulty), *words]]
    spark = {"PYSPARK_SUBMIT_ARGS": SUBMIT_ARGS, "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}
    spark["JDK_JAVA_OPTIONS"] = f"{QUICK_JVM} -Djava.io.tmpdir={folder}"  # a JVM that is killed leaves its files behind
    done = subprocess.run(
        [sys.executable, str(RUNNER)],
        input=json.dumps(calls),
        env={**os.environ, **spark},
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    return dict(zip(CASES, zip(found[::2], found[1::2], strict=True), strict=True))


@pytest.mark.parametrize("name", CASES)
def test_the_answer_is_right(name: str, ended: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> None:
    right, _ = ended[name]
    assert (right["code"], right["sentence"]) == (0, None)
    assert json.loads(right["output"].splitlines()[-1])["ok"] is True


@pytest.mark.parametrize("name", CASES)
def test_a_faulty_job_ends_with_one_sentence(name: str, ended: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> None:
    _, wrong = ended[name]
    assert wrong["code"] == 1
    assert wrong["sentence"] == f"{name.partition(',')[0]}: the answer is wrong" + (" of Q6" if name == "tpch" else "")
    assert json.loads(wrong["output"].splitlines()[-1])["ok"] is False
