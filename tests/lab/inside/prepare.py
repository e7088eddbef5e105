"""Prepares a machine of the lab for the project that was copied to it: the command `sparkpace`, the metadata by which it
knows its version, and what passes for a Java, a Spark and a bridge where executors are plain processes."""

from __future__ import annotations

import compileall
import sys
import tomllib
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(SOURCE))

from tests.fakes.worker import make_bridge  # noqa: E402 - the path first

STANDIN = Path("/opt/standin")
COMMAND = f'#!/bin/sh\nexec {sys.executable} {SOURCE}/controller/start.py controller.cli.main "$@"\n'
JAVA = """\
#!/bin/sh
case $1 in -version) echo 'openjdk version "21.0.0"' >&2; exit ;; esac
while :; do sleep 1; done
"""
"""A Java that is an executor of few words: it runs until it is ended."""


def write_program(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)


project = tomllib.loads((SOURCE / "pyproject.toml").read_text())["project"]
metadata = SOURCE / f"{project['name']}-{project['version']}.dist-info" / "METADATA"
metadata.parent.mkdir(exist_ok=True)
metadata.write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: {project['version']}\n")
write_program(Path("/usr/local/bin/sparkpace"), COMMAND)
write_program(STANDIN / "bin" / "java", JAVA)
(STANDIN / "spark" / "jars").mkdir(parents=True, exist_ok=True)
make_bridge(STANDIN / "bridge.jar")
for folder in ("stage_model", "placement", "master_memory", "controller"):
    compileall.compile_dir(SOURCE / folder, quiet=2)  # root's: an ordinary user could not keep what it compiles
