"""The times of growth, read from a master's log, and the tables made of them."""

from __future__ import annotations

from dataclasses import asdict

from experiments.bench.growth import LARGE_MB, SMALL_MB, expected_type, job_rows, most_at_once, read_log, worker_rows
from placement.growth import Limits

LOG = """\
2026-11-29 22:06:40,942 INFO worker pod1-1 joined: 0.25 cores, 1536 MiB
2026-11-29 22:06:51,329 INFO pace-1 registered: sort by key, deadline None
2026-11-29 22:06:51,688 INFO starting worker grown-1: 1 cores, 2048 MiB
2026-11-29 22:06:55,915 INFO worker grown-1 joined: 1.00 cores, 2048 MiB
2026-11-29 22:06:56,915 INFO pace-2: its deadline needs 1 further worker (1 cores, 1536 MiB), which takes about 4s to start
2026-11-29 22:06:56,920 INFO pace-2 registered: other, deadline 60.5
2026-11-29 22:06:57,120 INFO starting worker grown-2: 1 cores, 1536 MiB
2026-11-29 22:07:31,688 INFO giving worker grown-1 back: it had no work for 3 s
a line of something else
"""


def test_a_log_says_when_each_worker_was_asked_for_joined_and_went_back() -> None:
    log = read_log(LOG)
    first, second = log.workers.values()
    assert (first.kind, second.kind) == ("1 cores, 2048 MiB", "1 cores, 1536 MiB")
    assert first.joined_s is not None
    assert first.given_back_s is not None
    assert [round(at_s - first.asked_s, 3) for at_s in (first.joined_s, first.given_back_s)] == [4.227, 40.0]
    assert (second.joined_s, second.given_back_s) == (None, None)
    assert [name for name, _ in log.registered.values()] == ["sort by key", "other"]
    assert list(log.needs) == ["pace-2"]


def test_workers_that_are_given_back_no_longer_count() -> None:
    workers = list(read_log(LOG).workers.values())
    assert most_at_once(workers) == ["1 cores, 1536 MiB", "1 cores, 2048 MiB"]
    workers[0].given_back_s = workers[1].asked_s
    assert most_at_once(workers) == ["1 cores, 2048 MiB"]


def test_a_worker_is_asked_for_by_the_job_that_registered_last() -> None:
    log = read_log(LOG)
    known = {"deadline_s": 60.5, "error_pct": -1.25, "first_task_s": 9.0, "end_s": 59.7}
    runs = [
        {"name": name, "registered_s": at_s, "workers": [worker], **known}
        for (name, at_s), worker in zip(log.registered.values(), ("grown-1", "pod1-1"), strict=True)
    ]
    found = {"runs": runs, "workers": [asdict(one) for one in log.workers.values()]}
    assert worker_rows("case", found) == [
        ["case", "grown-1", "1 cores, 2048 MiB", "0.359 s after sort by key", "4.2 s", "40.0 s", "sort by key"],
        ["case", "grown-2", "1 cores, 1536 MiB", "0.200 s after other", "-", "-", "none"],
    ]
    assert job_rows("case", found)[1] == ["case", "other", "60.5 s", "9.0 s", "59.7 s", "-1.2%", "pod1-1"]


def test_the_expected_types_are_those_of_the_demands() -> None:
    limits = Limits(cores=3, memory_mb=6144)
    assert [str(expected_type(mb, limits)) for mb in (SMALL_MB, LARGE_MB)] == ["1 cores, 1536 MiB", "1 cores, 2048 MiB"]
