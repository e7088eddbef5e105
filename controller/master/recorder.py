"""Run folders on the master's disk: samples as they come, the summary at the end, old runs removed.

What is in a folder is `controller.runs.run_folder`'s; which figures, `summary`'s.
"""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from controller.runs.run_folder import (
    SUMMARY,
    StageSpan,
    append_samples,
    read_samples,
    samples_size,
    write_stages,
    write_summary,
)
from controller.wire.limits import SAMPLES_BYTES
from controller.wire.worker import Sample

log = logging.getLogger("sparkpace.master")

DATED_APART_NS = 1_000_000
"""Nanoseconds between the dates of two records; finer than any file system tells apart would not order them."""


class Recorder:
    """`keep_runs`: finished runs kept, the newest ones."""

    def __init__(self, runs: Path, keep_runs: int) -> None:
        self.runs, self.keep_runs = runs, keep_runs

    def folder(self, application_id: str) -> Path:
        return self.runs / application_id

    def begin(self, application_id: str) -> None:
        self.folder(application_id).mkdir(parents=True, exist_ok=True, mode=0o700)

    def recorded(self, application_id: str) -> bool:
        """Whether the record of that run is written."""
        return (self.folder(application_id) / SUMMARY).exists()

    def add(self, application_id: str, samples: Sequence[Sample]) -> bool:
        """Appends samples to the run's table; those of a run that was removed are dropped. False: the table is as large as it
        may be, and they are left out."""
        if not self.folder(application_id).is_dir():
            return True
        if samples_size(self.folder(application_id)) > SAMPLES_BYTES:
            return False
        append_samples(self.folder(application_id), samples)
        return True

    def samples(self, application_id: str) -> list[Sample]:
        return read_samples(self.folder(application_id))

    def finish(self, application_id: str, summary: Mapping[str, Any], stages: Iterable[StageSpan]) -> list[str]:
        """Writes the record, also where the folder has gone; returns the ids of old runs removed to keep `keep_runs`."""
        self.begin(application_id)
        write_stages(self.folder(application_id), stages)
        write_summary(self.folder(application_id), summary)
        finished = {path: path.stat().st_mtime_ns for path in self.runs.glob(f"*/{SUMMARY}")}
        mine = self.folder(application_id) / SUMMARY
        last_ns = max((ns for path, ns in finished.items() if path != mine), default=0)
        if finished[mine] <= last_ns:
            # the wall clock was set back: dates order the runs, and the newest must not be taken for an old one
            finished[mine] = last_ns + DATED_APART_NS
            os.utime(mine, ns=(finished[mine], finished[mine]))
        old = [path.parent for path in sorted(finished, key=finished.__getitem__, reverse=True)[self.keep_runs :]]
        for folder in old:
            shutil.rmtree(folder, ignore_errors=True)
            log.info("removed the record of run %s (--keep-runs %d)", folder.name, self.keep_runs)
        return [folder.name for folder in old]
