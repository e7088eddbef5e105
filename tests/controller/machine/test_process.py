"""Signals reach the process that is meant and no other of its number."""

from __future__ import annotations

import signal
import subprocess
from collections.abc import Iterator

import pytest
from msgspec import structs

from controller.machine.process import find_process


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        yield process
        process.kill()


def test_a_signal_reaches_that_very_process(sleeper: subprocess.Popen[bytes]) -> None:
    found = find_process(sleeper.pid)
    assert found is not None
    for other in (structs.replace(found, start_ticks=found.start_ticks + 1), structs.replace(found, boot_id="another boot")):
        assert other.send(signal.SIGKILL)  # it is gone: no process is left to signal
    assert sleeper.poll() is None
    assert found.send(signal.SIGTERM)
    assert sleeper.wait(30) == -signal.SIGTERM
    assert found.send(signal.SIGKILL)
