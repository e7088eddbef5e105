"""Input files of workloads, made once in a result folder. A job's words and options name them: `{out}/graph.txt`,
`{out}/tpch-SCALE`, `{out}/tpcds-SCALE`, `{out}/spark-data`, `{out}/spark-data-TIMES-FILE`, `{out}/hosted.jar`,
`hosted://{out}/hosted-MEGABYTES-HOST+HOST`, `hosted://{out}/hosted-MEGABYTES-HOST_HOST`, `{out}/eventlogs`.

    python -m experiments.workloads.inputs DIR/tpch-1      the same by hand

`graph.txt` is Debian's package graph (`debian_graph`); `tpch-SCALE` are the eight tables of TPC-H as Parquet, by
`tpcgen-cli`, at that scale factor (1: six million line items), `tpcds-SCALE` the 24 of TPC-DS. `spark-data` is a folder
with the `data` that Spark's own examples read; with `-TIMES-FILE` the lines of that file are repeated that many times.
`hosted-...` are files on those hosts (`hosted`), with `_` each file on both; what `scan` is to find in them is next to the
folder. `eventlogs` is an empty folder, in which Spark leaves event logs.
"""

from __future__ import annotations

import lzma
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path

from controller.submit.spark_install import find_spark
from experiments.workloads import hosted, scan
from experiments.workloads.pagerank import DATA
from stage_model.errors import BadInput

OUT = re.compile(r"\{out\}/([^/,]+)")
HOSTED = re.compile(r"hosted-(\d+)-([0-9.+_]+)")
JAR = "hosted.jar"
GRAPH = "graph.txt"
EVENT_LOGS = "eventlogs"
TPC = re.compile(r"(tpch|tpcds)-(\d+(?:\.\d+)?)")
SPARK_DATA = re.compile(r"spark-data(?:-([1-9]\d*)-([^/]+))?")


def prepare_inputs(folder: Path, words: Iterable[str]) -> None:
    """Make the inputs that the words name and `folder` does not have yet. Raise `BadInput` for an unknown name."""
    for word in words:
        for name in OUT.findall(word):
            make_input(folder / name)


def make_input(path: Path) -> None:
    """Make the input of that name, whole or not at all."""
    if path.exists():
        return
    tpc, on_hosts, spark = TPC.fullmatch(path.name), HOSTED.fullmatch(path.name), SPARK_DATA.fullmatch(path.name)
    temporary = path.with_name(f".{path.name}")
    shutil.rmtree(temporary, ignore_errors=True)
    if path.name == GRAPH:
        temporary.write_bytes(lzma.decompress(DATA.read_bytes()))
    elif path.name == EVENT_LOGS:
        temporary.mkdir()
    elif path.name == JAR:
        hosted.make_jar(temporary)
    elif on_hosts:
        hosted.make_files(temporary, on_hosts[2].split("+"), int(on_hosts[1]))
    elif tpc:
        _generate(temporary, tpc[1], tpc[2])
    elif spark:
        shutil.copytree(find_spark(os.environ).home / "data", temporary / "data")
        if spark[2]:
            _repeat(temporary / "data", spark[2], int(spark[1]))
    else:
        accepted = (
            f"{GRAPH}, {JAR}, {EVENT_LOGS}, tpch-SCALE, tpcds-SCALE, spark-data-TIMES-FILE and hosted-MEGABYTES-HOST+HOST"
        )
        raise BadInput(f"{path} is no input of a workload; there are {accepted}")
    temporary.rename(path)
    if on_hosts:
        scan.expected(path)


def find_tool() -> str | None:
    """Return the generator of this Python's environment, else of the PATH."""
    return shutil.which("tpcgen-cli", path=sysconfig.get_path("scripts")) or shutil.which("tpcgen-cli")


def _repeat(data: Path, name: str, times: int) -> None:
    """Repeat the lines of the file of that name, `times` in all. Raise `BadInput` unless exactly one such file is below
    `data`."""
    found = list(data.rglob(name))
    if len(found) != 1:
        raise BadInput(f"Spark's example data have {len(found)} files of the name {name}; one is needed")
    content = found[0].read_bytes()
    found[0].write_bytes((content if content.endswith(b"\n") else content + b"\n") * times)


def _generate(folder: Path, benchmark: str, scale: str) -> None:
    tool = find_tool()
    if tool is None:
        raise BadInput("tpcgen-cli is not installed; it comes with the extra: pip install 'sparkpace[experiments]'")
    words = [tool, benchmark, "parquet", "--scale-factor", scale, "--output-dir", str(folder)]
    code = subprocess.run(words, check=False).returncode
    if code != 0:
        raise BadInput(f"tpcgen-cli made no tables of scale {scale}: it ended with code {code}, and said above why")


if __name__ == "__main__":
    try:
        make_input(Path(sys.argv[1]).absolute())
    except BadInput as problem:
        sys.exit(f"inputs: {problem}")
