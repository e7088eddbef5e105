"""A cluster in containers whose further workers a program starts (`--provider command`)."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from tests.integration.engine import containers_in
from tests.integration.local_cluster import PROGRAM, LocalCluster

STARTER = """#!{python}
import json, os, signal, subprocess, sys
from pathlib import Path

verb, name, *size = sys.argv[1:]
home = os.environ["SPARKPACE_HOME"]
record = Path(home, f"{{name}}.pid")
if verb == "start":
    cores, memory, resources, labels = size
    words = ["agent", "--home", home, "--worker-id", name, "--cores", cores, "--memory", memory, "--runtime", "docker",
             "--resources", resources, "--labels", labels, "--master", os.environ["SPARKPACE_MASTER"], "--host", "127.0.0.4",
             "--network", "host"]
    with open(Path(home, "logs", f"agent-{{name}}.log"), "ab") as log:
        agent = subprocess.Popen([*{command!r}, *words], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                 start_new_session=True)
    record.write_text(str(agent.pid))
elif record.exists():
    os.kill(int(record.read_text()), signal.SIGTERM)
    record.unlink()
"""


def grown_by_a_program(folder: Path, docker_engine: Any, *options: str) -> AbstractContextManager[LocalCluster]:
    """Start a cluster in `folder` with these options of `up`; nothing of it may stay. Workers are on the host's network,
    because they have names of their own, by which Spark knows executors only there."""
    starter = folder / "starter.py"
    starter.write_text(STARTER.format(python=sys.executable, command=PROGRAM))
    starter.chmod(0o755)
    provider = ("--provider", "command", "--provider-command", str(starter), "--idle", "3s")
    return containers_in(docker_engine, folder, *options, "--network", "host", *provider)
