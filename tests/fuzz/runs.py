"""Run folders, profiles and event logs: all that runs leave."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from controller.cli.log_plan import plan_without_cluster
from controller.master.core.plan_reply import ClusterNow, plan_reply
from controller.master.profiles import profile_of
from controller.runs.eventlog_files import event_log_lines, read_event_log_file
from controller.runs.profile_store import ProfileStore
from controller.runs.run_folder import SAMPLES, STAGES, SUMMARY, read_samples, read_stages, read_summary
from controller.wire import command, worker
from stage_model.errors import BadInput
from stage_model.forecast.advice import advice
from stage_model.forecast.curve import reference_slots
from stage_model.forecast.estimate import estimate
from stage_model.history.eventlog import read_event_log
from stage_model.history.gaps import gaps, why_incomplete
from stage_model.history.held import cores_held
from stage_model.history.profile import parse_profile, profile
from tests.fakes.records import run, stage
from tests.fuzz.target import Target, folder

LOGS = Path(__file__).parents[1] / "data" / "eventlogs"


def _run_folder(data: bytes) -> None:
    reader, name = {b"s": (read_stages, STAGES), b"a": (read_samples, SAMPLES)}.get(data[:1], (read_summary, SUMMARY))
    with folder() as path:
        (path / name).write_bytes(data[1:])
        reader(path)


RUN_SEEDS = (
    b'j{"app_id":"a","name":"n","deadline_s":1.5}',
    b"sstage,attempt,name,start_s,end_s,tasks\n0,0,collect at x,1.5,2,4\n1,0,,2,,4\n",
    (
        b"atime_s,executor,stage,set_point,progress,demand,grant,quota,usage,cpu_core_s,debt_core_s,forecast_end_s\n"
        b"1,1,0,0.5,0.4,1,1,1,0.5,0.5,0,9\n2,1,,,,1,1,1,,1,0,\n"
    ),
)

# ---------------------------------------------------------------- profiles and logs


def _profile(data: bytes) -> None:
    """Read a profile from a file, plan by it, and keep it."""
    request = command.PlanRequest(profile_json=data.decode(errors="replace"), deadline_s=60.0, most_cores=2.0, curve=True)
    info = worker.WorkerInfo(worker_id="w", host="h", cores=2.5, memory_mb=4096, runtime="docker", pid=1, boot_id="b")
    with folder() as path:
        store = ProfileStore(path)
        msgspec.json.encode(plan_reply(request, profile_of(request, store), ClusterNow([info, info])))
        alone = msgspec.structs.replace(request, law="paper", most_cores=None, curve=False)
        msgspec.json.encode(plan_reply(alone, profile_of(alone, store), ClusterNow([info])))
        known = store.add(parse_profile(data))
        assert store.load(known.key) == known, "what was kept is read back as something else"


PROFILE_SEEDS = tuple(
    msgspec.json.encode(profile("k", runs))
    for runs in (
        (),
        (run("r1", 1, stage("a"), stage("b", parents=("a",), sql=0)), run("r2", 2, stage("a", records=7, tasks=400))),
        (run("r3", 3, *(stage(f"s{n}", parents=(f"s{n - 1}",) if n else (), task_cv=n / 3) for n in range(6))),),
    )
)


def _event_log(data: bytes) -> None:
    """Make a record from the lines of a log, and of a complete record a profile that can be read again."""
    _learned(read_event_log(data.splitlines(keepends=True), "log"))


def _learned(log: Any) -> None:
    """Check that the gaps of a log can be named, and that a plan from it has no negative time and saves no more than was
    held."""
    assert all(gaps(log.run))
    record = log.record()
    if not record.complete:
        assert why_incomplete(log.run)
        return
    with folder() as path:
        ProfileStore(path).learn("k", record)
        known = ProfileStore(path).load("k")
        assert known is not None
    expected = estimate(known)
    found = plan_without_cluster(command.PlanRequest(curve=True, deadline_s=60.0), known, expected).curve
    assert found is not None
    assert all(point.end_s >= 0 for point in found.points)
    held = cores_held(log.cores_held, record.when_ms, record.duration_s)
    saved = advice(known, expected, held, float(reference_slots(known)), 60.0, ()).saving
    assert 0 <= saved.saved_core_s <= saved.held_core_s


def _event_log_file(data: bytes) -> None:
    """Read a log file: plain, compressed or in an archive, or a rolling log whose parts begin with a line NAME."""
    with folder() as path:
        name, newline, content = data.partition(b"\n")
        if name.startswith(b"events_") and newline and b"/" not in name and b"\0" not in name and len(name) < 200:
            where = path / "eventlog_v2_x"
            where.mkdir()
            (where / name.decode(errors="surrogateescape")).write_bytes(content)
            (where / "events_1_x").write_bytes(content)
        else:
            where = path / "log"
            where.write_bytes(data)
        _learned(read_event_log_file(where))


def _log_seeds() -> Iterator[bytes]:
    """Yield one line of every kind that is used from a real log, and its end."""
    first: dict[str, bytes] = {}
    for line in event_log_lines(LOGS / "eventlog_v2_golden"):
        first.setdefault(json.loads(line)["Event"], line)
    ends = ("SparkListenerStageCompleted", "SparkListenerJobEnd", "SparkListenerApplicationEnd")
    yield b"".join([*(line for name, line in first.items() if name not in ends), *(first[name] for name in ends)])


def _packed_seeds() -> Iterator[bytes]:
    """Yield the same in a zip and in a tar, in parts."""
    content, made = next(_log_seeds()), (io.BytesIO(), io.BytesIO())
    names = ("eventlog_v2_x/events_2_x", "eventlog_v2_x/events_1_x")
    with zipfile.ZipFile(made[0], "w", zipfile.ZIP_DEFLATED) as zipped, tarfile.TarFile(fileobj=made[1], mode="w") as tarred:
        for name, part in zip(names, (content[1000:], content[:1000]), strict=True):
            zipped.writestr(name, part)
            info = tarfile.TarInfo(name)
            info.size = len(part)
            tarred.addfile(info, io.BytesIO(part))
    yield from (made[0].getvalue(), made[1].getvalue(), gzip.compress(made[1].getvalue()))


TARGETS = (
    Target("run-folder", _run_folder, RUN_SEEDS, (BadInput,)),
    Target("profile", _profile, PROFILE_SEEDS, (BadInput,)),
    Target("event-log", _event_log, tuple(_log_seeds()), (BadInput,)),
    Target(
        "event-log-file",
        _event_log_file,
        (
            *((LOGS / "spark43.gz").read_bytes(), b"events_2_x\n" + next(_log_seeds()), b"\x28\xb5\x2f\xfd", b"LZ4Block"),
            *_packed_seeds(),
        ),
        (BadInput,),
    ),
)
