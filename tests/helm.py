"""Helm's own code, by the Python package helm-python-sdk, which holds Helm's library: for tests of the chart.

Each call is a process of its own, because the library brings threads and signal handlers, and so that a call has a time-out.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

CHART = Path(__file__).resolve().parents[1] / "deploy" / "kubernetes"
CALL_S = 300.0
"""Seconds of the longest call. All calls take seconds, but a machine may be loaded."""


class Refused(Exception):
    """Helm did not do what it was asked to; the text is Helm's."""


def helm(action: str, *words: Any, cluster: Mapping[str, Any] | None = None, **options: Any) -> Any:
    """Return the answer of a function of the package, or of a method of its `Config` where `cluster` has its arguments.
    "render" takes a chart and values. Raise `Refused` for Helm's errors."""
    asked = json.dumps([action, words, options, cluster], default=str)
    with tempfile.TemporaryDirectory() as home:
        done = subprocess.run(
            [sys.executable, __file__],
            input=asked,
            env={**os.environ, "HOME": home, "TMPDIR": home},
            capture_output=True,
            text=True,
            timeout=CALL_S,
            check=False,
        )
    if done.returncode != 0:
        raise Refused(done.stderr.strip())
    return json.loads(done.stdout)


def main() -> None:
    import helm_python

    action, words, options, cluster = json.load(sys.stdin)
    try:
        if cluster is not None:
            with helm_python.Config(**cluster) as config:
                answer = getattr(config, action)(*words, **options)
        elif action == "render":
            chart, values = words
            with helm_python.Chart.load(chart) as loaded:
                answer = loaded.render(values, **options)
        else:
            answer = getattr(helm_python, action)(*words, **options)
    except helm_python.HelmError as problem:
        sys.exit(str(problem))
    json.dump(answer, sys.stdout)


if __name__ == "__main__":
    main()
