"""Savings of the runs that were only watched, from their records and profiles. No master is needed.

Each executor held the cores that it could use, from its first sample to its last one, and used its CPU until then. Not
covered: what pacing would have saved (`stage_model.forecast.saving`).
"""

from __future__ import annotations

import functools
import logging
import math
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec

from controller.runs.profile_store import ProfileStore
from controller.runs.run_folder import read_samples, read_summary, samples_size
from controller.runs.run_folders import RunFolder, dated_records, ended_folders, find_ended_run
from controller.wire.course import Money, RunSavings, Savings, SavingsReply
from controller.wire.worker import Sample, cores_between, samples_by_executor
from stage_model.errors import BadInput
from stage_model.forecast.saving import WatchedSaving, watched_saving
from stage_model.history.held import Held, cores_over
from stage_model.history.profile import Profile

log = logging.getLogger("sparkpace.master")

ONE_RUN = "one run gives no interval"
SAVINGS_BYTES = 16 << 20
"""Most bytes of samples that are read for an answer to the live page: two hundred thousand rows."""
LoadProfile = Callable[[str], Profile | None]


class _Record(msgspec.Struct, frozen=True):
    """The part of a run's summary that counts here."""

    name: str = ""
    observed: bool = False
    violated: bool | None = None
    deadline_s: float | None = None
    end_s: float = 0.0
    profile: str = ""
    untaught: dict[str, Any] | None = None


def savings_of(runs: Path, profiles: ProfileStore, wanted: Sequence[str], price: float | None) -> Savings:
    """Return the savings of the watched runs that have ended: for the `wanted` runs (as `find_run` takes them), or for all.
    Raise `BadInput` if there is no such run, or a wanted one was paced."""
    folders = {run.application_id: run for run in (find_ended_run(runs, word) for word in wanted)}
    found = [(run, _record(run)) for run in (folders.values() if wanted else ended_folders(runs))]
    watched = [(run, record) for run, record in found if record.observed]
    if wanted and (paced := [run.application_id for run, record in found if not record.observed]):
        raise BadInput(f"run {paced[0]} was paced, not only watched; name runs that were submitted with --observe")
    if not watched:
        raise BadInput(
            f"no run in {runs} that has ended was only watched; submit one with --observe, or start `sparkpace up --observe`"
        )
    load = functools.cache(profiles.load)  # most runs are of few jobs
    return summed([_savings_of_run(run, record, load) for run, record in watched], price)


class NewestSavings:
    """The savings of the newest watched runs, as the live page shows them. They are worked out again when another run has
    ended. Several threads must not use this at once."""

    def __init__(self, runs: Path, profiles: ProfileStore, most_bytes: int = SAVINGS_BYTES) -> None:
        self.runs, self.profiles, self.most_bytes = runs, profiles, most_bytes
        self._last: tuple[list[tuple[float, Path]], SavingsReply] | None = None

    def find(self) -> SavingsReply:
        """Return the savings in the order in which the runs ended. A run that cannot be read is left out, and the log says
        so."""
        ended = dated_records(self.runs)
        if self._last is None or self._last[0] != ended:
            self._last = (ended, self._work_out([folder for _, folder in ended]))
        return self._last[1]

    def _work_out(self, folders: Sequence[Path]) -> SavingsReply:
        """Work out the answer, from the newest run to the oldest. A run is left out if its samples have more bytes than the
        newer runs leave of `most_bytes`."""
        load = functools.cache(self.profiles.load)
        shown, left, left_out = list[RunSavings](), self.most_bytes, 0
        for folder in reversed(folders):
            try:
                run = RunFolder(folder, read_summary(folder))
                record = _record(run)
                if not record.observed:
                    continue
                size = samples_size(folder)
                if size > left:
                    left_out += 1
                    continue
                shown.append(_savings_of_run(run, record, load))
                left -= size
            except (BadInput, FileNotFoundError) as error:  # damaged, or an old run that has just been removed
                log.warning("the savings of run %s are not shown: %s", folder.name, error)
                left_out += 1
        return SavingsReply(savings=summed(shown[::-1], None), left_out=left_out)


def summed(runs: Sequence[RunSavings], price: float | None) -> Savings:
    """Return the runs with their sums; `price` of a core-hour, in money."""
    known = [run for run in runs if run.saved_core_s is not None]
    saved = math.fsum(run.saved_core_s or 0.0 for run in known)
    least, most = _sum([run.least_core_s for run in known]), _sum([run.most_core_s for run in known])
    money = None
    if price is not None:
        least_money, most_money = (None if core_s is None else core_s / 3600 * price for core_s in (least, most))
        money = Money(price=price, saved=saved / 3600 * price, least=least_money, most=most_money)
    return Savings(
        applications=tuple(runs),
        held_core_s=math.fsum(run.held_core_s for run in runs),
        used_core_s=math.fsum(run.used_core_s for run in runs),
        saved_core_s=saved,
        least_core_s=least,
        most_core_s=most,
        money=money,
    )


def _sum(parts: Sequence[float | None]) -> float | None:
    """Return the sum; None where a part is not known, or there is no part."""
    there = [part for part in parts if part is not None]
    return math.fsum(there) if parts and len(there) == len(parts) else None


def _record(run: RunFolder) -> _Record:
    try:
        return msgspec.convert(run.summary, _Record)
    except msgspec.ValidationError as error:
        raise BadInput(f"the record of run {run.application_id} is damaged ({error}); name other runs") from error


def _savings_of_run(run: RunFolder, record: _Record, load: LoadProfile) -> RunSavings:
    held, used_core_s = held_and_used(read_samples(run.path), record.end_s)
    found, remark = _saving(run.application_id, record, held, load)
    return RunSavings(
        application_id=run.application_id,
        name=record.name,
        on_time=None if record.deadline_s is None or record.violated is None else not record.violated,
        deadline_s=record.deadline_s,
        end_s=record.end_s,
        held_core_s=held.core_s,
        used_core_s=used_core_s,
        least_deadline_s=None if found is None else found.least_deadline_s,
        saved_core_s=None if found is None else found.saved_core_s,
        least_core_s=None if found is None else found.least_core_s,
        most_core_s=None if found is None else found.most_core_s,
        remark=remark,
    )


def _saving(application_id: str, record: _Record, held: Held, load: LoadProfile) -> tuple[WatchedSaving | None, str]:
    """Return the saving and a remark on it; without the saving, the remark is the reason."""
    if record.untaught is not None:
        return None, str(record.untaught.get("sentence", "it taught nothing"))
    try:
        known = load(record.profile)
        if known is None:
            return None, f"profile {record.profile!r}, which it taught, is not there any more"
        found = watched_saving(known, application_id, held, record.deadline_s)
    except BadInput as error:
        return None, str(error)
    return found, ONE_RUN if found.runs == 1 else ""


def held_and_used(samples: Iterable[Sample], end_s: float) -> tuple[Held, float]:
    """Return the cores that the executors held, and the core-seconds of CPU that they used."""
    spans, used = list[tuple[float, float, float]](), 0.0
    for rows in samples_by_executor(samples):
        used += rows[-1].cpu_core_s
        spans += [(before.time_s, after.time_s, cores_between(before, after)) for before, after in pairwise(rows)]
    return cores_over(spans, end_s), used
