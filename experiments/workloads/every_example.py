"""Spark's own Python examples, run one after another in this driver, which gives all of them one Spark context.

    spark-submit every_example.py ANSWERS [PATTERN...]      those whose path below the examples' folder matches a pattern

The program writes to the file ANSWERS, as JSON, the output of each example and the way it ended. The working folder must have
the folder `data` that the examples read. Examples that wait for lines on a socket, for Kafka or for new files are left out.
"""

from __future__ import annotations

import contextlib
import fnmatch
import io
import json
import runpy
import signal
import sys
import time
import traceback
from pathlib import Path
from types import FrameType

from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession
from pyspark.streaming import StreamingContext

WAIT_FOR_OTHERS = (
    "streaming/*network*",
    "streaming/hdfs*",
    "streaming/recover*",
    "sql/streaming/*",
    "mllib/streaming_linear*",
)
EXAMPLE_ARGUMENTS = {
    "als.py": ["60", "120", "10", "3", "4"],
    "kmeans.py": ["data/mllib/kmeans_data.txt", "2", "0.1"],
    "logistic_regression.py": ["data/mllib/ridge-data/lpsa.data", "3"],
    "mllib/correlations.py": ["data/mllib/sample_linear_regression_data.txt"],
    "mllib/kmeans.py": ["data/mllib/kmeans_data.txt", "2"],
    "mllib/gaussian_mixture_model.py": ["data/mllib/kmeans_data.txt", "2"],
    "mllib/logistic_regression.py": ["data/mllib/sample_svm_data.txt", "5"],
    "mllib/sampled_rdds.py": ["data/mllib/sample_binary_classification_data.txt"],
    "mllib/word2vec.py": ["data/mllib/sample_lda_data.txt"],
    "pagerank.py": ["data/mllib/pagerank_data.txt", "5"],
    "sort.py": ["data/mllib/sample_lda_data.txt"],
    "transitive_closure.py": ["2"],
    "wordcount.py": ["data/mllib/sample_lda_libsvm_data.txt"],
}
"""Arguments for examples that need some, and smaller ones for examples that take long."""
EXAMPLE_LIMIT_S = 180


def examples_like(folder: Path, patterns: list[str]) -> list[str]:
    """Return the examples' paths below their folder that match a pattern, in order."""
    found = sorted(str(path.relative_to(folder)) for path in folder.rglob("*.py") if path.name != "__init__.py")
    waiting = [name for name in found if any(fnmatch.fnmatch(name, pattern) for pattern in WAIT_FOR_OTHERS)]
    return [name for name in found if name not in waiting and any(fnmatch.fnmatch(name, pattern) for pattern in patterns)]


def run_example(folder: Path, name: str) -> dict[str, str]:
    """Run the example; return its output, and how it ended: an empty text is success."""
    printed, ended, begun_s = io.StringIO(), "", time.monotonic()
    sys.argv = [str(folder / name), *EXAMPLE_ARGUMENTS.get(name, [])]
    signal.alarm(EXAMPLE_LIMIT_S)
    try:
        with contextlib.redirect_stdout(printed):
            runpy.run_path(str(folder / name), run_name="__main__")
    except SystemExit as end:
        ended = f"exit {end.code}"
    except Exception as error:  # noqa: BLE001 - whatever an example raises is how it ended
        ended = type(error).__name__
        traceback.print_exc(limit=-1)
    finally:
        signal.alarm(0)
    SparkSession.builder.getOrCreate().catalog.clearCache()
    print(f"{name}: {ended or 'success'} after {time.monotonic() - begun_s:.1f} s", file=sys.stderr)
    return {"printed": printed.getvalue(), "ended": ended}


def share_context() -> None:
    """Give all examples one context that none of them stops: executors of its own would be most of an example's time."""
    context = SparkSession.builder.enableHiveSupport().getOrCreate().sparkContext
    SparkContext.__new__ = lambda *_args, **_options: context
    SparkContext.__init__ = lambda *_args, **_options: None
    SparkSession.stop = SparkContext.stop = lambda _self: None
    stop_streaming = StreamingContext.stop
    StreamingContext.stop = lambda self, *_args, **_options: stop_streaming(self, stopSparkContext=False)


def give_up(_signal: int, _frame: FrameType | None) -> None:
    raise TimeoutError(f"an example ran for more than {EXAMPLE_LIMIT_S} s")


if __name__ == "__main__":
    answers, patterns = Path(sys.argv[1]), sys.argv[2:] or ["*"]
    signal.signal(signal.SIGALRM, give_up)
    share_context()
    below = Path(_find_spark_home()) / "examples" / "src" / "main" / "python"
    answers.write_text(json.dumps({name: run_example(below, name) for name in examples_like(below, patterns)}))
