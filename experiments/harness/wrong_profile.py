"""Profiles that are wrong on purpose, for real runs and simulated ones: some runs' records, every work and time off alike."""

from __future__ import annotations

from collections.abc import Collection

from msgspec import structs

from controller.runs.profile_store import ProfileStore
from stage_model.errors import BadInput
from stage_model.history.profile import Profile, RunRecord, StageRecord, profile
from stage_model.history.signature import call_site


def off_by(stage: StageRecord, factor: float) -> StageRecord:
    """Return the record of a stage that took `factor` times the work and the time."""
    return structs.replace(
        stage,
        work_core_s=factor * stage.work_core_s,
        run_s=factor * stage.run_s,
        task_s=factor * stage.task_s,
        duration_s=factor * stage.duration_s,
        cold_core_s=None if stage.cold_core_s is None else factor * stage.cold_core_s,
        cores_s=None if stage.cores_s is None else factor * stage.cores_s,
    )


def _run_off_by(run: RunRecord, factor: float) -> RunRecord:
    stages = (structs.replace(stage, name=call_site(stage.name)) for stage in run.stages)
    return structs.replace(run, stages=tuple(off_by(stage, factor) for stage in stages))


def taught_by(store: ProfileStore, runs: Collection[str], factor: float) -> Profile:
    """Return the profile that only these runs taught, `factor` times. Its stages' names have no paths, because results are
    published. Raise `BadInput` when the store has none of these runs."""
    for key in store.list():
        known = store.load(key)
        kept = [run for run in known.runs if run.id in runs] if known else []
        if kept:
            return profile(key, [_run_off_by(run, factor) for run in kept])
    raise BadInput(f"no stored profile has a run {' or '.join(runs)}; the base runs come first, in the same folder")
