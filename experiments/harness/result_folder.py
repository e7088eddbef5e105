"""One experiment's result folder: the questions, the findings, and the report of them.

    settings.json     spec, scenario, settings, seed: what another call must agree with
    sessions.jsonl    one line per call that ran something: when, commit, machine
    records.jsonl     one line per finished step (`recorded.StepRecord`)
    rows.jsonl        the same of steps without Spark (`RowStep`)
    withdrawn.json    written by hand: runs whose figures are no longer shown, and why (`Withdrawn`)
    explained.json    written by hand: by step, why it missed a goal (a sentence)
    runs/APP/         summary, samples, quota changes, stages, output and event log's record of every run
    profiles/         copied by hand from home/profiles, without paths, and back where the home is missing
    report.md, *.png  made from only the above, as often as wanted
    home/, logs/      the cluster's home and the jobs' output: for looking, no data

A step is recorded when all of it has ended, so an interrupted call loses at most its step. A finished folder can be packed:
settings, sessions, records, rows and runs are then one file, `data.tar.xz` (`packed`), which is read as the plain files are
and never written.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import structs

from controller.runs.log_profile import logged_run
from controller.runs.run_folder import QUOTAS, SAMPLES, SUMMARY, read_samples, read_stages, write_stages
from experiments.harness.packed import ARCHIVE, pack, unpack
from experiments.harness.recorded import Data, JobRecord, RowStep, StepRecord, Withdrawn
from experiments.workloads.inputs import EVENT_LOGS
from stage_model.errors import BadInput
from stage_model.history.profile import parse_profile, profile, profile_json
from stage_model.history.signature import call_site

DATA = ("settings.json", "sessions.jsonl", "records.jsonl", "rows.jsonl", "runs", "profiles")
"""Files and folders that a packed folder has in its archive."""
WITHDRAWN, EXPLAINED = "withdrawn.json", "explained.json"
"""Files that are written by hand, and never packed."""


LOGGED, OUTPUT = "logged.json", "output.txt"


class AskedCluster(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of `sparkpace up`. `executors`: the cluster manager that starts them instead, one of `harness.clusters`. A
    standalone cluster has `workers` with `slots` each, and each has `cores_each` (None: all of the machine's). `alone`: the
    cluster is up only for its own steps, and shares its home with others of this kind."""

    up: tuple[str, ...] = ()
    executors: str = ""
    workers: int = 2
    slots: int = 2
    cores_each: float | None = None
    alone: bool = False


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """settings.json. `cluster` are options of `sparkpace up`, `clusters` the options of several clusters by name. Repetitions
    may grow later; nothing else may change."""

    spec: str
    scenario: str
    title: str
    quick: bool
    seed: int
    cluster: tuple[str, ...]
    settings: dict[str, Any]
    clusters: dict[str, AskedCluster] = {}

    def repeated(self, times: int | None) -> Asked:
        """Return the same with that many repetitions; None leaves them."""
        if times is None:
            return self
        return msgspec.structs.replace(self, settings={**self.settings, "repetitions": times})


