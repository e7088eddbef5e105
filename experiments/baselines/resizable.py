"""A program that runs another application unchanged and takes its number of executors from outside, as YARN sets it.

    spark-submit resizable.py PIPE EXECUTORS APPLICATION [ARGUMENT...]

The last line in the named pipe is a number of executors: with fewer the newest executors are killed, whatever they do, with
more new executors are asked for. Both are Spark's public developer interface (SparkContext.killExecutor,
requestTotalExecutors).
"""

from __future__ import annotations

import os
import runpy
import select
import sys
import threading
import time
from pathlib import Path

from pyspark import SparkContext

LOOK_S = 0.2


def context():
    """Return the application's SparkContext, once it is there: PySpark sets it before it is ready."""
    while getattr(SparkContext._active_spark_context, "_jsc", None) is None:
        time.sleep(LOOK_S)
    return SparkContext._active_spark_context


def living(scala) -> list[int]:
    """Return the executors that have registered, oldest first."""
    return sorted(int(name) for name in scala.getExecutorIds().mkString(",").split(",") if name)


def obey(pipe: Path, executors: int) -> None:
    sc = context()
    scala, nowhere = sc._jsc.sc(), sc._jvm.org.apache.spark.api.python.PythonUtils.toScalaMap({})
    # asked once, so that a killed executor lowers this number and is not started again at once
    scala.requestTotalExecutors(executors, 0, nowhere)
    orders = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    killed: set[int] = set()
    while not scala.isStopped():
        if select.select([orders], [], [], LOOK_S)[0]:
            executors = int(os.read(orders, 4096).split()[-1])
            scala.requestTotalExecutors(executors, 0, nowhere)
        # also an executor that was on its way when the order came
        here = [number for number in living(scala) if number not in killed]
        for number in here[executors:]:
            killed.add(number)
            print(f"resizable: executor {number} is killed, {executors} may live", file=sys.stderr, flush=True)
            scala.killExecutor(str(number))
            scala.requestTotalExecutors(executors, 0, nowhere)


def main() -> None:
    pipe, executors, application, *arguments = sys.argv[1:]
    threading.Thread(target=obey, args=(Path(pipe), int(executors)), daemon=True).start()
    sys.argv = [application, *arguments]
    runpy.run_path(application, run_name="__main__")


if __name__ == "__main__":
    main()
