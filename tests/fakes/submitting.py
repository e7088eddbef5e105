"""A place to submit from: a home whose master answers (`fakes.master`), and a script where Spark's spark-submit would be."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.home import Cluster, Home
from controller.machine.files import write_whole
from controller.machine.process import find_process
from tests.fakes.master import TOKEN, Server, serving


@contextmanager
def submitting(folder: Path, monkeypatch: pytest.MonkeyPatch, script: str) -> Iterator[tuple[Path, Home, Server]]:
    """Provide the working directory, which this process is in, the home, and its master. The script finds
    `$ARGUMENTS_FILE`."""
    work, home = folder / "work", Home(folder / "home")
    (work / "spark" / "bin").mkdir(parents=True)
    program = work / "spark" / "bin" / "spark-submit"
    program.write_text(script)
    program.chmod(0o755)
    home.create()
    write_whole(home.submit_token_file, TOKEN.encode())
    monkeypatch.chdir(work)
    monkeypatch.setenv("SPARKPACE_HOME", str(home.path))
    monkeypatch.setenv("SPARK_HOME", str(work / "spark"))
    monkeypatch.setenv("ARGUMENTS_FILE", str(work / "arguments"))
    for name in ("SPARK_CONF_DIR", "SPARK_LOCAL_IP"):
        monkeypatch.delenv(name, raising=False)
    this = find_process(os.getpid())
    assert this is not None
    with serving(home) as master:
        port = master.server_port
        home.write_cluster(
            Cluster(cluster_id="c", url=master.url, host="127.0.0.1", port=port, runtime="process", master=this)
        )
        yield work, home, master
