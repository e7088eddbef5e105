"""Jobs that did not come: the profiles and the last submissions that the event rests on, and how often it is sent."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from msgspec import structs

from controller.master.notify.events import HookEvent, in_words
from controller.master.notify.missing import MissingJobs
from controller.runs.profile_store import ProfileStore
from stage_model.history.profile import profile
from tests.fakes.cluster import AtOnce, FakeCluster, Later
from tests.fakes.records import run, stage

MONDAY = datetime(2030, 1, 7, 2, tzinfo=UTC)
DAY, HOUR = timedelta(days=1), timedelta(hours=1)
DUE = MONDAY + 7 * DAY
KEY = "nightly$@app.py"


def taught(folder: Path, key: str = KEY, days: int = 7) -> ProfileStore:
    """Return a store with a job whose runs were submitted at 02:00 on days that follow each other."""
    store = ProfileStore(folder)
    at_ms = [round((MONDAY + number * DAY).timestamp() * 1000) for number in range(days)]
    store.add(profile(key, [structs.replace(run(f"r{ms}", ms, stage("collect")), name="nightly") for ms in at_ms]))
    return store


def missed(jobs: MissingJobs, at: datetime, submitted: dict[str, float] | None = None) -> list[HookEvent]:
    return jobs.events(submitted or {}, at.timestamp())


def test_a_job_that_did_not_come_is_an_event_once_a_day(tmp_path: Path) -> None:
    jobs = MissingJobs(taught(tmp_path), UTC, AtOnce())
    assert missed(jobs, DUE) == []
    [event] = missed(jobs, DUE + HOUR)
    assert (event.event, event.name, event.expected_by) == ("did_not_come", "nightly", DUE.timestamp() + 15 * 60)
    assert event.command == f"sparkpace profile show '{KEY}'", "as a shell takes it"
    for said in ("nightly", "7 of the last 7 days", "02:00", "02:15", event.command):
        assert said in in_words(event)
    assert missed(jobs, DUE + 3 * HOUR) == []
    [again] = missed(jobs, DUE + DAY + HOUR)
    assert "6 of the last 7 days" in (again.reason or "")


def test_a_run_that_taught_nothing_has_come(tmp_path: Path) -> None:
    jobs = MissingJobs(taught(tmp_path), UTC, AtOnce())
    assert missed(jobs, DUE + HOUR, {KEY: DUE.timestamp()}) == []


def test_looks_are_a_minute_apart(tmp_path: Path) -> None:
    jobs = MissingJobs(taught(tmp_path), UTC, AtOnce())
    assert missed(jobs, DUE + timedelta(minutes=15)) == []
    assert missed(jobs, DUE + timedelta(minutes=15, seconds=59)) == []
    assert len(missed(jobs, DUE + timedelta(minutes=16))) == 1


def test_profiles_are_read_once_a_day_and_off_the_loop(tmp_path: Path) -> None:
    pool = Later()
    jobs = MissingJobs(taught(tmp_path), UTC, pool)
    assert missed(jobs, DUE + HOUR) == []
    assert len(pool.jobs) == 1
    pool.work()
    assert len(missed(jobs, DUE + 2 * HOUR)) == 1
    assert pool.jobs == []
    missed(jobs, DUE + DAY)
    assert len(pool.jobs) == 1


def test_a_reading_that_failed_is_tried_again_with_the_next_look(tmp_path: Path) -> None:
    pool = Later()
    jobs = MissingJobs(taught(tmp_path), UTC, pool)
    assert missed(jobs, DUE + HOUR) == []
    [(reading, *_)] = pool.jobs
    pool.jobs.clear()
    reading.set_exception(OSError("the disk is gone"))
    with pytest.raises(OSError, match="the disk is gone"):
        missed(jobs, DUE + 2 * HOUR)
    assert missed(jobs, DUE + 3 * HOUR) == []
    pool.work()
    assert len(missed(jobs, DUE + 4 * HOUR)) == 1


def test_a_profile_that_cannot_be_read_does_not_hide_the_others(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    store = taught(tmp_path)
    store.path("broken").write_text("{}")
    store.add(profile("far", [run("r", 10**18, stage("collect"))]))
    assert len(missed(MissingJobs(store, UTC, AtOnce()), DUE + HOUR)) == 1
    for key in ("broken", "far"):
        assert key in caplog.text


def test_the_master_knows_the_last_submission_of_each_job_over_a_restart(cluster: FakeCluster) -> None:
    job = cluster.finished_run()
    running = cluster.registered(name="other", instance="another")
    before = dict(cluster.state.registry.submitted)
    assert set(before) == {"app@app.py", running.profile_key}
    assert before["app@app.py"] == cluster.state.applications[job].record.started_epoch_s
    cluster.restart()
    assert job not in cluster.state.applications
    assert cluster.state.registry.submitted == before
