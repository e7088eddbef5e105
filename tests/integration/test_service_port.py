"""The bridge's look for the port at which its driver serves, in a JVM of its own; no Spark is started."""

from __future__ import annotations

import socket
import subprocess

import pytest

pytestmark = pytest.mark.spark


def test_only_a_port_at_which_the_process_itself_listens_counts(classes: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as others:
        port = others.getsockname()[1]
        command = ["java", "-cp", classes, "org.sparkpace.bridge.ListensHarness", str(port)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["true", "false", "false"]
