from __future__ import annotations

import gzip
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from controller.runs.eventlog_files import read_event_log_file
from stage_model.errors import BadInput
from stage_model.forecast.estimate import estimate
from stage_model.forecast.match import match
from stage_model.history.eventlog import EventLog, read_event_log, read_line
from stage_model.history.eventlog_schema import EventLine
from stage_model.history.events import AnyEvent
from stage_model.history.gaps import gaps
from stage_model.history.profile import profile
from stage_model.history.run import Run
from tests.fakes.made_logs import MadeExecutor, MadeJob, MadeStage, made_log

LOGS = Path(__file__).parents[2] / "data" / "eventlogs"
"""Written by real Spark runs of app.py there; see shrink.py."""
ROLLING, SHIFTED, OLD = LOGS / "eventlog_v2_golden", LOGS / "spark43.gz", LOGS / "spark35.gz"


def signatures(log: EventLog) -> set[str]:
    return {stage.signature for stage in log.record().stages}


@pytest.mark.parametrize(
    ("path", "version", "arguments"), [(ROLLING, "4.3.0", ()), (SHIFTED, "4.3.0", ("8000",)), (OLD, "3.5.9", ())]
)
def test_real_logs_become_complete_records(path: Path, version: str, arguments: tuple[str, ...]) -> None:
    log = read_event_log_file(path)
    record = log.record()
    assert (record.name, record.main, record.arguments) == ("golden", "app.py", arguments)
    assert (record.spark_version, record.cores, record.slots, record.executors) == (version, 2.0, 2, 1)
    assert record.complete
    assert record.cpu_source == "executor"
    # Counted in the log: 18 jobs, 23 stages run; three passes of join, reduceByKey and count, then two SQL queries.
    assert (len(log.run.jobs), len(record.stages)) == (18, 23)
    assert all(stage.teaches for stage in record.stages)
    assert record.startup_s > 1.0
    assert sum(stage.duration_s for stage in record.stages) < record.duration_s
    size = int(arguments[0]) if arguments else 4000
    scans = [s for s in record.stages if s.job > 2 and s.input_records == size * 5]
    assert len(scans) == 2  # each query reads its 5 * size orders once, as an input


def test_signatures_survive_shifted_lines_another_folder_another_size_and_stage_order() -> None:
    first, second = read_event_log_file(ROLLING), read_event_log_file(SHIFTED)
    assert signatures(first) == signatures(second)
    # AQE starts the two sides of a join in any order, and did: by stage id they would have been taken for each other.
    orders = [[stage.signature for stage in log.record().stages] for log in (first, second)]
    assert orders[0] != orders[1]


def test_records_of_a_signature_mean_the_same_stage() -> None:
    first = {s.signature: s.records for s in read_event_log_file(ROLLING).record().stages}
    for stage in read_event_log_file(SHIFTED).record().stages:
        assert stage.records in range(first[stage.signature], 2 * first[stage.signature] + 1)


def test_iterations_keep_their_dependencies_through_skipped_stages() -> None:
    record = read_event_log_file(ROLLING).record()
    places = {stage.signature: place for place, stage in enumerate(record.stages)}
    parents = [sorted(places[p] for p in stage.parents) for stage in record.stages[:8]]
    # links (0, 1), then per pass a reduceByKey that joins links with the ranks before it, and a count;
    # the second pass also waits for the first one's job.
    assert parents == [[], [0], [1], [2], [1, 2, 3], [4], [1, 4, 5], [6]]


def test_a_run_with_aqe_matches_another_ones_profile_at_every_moment() -> None:
    expected = estimate(profile("k", [read_event_log_file(ROLLING).record()]))
    waiting = [stage.signature for stage in read_event_log_file(SHIFTED).record().stages]
    live = Run()
    for event in events(lines()):
        live.apply(event)
        found = match(expected, live)
        waiting = [s for s in waiting if s not in {e.signature for e in found.seen.values()}]
        assert found.matched_share in (None, 1.0)
        assert {s.signature for s in found.to_come} == set(waiting)  # nothing is given up that still comes
    assert waiting == []


def test_the_id_of_a_query_counts_only_while_it_is_under_way() -> None:
    """Spark leaves it in the properties that a PySpark pool's threads share."""
    queries = [job.sql for job in read_event_log(lines(), "log").run.jobs.values()]
    found = [job.sql for job in read_event_log(leaked(), "log").run.jobs.values()]
    assert {None, 0, 1} == set(queries)
    assert found == [sql if sql == 0 else None for sql in queries]


def test_another_spark_version_matches_nearly_all() -> None:
    expected = estimate(profile("k", [read_event_log_file(OLD).record()]))
    share = match(expected, read_event_log_file(ROLLING).run).matched_share
    assert share is not None
    assert share > 0.9


def lines() -> list[bytes]:
    return gzip.decompress(SHIFTED.read_bytes()).splitlines(keepends=True)


def leaked() -> list[bytes]:
    """Give each job the id of the first query."""
    decoded = [json.loads(line) for line in lines()]
    for event in decoded:
        if event["Event"] == "SparkListenerJobStart":
            event["Properties"]["spark.sql.execution.id"] = "0"
    return [json.dumps(event).encode() + b"\n" for event in decoded]


