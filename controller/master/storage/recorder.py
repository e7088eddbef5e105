"""Run folders on the master's disk: samples as they come, the summary at the end, old runs removed.

`controller.runs.run_folder` says what is in a folder; `summary` works out its figures.
"""

from __future__ import annotations

import errno
import logging
import os
import shutil
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import structs

from controller.machine.files import no_space
from controller.runs.run_folder import (
    SUMMARY,
    append_quotas,
    append_samples,
    read_samples,
    samples_size,
    write_stages,
    write_summary,
)
from controller.wire.course import StageCourse
from controller.wire.limits import SAMPLES_BYTES
from controller.wire.worker import Sample
from stage_model.errors import NotStored

log = logging.getLogger("sparkpace.master")

DATED_APART_NS = 1_000_000
"""Nanoseconds between the dates of two records; finer than any file system tells apart would not order them."""


MOST_UNWRITTEN = 100_000
"""Samples kept while the disk is full, of all runs together: some 50 MB."""


class Recorder:
    """The writer of run folders. `keep_runs`: finished runs kept, the newest ones. Samples that a full disk does not take are
    written once it has room."""

    def __init__(self, runs: Path, keep_runs: int) -> None:
        self.runs, self.keep_runs = runs, keep_runs
        self._unwritten: dict[str, list[Sample]] = {}
        self._lock = threading.Lock()
        """Records are written off the master's loop, which takes samples in."""

    def folder(self, application_id: str) -> Path:
        return self.runs / application_id

    def begin(self, application_id: str) -> None:
        self.folder(application_id).mkdir(parents=True, exist_ok=True, mode=0o700)

    @contextmanager
    def begun(self, application_id: str) -> Iterator[None]:
        """Run `begin`, and leave nothing behind where the block fails. Raise `NotStored` where no folder can be made."""
        try:
            self.begin(application_id)
        except OSError as error:
            raise NotStored(
                f"{self.folder(application_id)} cannot be made ({error.strerror}), so no run can be recorded; retry "
                f"when it can"
            ) from error
        try:
            yield
        except BaseException:
            with suppress(OSError):  # the folder was there before, with records in it
                self.folder(application_id).rmdir()
            raise

    def recorded(self, application_id: str) -> bool:
        return (self.folder(application_id) / SUMMARY).exists()

    def add(self, application_id: str, samples: Sequence[Sample]) -> bool:
        """Append samples to the run's table; samples of a removed run are dropped. Return False if the table is as large as
        it may be, and they are left out. Raise `OSError` if some of them are lost."""
        with self._lock:
            kept = self._unwritten.pop(application_id, [])
            folder = self.folder(application_id)
            if not folder.is_dir():
                return True
            if samples_size(folder) > SAMPLES_BYTES:
                return False
            try:
                append_samples(folder, [*kept, *samples])
            except OSError as error:
                if not no_space(error):
                    raise
                room = MOST_UNWRITTEN - sum(map(len, self._unwritten.values()))
                self._unwritten[application_id] = [*kept, *samples][:room]
                if len(kept) + len(samples) > room:
                    raise
                return True
            self._add_quotas(folder, [*kept, *samples])
            return True

    @staticmethod
    def _add_quotas(folder: Path, samples: Sequence[Sample]) -> None:
        """Record the ordered quotas, which are for people to read: where they cannot be written, they are left out."""
        quotas = [structs.replace(one, executor_id=sample.executor_id) for sample in samples for one in sample.ordered]
        if not quotas:
            return
        try:
            append_quotas(folder, quotas)
        except OSError as error:
            log.warning("%d quota changes of %s are not recorded: %s", len(quotas), folder.name, error)

    def samples(self, application_id: str) -> list[Sample]:
        """Return all samples of a run, once they are written. Raise `OSError` where they cannot be written or read."""
        self.add(application_id, ())
        with self._lock:
            if application_id in self._unwritten:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(self.folder(application_id)))
        return read_samples(self.folder(application_id))

    def finish(self, application_id: str, summary: Mapping[str, Any], stages: Iterable[StageCourse]) -> list[str]:
        """Write the record, also where the folder has gone; return the ids of old runs removed to keep `keep_runs`."""
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