class Session(msgspec.Struct, frozen=True, kw_only=True):
    number: int
    when: str
    commit: str
    machine: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ResultFolder:
    """`path` has the report and files written by hand. The data are there, too, unless `unpacked` says where they are."""

    path: Path
    unpacked: Path | None = None

    @property
    def data_path(self) -> Path:
        return self.unpacked or self.path

    @property
    def settings_file(self) -> Path:
        return self.data_path / "settings.json"

    @property
    def runs(self) -> Path:
        return self.data_path / "runs"

    def open(self, asked: Asked, repetitions: int | None) -> Asked:
        """Return the experiment to run: a new folder takes `asked`, an old folder goes on with its own. Raise `BadInput`
        where they differ, and for a packed folder."""
        _refuse_packed(self.path)
        before = self.read_settings() if self.settings_file.exists() else None
        if before is not None:
            same = asked.repeated(before.settings.get("repetitions"))
            for field in Asked.__struct_fields__:
                old, new = getattr(before, field), getattr(same, field)
                if old != new:
                    raise BadInput(f"{self.path} was begun with {field} {old!r}, not {new!r}; give another --out")
            asked = before
        asked = asked.repeated(repetitions)
        self.path.mkdir(parents=True, exist_ok=True)
        _replace(self.settings_file, msgspec.json.format(msgspec.json.encode(asked), indent=2) + b"\n")
        return asked

    def read_settings(self) -> Asked:
        try:
            return msgspec.json.decode(self.settings_file.read_bytes(), type=Asked)
        except (OSError, msgspec.DecodeError) as problem:
            why = problem.strerror if isinstance(problem, OSError) else problem
            raise BadInput(f"{self.path} is no result folder (settings.json: {why}); name one that `run` made") from problem

    def begin(self, *, when: str, commit: str, machine: Mapping[str, Any]) -> Session:
        session = Session(number=len(self.sessions()) + 1, when=when, commit=commit, machine=dict(machine))
        self._append("sessions.jsonl", session)
        return session

    def sessions(self) -> list[Session]:
        return [msgspec.json.decode(line, type=Session) for line in self._lines("sessions.jsonl")]

    def add(self, record: StepRecord, home_runs: Path) -> None:
        """Keep the runs' own records first, so that a listed step is whole. Stages lose the paths of their scripts,
        because these are this machine's."""
        record = structs.replace(record, jobs=tuple(map(_without_paths, record.jobs)))
        for job in record.jobs:
            kept = self.runs / job.app_id
            kept.mkdir(parents=True, exist_ok=True)
            for name in (SAMPLES, QUOTAS, OUTPUT):
                if (home_runs / job.app_id / name).exists():
                    shutil.copyfile(home_runs / job.app_id / name, kept / name)
            if (home_runs / job.app_id / SUMMARY).exists():
                (kept / SUMMARY).write_bytes(msgspec.json.format(msgspec.json.encode(job.summary)) + b"\n")
            if job.exit_code == 0:
                self._keep_log(job.app_id)
            if stages := read_stages(home_runs / job.app_id):
                write_stages(kept, (structs.replace(stage, name=call_site(stage.name)) for stage in stages))
        self._append("records.jsonl", record)

    def _keep_log(self, app_id: str) -> None:
        """Keep the run in an application's event log, without paths. Stock Spark's logs lie in a folder of each job."""
        logs = self.path / EVENT_LOGS
        for log in (*logs.glob(f"*{app_id}*"), *logs.glob(f"*/{app_id}*")):
            if log.name.startswith("."):
                continue  # a checksum
            run = logged_run(log).record
            stages = tuple(structs.replace(stage, name=call_site(stage.name)) for stage in run.stages)
            logged = profile(app_id, (structs.replace(run, arguments=None, stages=stages),))
            (self.runs / app_id / LOGGED).write_bytes(profile_json(logged))

    def add_rows(self, record: RowStep) -> None:
        self._append("rows.jsonl", record)

    def data(self) -> Data:
        records = [msgspec.json.decode(line, type=StepRecord) for line in self._lines("records.jsonl")]
        samples = {job.app_id: read_samples(self.runs / job.app_id) for record in records for job in record.jobs}
        rows = [msgspec.json.decode(line, type=RowStep) for line in self._lines("rows.jsonl")]
        logs = {file.parent.name: parse_profile(file.read_bytes()).runs[0] for file in sorted(self.runs.glob(f"*/{LOGGED}"))}
        path = self.path / WITHDRAWN
        withdrawn = msgspec.json.decode(path.read_bytes(), type=Withdrawn) if path.exists() else Withdrawn()
        outputs = {file.parent.name: file.read_text() for file in sorted(self.runs.glob(f"*/{OUTPUT}"))}
        path = self.path / EXPLAINED
        explained = msgspec.json.decode(path.read_bytes(), type=dict[str, str]) if path.exists() else {}
        named = {r.step: r for r in records}
        return Data(named, samples, {r.step: r for r in rows}, withdrawn, logs, outputs, explained)

    def pack(self, to: Path) -> None:
        """Make `to` a packed folder of the same data, without a report. Raise `BadInput` unless `to` is new or empty."""
        _refuse_packed(self.path)
        self.read_settings()
        if to.exists() and any(to.iterdir()):
            raise BadInput(f"{to} is not empty; pack into a new folder")
        to.mkdir(parents=True, exist_ok=True)
        for name in (WITHDRAWN, EXPLAINED):
            if (self.path / name).exists():
                shutil.copyfile(self.path / name, to / name)
        pack(self.path, DATA, to / ARCHIVE)

    def _append(self, name: str, value: msgspec.Struct) -> None:
        with (self.data_path / name).open("a+b") as file:
            # A crash may have left half a line; it must not spoil the next one.
            file.seek(0)
            text = file.read()
            if text and not text.endswith(b"\n"):
                file.truncate(text.rfind(b"\n") + 1)
            file.write(json.dumps(msgspec.to_builtins(value)).encode() + b"\n")

    def _lines(self, name: str) -> list[bytes]:
        path = self.data_path / name
        text = path.read_bytes() if path.exists() else b""
        return text[: text.rfind(b"\n") + 1].splitlines()


@contextmanager
def reading(path: Path) -> Iterator[ResultFolder]:
    """Provide the folder, plain or packed, while the block reads it. Raise `BadInput` for an archive that cannot be
    unpacked, or that has plain data next to it."""
    if not _is_packed(path):
        yield ResultFolder(path)
        return
    with TemporaryDirectory(prefix="sparkpace-results-") as unpacked:
        unpack(path / ARCHIVE, Path(unpacked))
        yield ResultFolder(path, Path(unpacked))


def _without_paths(job: JobRecord) -> JobRecord:
    """Return the record with the call sites of its largest stages only."""
    stages = job.summary.get("largest_stages")
    if not stages:
        return job
    named = [{**stage, "name": call_site(stage["name"])} for stage in stages]
    return structs.replace(job, summary={**job.summary, "largest_stages": named})


def _is_packed(path: Path) -> bool:
    if not (path / ARCHIVE).exists():
        return False
    if plain := [name for name in DATA if (path / name).exists()]:
        raise BadInput(f"{path} has its data twice, in {ARCHIVE} and as {plain[0]}; remove one of them")
    return True


def _refuse_packed(path: Path) -> None:
    if _is_packed(path):
        raise BadInput(f"{path} is packed; `tar -xf {ARCHIVE} && rm {ARCHIVE}` in it makes it one that can go on")


def _replace(path: Path, content: bytes) -> None:
    temporary = path.with_name(f".{path.name}")
    temporary.write_bytes(content)
    temporary.replace(path)
