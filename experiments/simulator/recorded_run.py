"""A recorded run, reduced to the needs of a replay: one compressed file, made of a run folder and its application's profile.

    python -m experiments reduce ~/.sparkpace/runs/pace-... --profile ~/.sparkpace/profiles/KEY.json --to DIR/NAME.json.xz

The file holds no paths, no ids of applications and no host names. Not covered: running it again (`replay`).
"""

from __future__ import annotations

import lzma
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import structs

from controller.runs.run_folder import QUOTAS, quotas_from
from controller.wire.worker import Sample
from experiments.simulator.calibrate import read_recorded
from experiments.simulator.unlearned import Quotas, as_record
from stage_model.errors import BadInput
from stage_model.history.profile import Profile, RunRecord, StageRecord, profile
from stage_model.history.signature import call_site

SUFFIX = ".json.xz"


class RecordedRun(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One run. Seconds count from submission; `used_core_s` and `allocated_core_s` from the first to the last task. `record`
    is the record that the run taught or would have taught, `before` are the records that its law had been taught by, the
    oldest first. `inherited`: ordinals of the jobs that had the application's own settings as properties of their threads.
    `cancelled`: ordinals of the jobs that its program cancelled."""

    law: str
    settings: dict[str, float]
    deadline_s: float | None
    end_s: float
    first_task_s: float
    cluster_cores: float
    executors: int
    used_core_s: float
    allocated_core_s: float
    inherited: tuple[int, ...] = ()
    cancelled: tuple[int, ...] = ()
    record: RunRecord
    before: tuple[RunRecord, ...]

    @property
    def profile(self) -> Profile | None:
        """The profile that the run's law had."""
        return profile(self.record.name, self.before) if self.before else None


def reduce(folder: Path, taught: Profile, arguments: tuple[str, ...] | None = None) -> RecordedRun:
    """Return the run of a folder; `taught` is the profile of its application, which may hold the run itself and later ones.
    `arguments` are the program's own words, for a run that the profile lacks. Raise `BadInput` for a run that has not ended
    or has no stages or samples."""
    recorded = read_recorded(folder)
    summary = recorded.summary
    when_ms = round(1000 * float(summary["submitted_epoch_s"]))
    before = [run for run in taught.runs if run.when_ms < when_ms and run.id != summary["app_id"] and run.complete]
    own = next((run for run in taught.runs if run.id == summary["app_id"]), None)
    record = as_record(recorded, _quotas(recorded.samples, folder), before, arguments) if own is None else own
    return RecordedRun(
        law=summary["law"],
        settings=summary["settings"],
        deadline_s=summary["deadline_s"],
        end_s=summary["end_s"],
        first_task_s=summary["first_task_s"],
        cluster_cores=summary["cluster_cores"],
        executors=summary["executors"],
        used_core_s=summary["used_core_s"],
        allocated_core_s=summary["allocated_core_s"],
        inherited=_inherited(summary),
        cancelled=() if own is not None else (max(stage.job for stage in record.stages),),
        record=_plain(record, len(before)),
        before=tuple(_plain(run, number) for number, run in enumerate(before)),
    )


def _inherited(summary: Mapping[str, Any]) -> tuple[int, ...]:
    """Return the jobs whose own deadline was the application's: no program sets that, so these jobs had inherited it."""
    actions = [action for action in summary["actions"] if action["deadline_s"] == summary["deadline_s"]]
    return tuple(sorted(job for action in actions for job in action["jobs"]))


def _quotas(samples: Iterable[Sample], folder: Path) -> Quotas:
    """Return the first quota of each executor as it was sampled, and then every change."""
    found: dict[str, list[tuple[float, float]]] = {}
    for sample in samples:
        if sample.quota is not None:
            found.setdefault(sample.executor_id, [(sample.time_s, sample.quota)])
    if (folder / QUOTAS).exists():
        for change in quotas_from(folder, 0, (folder / QUOTAS).stat().st_size)[0]:
            found[change.executor_id].append((change.time_s, change.cores))
    return {executor: sorted(changes) for executor, changes in found.items()}


def _plain(run: RunRecord, number: int) -> RunRecord:
    """Return the record without the names of the application and its machine, and without the day; the order of runs
    stays."""
    stages = tuple(structs.replace(_rounded(stage), name=call_site(stage.name)) for stage in run.stages)
    return structs.replace(run, id=f"run-{number}", name="application", main=None, when_ms=number, stages=stages)


def _rounded(stage: StageRecord) -> StageRecord:
    """Return the record with floats rounded to a tenth of a millisecond, which is finer than the times of events."""
    fields = {name: round(value, 4) for name, value in structs.asdict(stage).items() if isinstance(value, float)}
    return structs.replace(stage, **fields)


def write_reduced(run: RecordedRun, path: Path) -> None:
    path.write_bytes(lzma.compress(msgspec.json.encode(run), preset=9 | lzma.PRESET_EXTREME))


def read_reduced(path: Path) -> RecordedRun:
    """Read a reduced run. Raise `BadInput` for a file that `write_reduced` did not make."""
    try:
        return msgspec.json.decode(lzma.decompress(path.read_bytes()), type=RecordedRun)
    except (lzma.LZMAError, msgspec.MsgspecError) as error:
        raise BadInput(f"{path} is no reduced run: {error}") from error


def reduced_runs(path: Path) -> dict[str, RecordedRun]:
    """Return all runs of a folder by their names."""
    return {file.name.removesuffix(SUFFIX): read_reduced(file) for file in sorted(path.glob(f"*{SUFFIX}"))}
