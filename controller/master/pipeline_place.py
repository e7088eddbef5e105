"""Which pipeline an application is part of, and which of its jobs it is. Also of applications that ended long ago."""

from __future__ import annotations

from typing import NamedTuple

from controller.master.application import ApplicationRecord
from controller.master.vouching import NOBODY

Key = tuple[int, str, str]
"""User, name of a pipeline, and run of its file, if it has one."""


class PipelinePlace(NamedTuple):
    """`job` is empty without a file."""

    key: Key
    job: str


def pipeline_place(record: ApplicationRecord) -> PipelinePlace | None:
    """None for one that names no pipeline."""
    said, uid = record.options.pipeline, record.registration.uid
    if said is None:
        return None
    if said.plan is not None:
        return PipelinePlace((uid, said.name, said.plan.run), said.plan.job)
    # drivers that nobody vouches for are not one user's
    return PipelinePlace((uid, said.name, record.application_id if uid == NOBODY else ""), "")
