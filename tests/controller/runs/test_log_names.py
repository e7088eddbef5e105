"""Names that belong to one log, and their order; several logs are named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.runs.log_names import MOST_FILES, one_log
from stage_model.errors import BadInput


@pytest.mark.parametrize(
    ("names", "log"),
    [
        (["app-1"], ["app-1"]),
        (["logs/local-7.zstd", "logs/.local-7.zstd.crc", "__MACOSX/logs/._local-7.zstd"], ["logs/local-7.zstd"]),
        (["./a/../b"], ["./a/../b"]),
        # Spark's rolling logs, as they lie in their folder and as the History Server packs them
        (["events_10_a", "events_9_a", *(f"events_{n}_a" for n in range(1, 9))], [f"events_{n}_a" for n in range(1, 11)]),
        (["x/appstatus_a", "x/events_2_a.zstd", "x/events_1_a.zstd"], ["x/events_1_a.zstd", "x/events_2_a.zstd"]),
        (["events_1_a", "events_2_a", "events_2_a.compact", "events_3_a"], ["events_2_a.compact", "events_3_a"]),
        # Databricks: the newest file has no date
        (
            ["eventlog", "eventlog-2026-11-26--09-00.gz", "eventlog-2026-11-25--23-00.gz"],
            ["eventlog-2026-11-25--23-00.gz", "eventlog-2026-11-26--09-00.gz", "eventlog"],
        ),
        (["7/eventlog"], ["7/eventlog"]),
        # of several attempts of one application the last
        (["application_1_0001_1", "application_1_0001_10", "application_1_0001_9"], ["application_1_0001_10"]),
        (["application_1_0001", "application_1_0001_1"], ["application_1_0001_1"]),
        (
            [f"eventlog_v2_application_1_0001_{n}/events_1_application_1_0001_{n}" for n in (1, 2)],
            ["eventlog_v2_application_1_0001_2/events_1_application_1_0001_2"],
        ),
    ],
)
def test_the_files_of_one_log_are_found_and_put_in_order(names: list[str], log: list[str]) -> None:
    assert one_log(names, "here") == log


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([], "here .*no event log"),
        ([".hidden", "appstatus_a"], "here .*no event log"),
        (["b", "a"], r"here .*2 event logs \(a, b\)"),
        ([str(n) for n in range(8)], r"here .*8 event logs \(0, 1, 2, 3, 4 and 3 more\)"),
        (["events_1_a", "events_1_b"], r"2 event logs \(events_\*_a, events_\*_b\)"),
        (["a", "eventlog_v2_b/events_1_b", "eventlog_v2_b/events_2_b"], r"2 event logs \(a, eventlog_v2_b\)"),
        (["application_1_0001_1", "application_1_0002_1"], "2 event logs"),
        (["7/eventlog", "8/eventlog"], "2 event logs"),
        (["events_2_a"], "here .*part 1 "),
        (["events_1_a", "events_4_a"], "part 2 "),
        (["events_1_a", f"events_{10**200}_a"], "part 2 "),
        (["events_2_a.compact", "events_4_a"], "part 3 "),
        ([str(n) for n in range(MOST_FILES + 1)], "here .*10000 files"),
    ],
)
def test_no_log_several_logs_and_missing_parts_are_refused_in_one_sentence(names: list[str], sentence: str) -> None:
    with pytest.raises(BadInput, match=sentence):
        one_log(names, "here")


@given(st.permutations([f"x/events_{number}_app.zstd" for number in range(1, 13)] + ["x/appstatus_app", "x/.crc"]))
def test_the_order_of_names_does_not_matter(names: list[str]) -> None:
    assert one_log(names, "here") == [f"x/events_{number}_app.zstd" for number in range(1, 13)]
