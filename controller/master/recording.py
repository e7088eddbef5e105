"""The writing of runs' records off the master's loop: the figures from the samples, the run folder, the profile's lesson."""

from __future__ import annotations

import logging
from concurrent.futures import Executor, Future
from dataclasses import asdict

from controller.machine.files import no_space
from controller.master.core.application import Application
from controller.master.core.lesson import NoLesson, untaught
from controller.master.core.records import Records
from controller.master.core.run_ending import RunEnding
from controller.master.core.summary import use_between
from controller.master.storage.recorder import Recorder
from controller.runs.profile_store import ProfileStore
from controller.wire.basis import Untaught
from stage_model.errors import NotStored, PaceError
from stage_model.forecast.bounds import StageBound, run_bounds

log = logging.getLogger("sparkpace.master")

Written = tuple[Untaught | None, list[str]]
"""The reason if the run taught nothing, and the ids of old runs that were removed."""


class Recording:
    """The records that are being written, on threads of `pool`."""

    def __init__(self, records: Records, recorder: Recorder, profiles: ProfileStore, pool: Executor) -> None:
        self.records, self.recorder, self.profiles, self.pool = records, recorder, profiles, pool
        self._under_way: dict[str, Future[Written]] = {}

    def begin(self, ending: RunEnding) -> None:
        self._under_way[ending.application_id] = self.pool.submit(write_record, ending, self.recorder, self.profiles)

    def look(self, applications: dict[str, Application], now_s: float) -> None:
        """Tell the core which records are written by now, and which could not be."""
        for application_id, future in [(key, one) for key, one in self._under_way.items() if one.done()]:
            del self._under_way[application_id]
            application, error = applications[application_id], future.exception()
            if error is None:
                self.records.written(application, *future.result())
            else:
                self.records.failed(application, error, now_s, passes=no_space(error) or isinstance(error, NotStored))


def write_record(ending: RunEnding, recorder: Recorder, profiles: ProfileStore) -> Written:
    """Write the record and teach the profile. Raise `PaceError` and `OSError`. A record that is written twice is the same."""
    try:
        use = use_between(recorder.samples(ending.application_id), ending.first_task_s, ending.last_task_s)
        used = {name: round(value, 3) for name, value in asdict(use).items()}
    except PaceError as error:
        log.error("%s: what it used is not known: %s", ending.application_id, error)
        used = {}
    why = _teach(ending, profiles)
    stages = {"largest_stages": _largest_stages(ending) if why is None else ()}
    taught = {"taught": why is None, "untaught": why}
    removed = recorder.finish(ending.application_id, {**ending.summary, **used, **stages, **taught}, ending.stages)
    return why, removed


def _largest_stages(ending: RunEnding) -> tuple[StageBound, ...]:
    """Return the bounds of the largest stages of a run that has taught; they are not known of any other."""
    if ending.lesson is None:
        return ()
    try:
        return run_bounds(ending.lesson)
    except (PaceError, ValueError, ArithmeticError) as error:
        # whatever is wrong with its figures, the run's record is written
        log.error("%s: what bounds its stages is not known: %s", ending.application_id, error)
        return ()


def _teach(ending: RunEnding, profiles: ProfileStore) -> Untaught | None:
    """Teach the profile. Return the reason if that is not possible."""
    if ending.lesson is None:
        log.info("%s teaches nothing: %s", ending.application_id, ending.untaught.sentence if ending.untaught else "")
        return ending.untaught
    try:
        profiles.learn(ending.profile_key, ending.lesson, newest=True)
    except (PaceError, OSError, ValueError, ArithmeticError) as error:
        if no_space(error):
            raise  # the record has no room either, and both are tried again
        # whatever is wrong with the profile, the run's record is written
        log.error("%s could not teach profile %s: %s", ending.application_id, ending.profile_key, error)
        return untaught(NoLesson.PROFILE, str(error))
    return None
