"""Signals reach the process that is meant and no other of its number."""

from __future__ import annotations

import dataclasses
import signal
import subprocess
from collections.abc import Iterator

import pytest

from controller.machine import process_identity


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "1000"]) as process:
        yield process
        process.kill()


def test_a_signal_reaches_that_very_process(sleeper: subprocess.Popen[bytes]) -> None:
    found = process_identity.of(sleeper.pid)
    assert found is not None
    for other in (
        dataclasses.replace(found, start_ticks=found.start_ticks + 1),
        dataclasses.replace(found, boot_id="another boot"),
    ):
        assert process_identity.send_signal(other, signal.SIGKILL)  # it is gone: no process is left to signal
    assert sleeper.poll() is None
    assert process_identity.send_signal(found, signal.SIGTERM)
    assert sleeper.wait(30) == -signal.SIGTERM
    assert process_identity.send_signal(found, signal.SIGKILL)
