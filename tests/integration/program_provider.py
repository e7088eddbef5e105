"""A cluster in containers whose further workers a program starts (`--provider command`)."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controller.home import Home
from controller.start import ours
from tests.integration.engine import Engine
from tests.integration.local_cluster import LocalCluster, eventually

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


@contextmanager
def grown_by_a_program(folder: Path, docker_engine: Any, *options: str) -> Iterator[LocalCluster]:
    """Start a cluster in `folder` with these options of `up`; nothing of it may stay. Workers are on the host's network,
    because they have names of their own, by which Spark knows executors only there."""
    (folder / "shown").mkdir()
    starter = folder / "starter.py"
    starter.write_text(STARTER.format(python=sys.executable, command=ours("controller.cli.main")))
    starter.chmod(0o755)
    cluster = LocalCluster(Home(folder / "home"), "docker")
    try:
        provider = ("--provider", "command", "--provider-command", str(starter), "--idle", "3s")
        cluster.up(*options, "--network", "host", *provider)
        engine = Engine(docker_engine, cluster.cluster().cluster_id)
        yield cluster
    finally:
        cluster.down()
    assert engine.containers() == [], "`down` left containers behind"
    eventually(lambda: not cluster.left(), "the end of the cluster's processes")