def events(content: list[bytes]) -> Iterator[AnyEvent]:
    for line in content:
        found = read_line(line)
        if isinstance(found, EventLine) and (event := found.event()) is not None:
            yield event


def without_end(content: list[bytes]) -> list[bytes]:
    return [line for line in content if b"ApplicationEnd" not in line]


def cut(content: list[bytes]) -> list[bytes]:
    return [*content[:50], content[50][:30]]


def corrupt(content: list[bytes]) -> list[bytes]:
    return [*content[:50], content[50][:30] + b"\x00\n", *content[51:]]


def of_version(content: list[bytes], version: str) -> list[bytes]:
    return [b'{"Event":"SparkListenerLogStart","Spark Version":"%b"}\n' % version.encode(), *content[1:]]


def without_field(content: list[bytes], name: bytes) -> list[bytes]:
    return [line.replace(name, b'"Other"') for line in content]


def wrong_type(content: list[bytes]) -> list[bytes]:
    broken = json.loads(content[60]) | {"Event": "SparkListenerJobStart", "Job ID": "seven"}
    return [*content[:60], json.dumps(broken).encode() + b"\n", *content[61:]]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (without_end, "log is truncated: no SparkListenerApplicationEnd; give a finished log"),
        (cut, "truncated: no SparkListenerApplicationEnd, line 51 is cut off; give a finished log"),
        (corrupt, "log is corrupt: line 51 is no Spark event"),
        (wrong_type, "log is corrupt: line 61 is no Spark event"),
        (lambda _: [b"a,b,c\n"], "no Spark event log"),
        (lambda _: [b"\xff\xfe\x00\n"], "no Spark event log"),
        (lambda _: [b'{"Event": "SparkListenerLogStart"}\n'], "no Spark event log"),
        (lambda _: [], "truncated"),
        (lambda content: of_version(content, "1.6.0-vendor.7"), r"1\.6\.0-vendor\.7"),
        (lambda content: without_field(content, b'"Total Cores"'), "corrupt: line [0-9]+ "),
        (lambda content: without_field(content, b'"Stage Attempt ID"'), "corrupt: line [0-9]+ "),
    ],
)
def test_damaged_logs_are_refused_with_the_line(change: Callable[[list[bytes]], list[bytes]], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence) as refusal:
        read_event_log(change(lines()), "log")
    assert "\n" not in str(refusal.value)


def test_what_follows_the_applications_end_may_be_cut() -> None:
    assert read_event_log([*lines(), b'{"Event":"Spark'], "log").run.ended


@pytest.mark.parametrize(
    ("message", "complete"),
    [
        ("[SPARK_JOB_CANCELLED] Job 17 cancelled part of cancelled job group g SQLSTATE: XXKDA", True),  # as 4.3.0 writes it
        ("Job 17 cancelled part of cancelled job group g", True),  # as 3.5.9 writes it
        ("Job aborted due to stage failure: Task 0 in stage 22.0 failed 1 times", False),
        (None, False),
    ],
)
def test_a_log_whose_last_job_was_cancelled_teaches_and_one_whose_last_job_failed_does_not(
    message: str | None, complete: bool
) -> None:
    content = lines()
    last = max(number for number, line in enumerate(content) if b'"SparkListenerJobEnd"' in line)
    job_end = json.loads(content[last])
    job_end["Job Result"] = {"Result": "JobFailed", "Exception": {"Message": message, "Stack Trace": []}}
    content[last] = json.dumps(job_end, separators=(",", ":")).encode() + b"\n"
    assert read_event_log(content, "log").record().complete is complete


def test_a_log_gives_the_live_runs_signatures_event_by_event() -> None:
    log = read_event_log_file(SHIFTED)
    live = Run()
    known: list[str] = []
    for event in events(lines()):
        live.apply(event)
        known.extend(s.signature for s in live.active_stages() if s.signature not in known)
    assert known == [stage.signature for stage in log.record().stages]


def with_events(content: list[bytes], change: Callable[[dict[str, Any]], None]) -> list[bytes]:
    decoded = [json.loads(line) for line in content]
    for event in decoded:
        change(event)
    return [json.dumps(event, separators=(",", ":")).encode() + b"\n" for event in decoded]


@pytest.mark.parametrize(("attempt", "counts"), [(None, True), ("1", True), ("2", False), ("of old", True)])
def test_a_further_attempt_does_not_count_the_time_of_those_before_it(attempt: str | None, counts: bool) -> None:
    def begin_late(event: dict[str, Any]) -> None:
        if event["Event"] == "SparkListenerApplicationStart":
            event["App Attempt ID"] = attempt
        if event["Event"] == "SparkListenerEnvironmentUpdate":
            event["Spark Properties"]["spark.app.submitTime"] = str(before_ms)

    start_ms = next(e["Timestamp"] for e in map(json.loads, lines()) if e["Event"] == "SparkListenerApplicationStart")
    before_ms = start_ms - 600_000
    record = read_event_log(with_events(lines(), begin_late), "log").record()
    assert record.when_ms == (before_ms if counts else start_ms)
    plain = read_event_log(lines(), "log").record()
    assert record.startup_s == pytest.approx(plain.startup_s + (plain.when_ms - record.when_ms) / 1000)


