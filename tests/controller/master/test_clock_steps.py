"""Wall clocks that are set while applications run: nothing that is decided or taught may change.

The driver times its events by a steady clock of its own, the master counts in monotonic seconds; both machines' wall clocks
may be an hour apart, or jump. Not covered: how the bridge makes its times steady (`tests/integration/test_steady_clock.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from controller.master.core.application_record import ApplicationRecord
from controller.master.core.queue import by_rank
from controller.runs.profile_store import ProfileStore
from stage_model.errors import InfeasibleDeadline
from stage_model.history.events import AnyEvent, ApplicationEnd, JobStart
from tests.fakes.cluster import FakeCluster, one_stage_run, report

HOUR_MS = 3_600_000
NOT_COMPARED = {"app_id", "submitted_epoch_s"}
"""Fields of a summary that are for people: its name and date."""


class Wall:
    """The wall clock of the master's machine, which a test sets."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self.now_s, self.set_by_s = now_s, 0.0

    def __call__(self) -> float:
        return 1_700_000_000 + self.now_s() + self.set_by_s


class Driver:
    """A driver whose steady clock shows `origin_ms` more than the cluster's monotonic one."""

    def __init__(self, cluster: FakeCluster, origin_ms: int, **conf: str) -> None:
        self.cluster, self.origin_ms = cluster, origin_ms
        self.id = cluster.register(steady_ms=self.now_ms, age_s=2.0, conf=conf)
        self.sent = 0

    @property
    def now_ms(self) -> int:
        return self.origin_ms + round(1000 * self.cluster.now_s)

    def tell(self, *events: AnyEvent) -> None:
        over = isinstance(events[-1], ApplicationEnd)
        self.cluster.driver(self.id, *events, first=self.sent + 1, steady_ms=self.now_ms, ended=over)
        self.sent += len(events)


def story(folder: Path, origins_ms: tuple[int, int], set_by_s: tuple[float, ...], patch: pytest.MonkeyPatch) -> list[Any]:
    """Run one job twice, the second time with a deadline, two lost executors and a restart of the master, then a third time,
    which comes too late. Before each of eight moments the wall clock is set. Return all that was decided and taught."""
    folder.mkdir()
    cluster = FakeCluster(folder)
    wall = Wall(lambda: cluster.now_s)
    patch.setattr(time, "time", wall)
    steps = iter(set_by_s)

    def later(seconds: float) -> None:
        cluster.now_s += seconds
        wall.set_by_s += next(steps)
        cluster.worker("w1", *(report(app, number) for app, number in shown))
        cluster.tick()

    shown: list[tuple[str, str]] = []
    cluster.worker("w1")
    first = Driver(cluster, origins_ms[0])
    events = one_stage_run(first.now_ms + 1000)
    later(5)
    first.tell(*events[:4])
    later(5)
    first.tell(*events[4:])
    later(20)
    second = Driver(cluster, origins_ms[1], **{"spark.pace.deadline": "90s"})
    cluster.exits(second.id, "1", exit_code=1)
    shown.append((second.id, "2"))
    events = one_stage_run(second.now_ms + 62_000)
    later(62)
    second.tell(*events[:4])
    app = cluster.state.applications[second.id]
    seen: list[Any] = [cluster.state.core.agents.desired("w1", cluster.now_s).applications, dict(app.plan.goals)]
    later(5)
    cluster.worker("w1", report(second.id, "2", "exited", exit_code=1))
    assert app.placement.failures_in_a_row == 1, "it lived long, so the row of failures begins again"
    cluster.restart()
    cluster.worker("w1")
    app = cluster.state.applications[second.id]
    seen += [app.target(), [plan.left_s for plan in cluster.state.core.agents.desired("w1", cluster.now_s).applications]]
    shown[:] = [(second.id, "3")]
    later(3)
    second.tell(*events[4:])
    shown.clear()
    later(20)
    later(20)
    for driver in (first, second):
        summary = msgspec.json.decode((folder / "runs" / driver.id / "summary.json").read_bytes())
        seen.append({key: value for key, value in summary.items() if key not in NOT_COMPARED})
        seen.append((folder / "runs" / driver.id / "stages.csv").read_text())
    known = ProfileStore(folder / "profiles").load("app@app.py")
    assert known is not None
    names = {first.id: "first", second.id: "second"}
    for run in known.runs:
        seen += [names[run.id], run.startup_s, run.tail_s, run.duration_s, run.stages]
    for deadline in ("12s", "10min"):
        try:
            Driver(cluster, origins_ms[0], **{"spark.pace.deadline": deadline})
            seen.append("admitted")
        except InfeasibleDeadline as error:
            seen.append(str(error))
    return [str(one).replace(first.id, "first").replace(second.id, "second") for one in seen]


