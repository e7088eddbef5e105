"""Samples of executors and views of applications with plain numbers, of which a test changes what it is about."""

from __future__ import annotations

from typing import Any

from msgspec import structs

from controller.wire.command import ApplicationView
from controller.wire.states import ApplicationState
from controller.wire.worker import Sample

SAMPLE = Sample(
    application_id="", executor_id="1", time_s=0.0, stage=0, set_point=None, progress=None, demand=1.0, grant=1.0, quota=1.0,
    usage=None, cpu_core_s=0.0,
)  # fmt: skip
VIEW = ApplicationView(application_id="pace-1", name="job", state=ApplicationState.RUNNING, law="forecast", priority=50)


def sample(time_s: float, executor_id: str = "1", **changed: Any) -> Sample:
    return structs.replace(SAMPLE, time_s=time_s, executor_id=executor_id, **changed)


def view(**changed: Any) -> ApplicationView:
    return structs.replace(VIEW, **changed)
