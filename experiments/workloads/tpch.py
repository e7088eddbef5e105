"""Queries of TPC-H on DataFrames, over Parquet files that `inputs` made; DuckDB answers them a second time.

1: scan and aggregation; 3: three tables joined; 6: scan that keeps little; 9: six tables joined; 18: aggregation of high
cardinality and a semi-join. The parameters are the specification's validation values; a last sort column makes the order of
equal rows known. Everything runs in the JVM. The check comes after the session is stopped: it is no part of the job.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from pyspark.sql import SparkSession

TABLES = ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
RELATIVE, ABSOLUTE = 1e-9, 1e-6
"""Differences that numbers may have: sums are decimals in both engines, means are rounded to six digits by Spark."""

QUERIES = {
    1: """
select l_returnflag, l_linestatus, sum(l_quantity) sum_qty, sum(l_extendedprice) sum_base_price,
    sum(l_extendedprice * (1 - l_discount)) sum_disc_price,
    sum(l_extendedprice * (1 - l_discount) * (1 + l_tax)) sum_charge,
    avg(l_quantity) avg_qty, avg(l_extendedprice) avg_price, avg(l_discount) avg_disc, count(*) count_order
from lineitem where l_shipdate <= date '1998-09-02'
group by l_returnflag, l_linestatus order by l_returnflag, l_linestatus
""",
    3: """
select l_orderkey, sum(l_extendedprice * (1 - l_discount)) revenue, o_orderdate, o_shippriority
from customer join orders on c_custkey = o_custkey join lineitem on l_orderkey = o_orderkey
where c_mktsegment = 'BUILDING' and o_orderdate < date '1995-03-15' and l_shipdate > date '1995-03-15'
group by l_orderkey, o_orderdate, o_shippriority order by revenue desc, o_orderdate, l_orderkey limit 10
""",
    6: """
select sum(l_extendedprice * l_discount) revenue from lineitem
where l_shipdate >= date '1994-01-01' and l_shipdate < date '1995-01-01' and l_discount between 0.05 and 0.07
    and l_quantity < 24
""",
    9: """
select nation, o_year, sum(amount) sum_profit from (
    select n_name nation, extract(year from o_orderdate) o_year,
        l_extendedprice * (1 - l_discount) - ps_supplycost * l_quantity amount
    from lineitem join part on p_partkey = l_partkey join supplier on s_suppkey = l_suppkey
        join partsupp on ps_suppkey = l_suppkey and ps_partkey = l_partkey
        join orders on o_orderkey = l_orderkey join nation on s_nationkey = n_nationkey
    where p_name like '%green%'
) profit
group by nation, o_year order by nation, o_year desc
""",
    18: """
select c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice, sum(l_quantity) quantity
from customer join orders on c_custkey = o_custkey join lineitem on o_orderkey = l_orderkey
where o_orderkey in (select l_orderkey from lineitem group by l_orderkey having sum(l_quantity) > 300)
group by c_name, c_custkey, o_orderkey, o_orderdate, o_totalprice
order by o_totalprice desc, o_orderdate, o_orderkey limit 100
""",
}

Value = str | int | float | Decimal | date | None
Rows = list[tuple[Value, ...]]


def file_of(folder: Path, table: str) -> str:
    return str(folder / f"{table}.parquet")


def spark_answers(spark: SparkSession, folder: Path, numbers: Sequence[int]) -> dict[int, Rows]:
    for table in TABLES:
        spark.read.parquet(file_of(folder, table)).createTempView(table)
    return {number: [tuple(row) for row in spark.sql(QUERIES[number]).collect()] for number in numbers}


def second_answers(engine: DuckDBPyConnection, folder: Path, numbers: Sequence[int]) -> dict[int, Rows]:
    """Return the answers of another engine."""
    for table in TABLES:
        engine.read_parquet(file_of(folder, table)).create_view(table)
    return {number: engine.execute(QUERIES[number]).fetchall() for number in numbers}


def same(one: Rows, other: Rows) -> bool:
    return len(one) == len(other) and all(
        len(a) == len(b) and all(map(same_value, a, b)) for a, b in zip(one, other, strict=True)
    )


def same_value(a: Value, b: Value) -> bool:
    if isinstance(a, int | float | Decimal) and isinstance(b, int | float | Decimal):
        return math.isclose(float(a), float(b), rel_tol=RELATIVE, abs_tol=ABSOLUTE)
    return a == b


def main() -> int | str:
    parser = argparse.ArgumentParser(description="TPC-H queries that check their answers.")
    parser.add_argument("data", type=Path, help="folder of the eight Parquet files; their scale is the size of the job")
    parser.add_argument("--queries", type=int, nargs="+", choices=QUERIES, default=list(QUERIES))
    parser.add_argument("--partitions", type=int, default=24)
    options = parser.parse_args()
    folder = options.data.absolute()
    missing = [table for table in TABLES if not Path(file_of(folder, table)).exists()]
    if missing:
        make = f"python -m experiments.workloads.inputs {folder.parent}/tpch-1"
        return f"tpch: {folder} has no {missing[0]}.parquet; `{make}` makes one"
    name = "tpch" if len(options.queries) > 1 else f"tpch-q{options.queries[0]}"

    import duckdb  # imported now, so that a missing duckdb shows before the job
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.appName(name)
        .config("spark.sql.adaptive.enabled", "true")
        .config("spark.sql.shuffle.partitions", str(options.partitions))
        .config("spark.sql.files.maxPartitionBytes", "32m")  # the files are few: more tasks than cores in every scan
        .getOrCreate()
    )
    found = spark_answers(spark, folder, options.queries)
    spark.stop()

    with duckdb.connect() as engine:
        expected = second_answers(engine, folder, options.queries)
    wrong = [f"Q{number}" for number in options.queries if not same(found[number], expected[number])]
    ok = not wrong and all(found.values())
    print(json.dumps({"answer": {f"Q{number}": len(rows) for number, rows in found.items()}, "ok": ok}))
    if found_none := [number for number, rows in found.items() if not rows]:
        return f"{name}: Q{found_none[0]} found no row; take data of a larger scale"
    return 0 if ok else f"{name}: the answer is wrong of {', '.join(wrong)}"


if __name__ == "__main__":
    sys.exit(main())
