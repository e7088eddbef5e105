"""Runs workload scripts one after the other in one process, as `__main__`, in one SparkContext: twenty take minutes.

Reads a JSON list of argument lists (the script first), writes a JSON list of {code, sentence, output} as its last line.
"""

from __future__ import annotations

import io
import json
import runpy
import sys
from contextlib import redirect_stdout
from typing import Any

import pyspark


def run(words: list[str]) -> dict[str, Any]:
    sys.argv = words
    ended: object = None
    output = io.StringIO()
    with redirect_stdout(output):
        try:
            runpy.run_path(words[0], run_name="__main__")
        except SystemExit as end:
            ended = end.code
    # As Python itself ends: a text is for stderr, and the code is 1.
    sentence = ended if isinstance(ended, str) else None
    return {"code": 1 if sentence else ended or 0, "sentence": sentence, "output": output.getvalue()}


def share_context() -> None:
    """Give scripts that make and stop a SparkContext, or a session, one and the same, which goes on."""
    context = pyspark.SparkContext()
    context.stop = lambda: None

    class Shared(pyspark.SparkContext):  # type: ignore[misc]  # sessions look into the class, too
        def __new__(cls, appName: str) -> pyspark.SparkContext:  # noqa: N803
            return context

    pyspark.SparkContext = Shared


if __name__ == "__main__":
    share_context()
    print(json.dumps([run(words) for words in json.load(sys.stdin)]))