hours = st.floats(-3600, 3600)


@settings(max_examples=10, deadline=None)
@given(
    origins_ms=st.tuples(*[st.sampled_from((0, HOUR_MS, 1_700_000_000_000, 1_700_000_000_000 - HOUR_MS))] * 2),
    set_by_s=st.tuples(*[hours] * 8),
)
def test_a_wall_clock_that_is_set_changes_no_decision_and_teaches_nothing_else(
    tmp_path_factory: pytest.TempPathFactory, origins_ms: tuple[int, int], set_by_s: tuple[float, ...]
) -> None:
    folder = tmp_path_factory.mktemp("clock")
    with pytest.MonkeyPatch.context() as patch:
        plain = story(folder / "plain", (1_700_000_000_000, 1_700_000_000_000), (0.0,) * 8, patch)
        stepped = story(folder / "stepped", origins_ms, set_by_s, patch)
    assert stepped == plain
    assert any("with all" in line for line in plain), "12 s are too short: the profile counts"
    assert plain[-1] == "admitted"


def test_a_restarted_machine_learns_an_applications_age(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    cluster.worker("w1")
    application_id = cluster.register(steady_ms=50_000, age_s=2.0, boot_id="of another machine", uid=1000)
    # the master's machine starts again: another boot, its monotonic clock begins at 0, and its wall clock is an hour wrong
    stored = msgspec.json.decode(cluster.state.store.applications()[0][2], type=ApplicationRecord)
    stored.boot_id = "the boot before"
    cluster.state.store.put_application(application_id, True, msgspec.json.encode(stored))
    cluster.now_s = 5.0
    monkeypatch.setattr(time, "time", lambda: 1_700_003_600.0)
    cluster.restart()
    cluster.driver(application_id, steady_ms=60_000)
    application = cluster.state.applications[application_id]
    assert application.elapsed_s(cluster.now_s) == pytest.approx(12.0)


def test_a_registration_that_took_long_on_its_way_makes_no_application_younger(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    # written 0.4 s before it came
    application = cluster.registered(steady_ms=50_000, age_s=2.0)
    application_id = application.id
    cluster.now_s += 10.0
    cluster.driver(application_id, steady_ms=60_400)
    assert application.elapsed_s(cluster.now_s) == pytest.approx(12.4)
    # a later message that took longer makes it no younger again
    cluster.now_s += 1.0
    cluster.driver(application_id, steady_ms=61_000)
    assert application.elapsed_s(cluster.now_s) == pytest.approx(13.4)


def test_the_first_application_stays_first_if_the_wall_clock_is_set_back(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    cluster.worker("w1")
    monkeypatch.setattr(time, "time", lambda: 1_700_000_000.0)
    first = cluster.register()
    cluster.now_s += 1
    monkeypatch.setattr(time, "time", lambda: 1_699_996_400.0)
    second = cluster.register()
    assert [one.id for one in by_rank(cluster.state.applications.values())] == [first, second]


def test_a_time_of_day_as_a_jobs_deadline_counts_by_the_wall_clock_of_its_start(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    driver = Driver(cluster, 0)
    at_ms = 1_700_000_000_000  # 2023-11-14T22:13:20Z
    properties = {"spark.pace.deadline": "2023-11-14T22:14:20+00:00"}
    driver.tell(JobStart(job=0, time_ms=driver.now_ms, wall_ms=at_ms, properties=properties))
    target = cluster.state.applications[driver.id].target()
    assert target is not None
    assert (target.start_s, target.deadline_s) == (2.0, 60.0)
