"""The making of the lists of classes that executors and drivers load (`executor_classes.txt.gz`, `driver_classes.txt.gz`).

One job on each of the given Sparks does what jobs are made of, and its JVMs write down the classes they load. Names that are
made at run time are left out, because no class path has them; classes that one Spark lacks do no harm in another.

    python -m experiments.bench.class_list --python .venv/bin/python --python .venv35/bin/python
"""

from __future__ import annotations

import argparse
import gzip
import re
import tempfile
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from controller.agent.executors import class_archive
from controller.home import Home
from controller.submit import driver_archive
from controller.submit.driver_archive import VARIABLE
from experiments.harness.live_cluster import Sparkpace, spark_home

APP = """
from operator import add
from pyspark import StorageLevel
from pyspark.sql import SparkSession
from pyspark.sql import functions as f

spark = SparkSession.builder.getOrCreate()
pairs = spark.sparkContext.parallelize(range(20000), 4).map(lambda x: (x % 100, x)).reduceByKey(add, 4).persist()
assert pairs.join(pairs.mapValues(str)).sortByKey().count() == 100
spark.conf.set("spark.sql.shuffle.partitions", 4)
facts = spark.range(0, 100000, 1, 4).select("id", (f.col("id") % 50).alias("k")).persist(StorageLevel.OFF_HEAP)
names = spark.range(50).select(f.col("id").alias("k"), f.concat(f.lit("name-"), "id").alias("name"))
for hint in ("broadcast", "merge"):
    rows = facts.join(names.hint(hint), "k").groupBy("name").agg(f.count("*"), f.sum("id"))
    assert len(rows.orderBy("name").collect()) == 50
spark.stop()
"""
MADE_AT_RUN_TIME = re.compile(
    r"\$Proxy\d+$|/EventHandler\d+_|GeneratedMethodAccessor|Generated\w*ConstructorAccessor|\$\$Lambda"
)


def names(lines: Iterable[str]) -> set[str]:
    """Return the classes of a list as JVMs write it: other lines are comments and ready-made lambdas of one JDK's build."""
    words = (line.split()[0] for line in lines if line.strip() and line[0] not in "#@")
    return {name for name in words if not MADE_AT_RUN_TIME.search(name)}


def loaded(python: Path, folder: Path, sparkpace: Sparkpace) -> tuple[set[str], set[str]]:
    """Return the classes that executors and the driver of that Python's Spark load."""
    folder.mkdir()
    (folder / "app.py").write_text(APP)
    dump = f"-Xshare:off -XX:DumpLoadedClassList={folder}/"
    pythons = {"SPARK_HOME": str(spark_home(python)), "PYSPARK_PYTHON": str(python), "PYSPARK_DRIVER_PYTHON": str(python)}
    there = replace(sparkpace, cwd=folder, variables={**sparkpace.variables, **pythons, VARIABLE: f"{dump}driver"})
    there.need("submit", "--conf", f"spark.executor.extraJavaOptions={dump}list-{{{{EXECUTOR_ID}}}}", "app.py")
    executors = (names(file.read_text().splitlines()) for file in folder.glob("list-*"))
    return set().union(*executors), names((folder / "driver").read_text().splitlines())


def main() -> None:
    parser = argparse.ArgumentParser(description="Make again the lists of classes that executors and drivers load.")
    parser.add_argument("--python", type=Path, action="append", required=True, help="a Python that has a pyspark")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        sparkpace = Sparkpace(Home(folder / "home"), folder, variables={"SPARK_LOCAL_IP": "127.0.0.1"})
        # as plain processes: the JVM writes its list anywhere
        with sparkpace.running("--runtime", "process"):
            found = [loaded(python.absolute(), folder / str(n), sparkpace) for n, python in enumerate(given.python)]
    for out, each in zip((class_archive.CLASS_LIST, driver_archive.CLASS_LIST), zip(*found, strict=True), strict=True):
        text = "".join(f"{name}\n" for name in sorted(set().union(*each)))
        out.write_bytes(gzip.compress(text.encode(), mtime=0))
        print(f"{out}: {len(text.splitlines())} classes, of each Spark {[len(classes) for classes in each]}")


if __name__ == "__main__":
    main()