def databricks(content: list[bytes], *numbers: int) -> list[bytes]:
    """Rewrite a log as Databricks writes it: no start of the log, no end of the application, and a line at the beginning of
    each file."""
    kept = [line for line in without_end(content) if b"SparkListenerLogStart" not in line]
    size = -(-len(kept) // len(numbers))
    mark = b'{"Event":"DBCEventLoggingListenerMetadata","Rollover Number":%d,"SparkContext Id":7}\n'
    return [line for at, number in enumerate(numbers) for line in (mark % number, *kept[at * size : (at + 1) * size])]


@pytest.mark.parametrize(
    ("log", "sentence"),
    [
        (lambda: databricks(lines(), 1), "Databricks .* 0 .Rollover Number 1"),
        (lambda: databricks(lines(), 0, 2), "Databricks .* 1 .Rollover Number 2"),
        (lambda: databricks(lines(), 0)[:60], "truncated: no SparkListenerApplicationEnd"),
        (lambda: [*databricks(lines(), 0), b'{"Event":"Spark'], "truncated: "),
        (lambda: databricks(lines(), 0)[:3], "truncated"),
    ],
)
def test_a_log_of_databricks_that_is_not_whole_is_refused(log: Callable[[], list[bytes]], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        read_event_log(log(), "log")


def test_numbers_that_spark_never_writes_are_corrupt_lines() -> None:
    for wrong in (b'"Stage ID":-1', b'"Stage ID":99999999999', b'"Stage ID":1.5'):
        hostile = [line.replace(b'"Stage ID":0,', wrong + b",") for line in lines()]
        with pytest.raises(BadInput, match="corrupt: line"):
            read_event_log(hostile, "log")


def test_a_scope_that_is_no_json_counts_as_none_and_settings_of_a_thousand_digits_as_not_set() -> None:
    digits = b"9" * 5000
    hostile = [
        line.replace(b'\\"name\\":', b'\\"nam').replace(
            b'"Spark Properties":{', b'"Spark Properties":{"spark.task.cpus":"%b",' % digits
        )
        for line in lines()
    ]
    log = read_event_log(hostile, "log")
    assert log.slots == log.cores == 2
    assert log.record().complete
    plain = read_event_log(lines(), "log").record()
    assert [stage.duration_s for stage in log.record().stages] == [stage.duration_s for stage in plain.stages]


@pytest.mark.parametrize("version", ["2.3.0", "3.3.0-amzn-1", "10.0", "preview"])
def test_later_and_unknown_releases_are_read(version: str) -> None:
    assert read_event_log(of_version(lines(), version), "log").record().complete


def test_a_task_that_ended_well_without_its_run_time_has_no_known_end() -> None:
    content = lines()
    last = max(number for number, line in enumerate(content) if b'"SparkListenerTaskEnd"' in line)
    content[last] = content[last].replace(b'"Executor Run Time"', b'"Other"')
    (missing,) = gaps(read_event_log(content, "log").run)
    assert "with fewer ends of tasks than tasks" in missing


def cores_there(executors: list[MadeExecutor], *stages: MadeStage) -> list[tuple[float, float]]:
    thread = [MadeJob((stage,), pause_ms=1000) for stage in stages]
    return [(step.since_s, step.cores) for step in read_event_log(made_log([thread], executors), "log").record().cores_there]


def test_the_cores_that_were_there_are_recorded_where_they_changed_while_stages_ran() -> None:
    two = MadeStage(4, 4000)  # with two cores from 11 s to 19 s
    assert cores_there([MadeExecutor(2)], two) == []
    assert cores_there([MadeExecutor(2), MadeExecutor(4, comes_ms=16_000)], two) == [(0.0, 2.0), (16.0, 6.0)]
    # before any task has ended, and after all have
    assert cores_there([MadeExecutor(1), MadeExecutor(1, comes_ms=14_000)], two) == []
    assert cores_there([MadeExecutor(2), MadeExecutor(4, comes_ms=19_000)], two) == [(0.0, 2.0)]
    # it is idle from 15 s on
    gone = cores_there([MadeExecutor(4), MadeExecutor(2, leaves_ms=12_000)], MadeStage(6, 4000), MadeStage(4, 4000))
    assert gone == [(0.0, 6.0), (15.0, 4.0)]


def test_of_very_many_changes_of_the_cores_some_are_recorded() -> None:
    changes = 1201
    come = [MadeExecutor(1, comes_ms=16_000 + number) for number in range(changes)]
    steps = cores_there([MadeExecutor(2), *come], MadeStage(40, 4000))
    assert len(steps) == 401  # every third of the first two cores and the changes
    assert steps[0] == (0.0, 2.0)
    assert [cores for _, cores in steps] == sorted(cores for _, cores in steps)
