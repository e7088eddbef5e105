"""Drivers that workers host: where each is started, what its states are, when it is started again, and that no start of it is
taken for another."""

from __future__ import annotations

import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.machine.process import Process
from controller.master.core.core import ClusterOptions
from controller.master.core.hosted_driver import MOST_FAILURES, STEADY_S
from controller.master.core.hosting import KEPT, MOST_BYTES, STARTED_NEXT
from controller.master.core.workers import STALE_S
from controller.wire.command import SUBMISSION_ID
from controller.wire.hosting import FINAL, DriverState, HostedReport, HostedView, HostRequest
from controller.wire.limits import DRIVERS_OF_A_USER
from controller.wire.states import Outcome
from controller.wire.worker import Desired
from stage_model.errors import BadInput, TooMuch
from tests.fakes.cluster import FakeCluster

UID = 1000
LOST_S = ClusterOptions().lost_after_s
WALL_S = 1_900_000_000.0


class HostingWorkers:
    """Workers that host drivers and obey what the master last said; `silent` ones neither report nor hear. `running` has the
    starts on each worker with their codes: None while one runs."""

    def __init__(self, cluster: FakeCluster, *workers: str) -> None:
        self.cluster, self.silent = cluster, set[str]()
        self.running: dict[str, dict[str, int | None]] = {worker: {} for worker in workers}
        self.report()

    def report(self) -> None:
        """Let each worker report and obey the answer, then report that."""
        for _ in range(2):
            for worker in self.running.keys() - self.silent:
                self._obey(worker, self._desired(worker))

    def _desired(self, worker: str) -> Desired:
        here = self.running[worker].items()
        reports = (HostedReport(submission=one, ended=code is not None, exit_code=code) for one, code in here)
        return self.cluster.worker(worker, hosts_for=0, drivers=tuple(reports)).desired

    def _obey(self, worker: str, desired: Desired) -> None:
        here, wanted = self.running[worker], {spec.submission for spec in desired.drivers}
        for submission in [one for one, code in here.items() if code is not None and one not in desired.drivers_here]:
            del here[submission]
        for submission in wanted - here.keys():
            here[submission] = None
        for submission in desired.drivers_stopped:
            here[submission] = 143

    def pass_by(self, seconds: float) -> None:
        until_s = self.cluster.now_s + seconds
        while self.cluster.now_s < until_s:
            self.report()
            self.cluster.tick(2.0)
        self.report()

    def submit(self, **changed: Any) -> str:
        plain = HostRequest(
            name="job", words=("app.py",), environment={"PATH": "/bin"}, working_dir="/", uid=UID, gid=UID,
            process=Process(1, 1, "boot"),
        )  # fmt: skip
        asked = msgspec.structs.replace(plain, **changed)
        driver_id = self.cluster.state.hosting.submit(asked, self.cluster.now_s, WALL_S).driver_id
        self.report()
        return driver_id

    def view(self, driver_id: str) -> HostedView:
        return self.cluster.state.hosting.view(driver_id)

    def exits(self, driver_id: str, code: int = 0) -> None:
        """Let the last start of a driver exit."""
        view = self.view(driver_id)
        self.running[view.worker_id][view.submission] = code
        self.report()

    @property
    def alive(self) -> list[str]:
        return [one for here in self.running.values() for one, code in here.items() if code is None]


@pytest.fixture
def hosts(cluster: FakeCluster) -> HostingWorkers:
    return HostingWorkers(cluster, "w1", "w2")


def test_a_driver_runs_on_one_worker_until_it_has_ended(hosts: HostingWorkers) -> None:
    driver_id = hosts.submit()
    view = hosts.view(driver_id)
    assert (view.state, view.attempt, hosts.alive) == (DriverState.RUNNING, 1, [view.submission])
    assert SUBMISSION_ID.fullmatch(view.submission)
    hosts.exits(driver_id)
    assert (hosts.view(driver_id).state, hosts.view(driver_id).exit_code) == (DriverState.FINISHED, 0)
    hosts.pass_by(5)
    assert hosts.running == {"w1": {}, "w2": {}}


def test_drivers_go_where_the_fewest_are(hosts: HostingWorkers) -> None:
    ids = [hosts.submit() for _ in range(4)]
    assert sorted(hosts.view(driver_id).worker_id for driver_id in ids) == ["w1", "w1", "w2", "w2"]
    assert len(set(ids)) == 4


def test_without_a_worker_for_that_user_nothing_is_kept(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    cluster.worker("w2", hosts_for=UID + 1)
    hosts = HostingWorkers(cluster)
    with pytest.raises(BadInput, match=f"hosts drivers of uid {UID}"):
        hosts.submit()
    assert cluster.state.hosting.views().drivers == ()
    cluster.worker("w3", hosts_for=UID)
    assert hosts.view(hosts.submit()).worker_id == "w3"


def test_a_user_has_a_limited_number_of_drivers(hosts: HostingWorkers) -> None:
    for _ in range(DRIVERS_OF_A_USER):
        last = hosts.submit()
    with pytest.raises(TooMuch):
        hosts.submit()
    hosts.submit(uid=UID + 1)
    hosts.exits(last)
    hosts.submit()


def test_words_that_no_command_line_carries_are_refused(hosts: HostingWorkers) -> None:
    for changed in ({"words": ("a\0b",)}, {"environment": {"a=b": ""}}):
        with pytest.raises(BadInput):
            hosts.submit(**changed)


@pytest.mark.parametrize("code", [1, 137, None])
def test_a_driver_that_fails_is_started_again_only_if_it_is_supervised(hosts: HostingWorkers, code: int | None) -> None:
    once, again = hosts.submit(), hosts.submit(supervise=True)
    for driver_id in (once, again):
        view = hosts.view(driver_id)
        if code is None:  # its agent has lost sight of it
            del hosts.running[view.worker_id][view.submission]
            hosts.report()
        else:
            hosts.exits(driver_id, code)
    assert (hosts.view(once).state, hosts.view(once).exit_code) == (DriverState.FAILED, code)
    assert hosts.view(again).state is DriverState.RELAUNCHING
    hosts.pass_by(2)
    assert (hosts.view(again).state, hosts.view(again).attempt) == (DriverState.RUNNING, 2)
    assert hosts.alive == [hosts.view(again).submission]


def test_the_code_that_the_driver_reported_counts_where_its_agent_did_not_see_it(hosts: HostingWorkers) -> None:
    driver_id = hosts.submit(supervise=True)
    view = hosts.view(driver_id)
    hosts.cluster.state.commands.driver_ended(view.submission, 0, hosts.cluster.now_s)
    assert hosts.view(driver_id).state is DriverState.RUNNING
    del hosts.running[view.worker_id][view.submission]
    hosts.report()
    assert hosts.view(driver_id).state is DriverState.FINISHED


def test_a_driver_that_fails_soon_each_time_is_given_up(hosts: HostingWorkers) -> None:
    driver_id = hosts.submit(supervise=True)
    starts = 0
    while hosts.view(driver_id).state not in FINAL:
        if hosts.view(driver_id).state is DriverState.RUNNING:
            starts += 1
            hosts.exits(driver_id, 1)
        else:
            hosts.pass_by(1)
    assert (hosts.view(driver_id).state, starts) == (DriverState.FAILED, MOST_FAILURES)
    assert f"{MOST_FAILURES} times in a row" in hosts.view(driver_id).reason


def test_failures_after_a_steady_time_are_no_failures_in_a_row(hosts: HostingWorkers) -> None:
    driver_id = hosts.submit(supervise=True)
    for start in range(MOST_FAILURES + 1):
        assert (hosts.view(driver_id).state, hosts.view(driver_id).attempt) == (DriverState.RUNNING, start + 1)
        hosts.pass_by(STEADY_S + 1)
        hosts.exits(driver_id, 1)
        hosts.pass_by(3)


@pytest.mark.parametrize("supervise", [False, True])
def test_a_killed_driver_is_never_started_again(hosts: HostingWorkers, supervise: bool) -> None:
    driver_id = hosts.submit(supervise=supervise)
    hosts.cluster.state.hosting.kill(driver_id, hosts.cluster.now_s)
    hosts.pass_by(5)
    assert (hosts.view(driver_id).state, hosts.alive) == (DriverState.KILLED, [])
    assert hosts.cluster.state.hosting.kill(driver_id, hosts.cluster.now_s).state is DriverState.KILLED


def test_a_kill_outlives_the_master(hosts: HostingWorkers) -> None:
    driver_id = hosts.submit(supervise=True)
    hosts.cluster.state.hosting.kill(driver_id, hosts.cluster.now_s)
    hosts.cluster.restart()
    hosts.pass_by(5)
    assert (hosts.view(driver_id).state, hosts.alive) == (DriverState.KILLED, [])


def test_a_start_that_has_failed_gets_no_application_any_more(hosts: HostingWorkers) -> None:
    driver_id = hosts.submit(supervise=True)
    conf = {"spark.pace.submission": hosts.view(driver_id).submission}
    hosts.exits(driver_id, 1)
    assert hosts.view(driver_id).state is DriverState.RELAUNCHING
    with pytest.raises(BadInput, match="given up"):
        hosts.cluster.register(conf=conf)


def test_a_driver_that_waits_to_be_started_again_is_killed_at_once(hosts: HostingWorkers) -> None:
    driver_id = hosts.submit(supervise=True)
    hosts.exits(driver_id, 1)
    hosts.cluster.state.hosting.kill(driver_id, hosts.cluster.now_s)
    assert hosts.view(driver_id).state is DriverState.KILLED
    hosts.pass_by(5)
    assert hosts.alive == []


def test_with_its_application_a_driver_is_killed_for_good(hosts: HostingWorkers) -> None:
    driver_id = hosts.submit(supervise=True)
    conf = {"spark.pace.submission": hosts.view(driver_id).submission}
    hosts.cluster.kill(hosts.cluster.register(conf=conf))
    hosts.exits(driver_id, 1)
    hosts.pass_by(5)
    assert hosts.view(driver_id).state is DriverState.KILLED


def test_a_worker_that_refuses_a_driver_ends_it_with_its_sentence(hosts: HostingWorkers) -> None:
    hosts.silent = {"w1", "w2"}
    driver_id = hosts.submit(supervise=True)
    view = hosts.view(driver_id)
    refused = HostedReport(submission=view.submission, refused="app.py cannot be read")
    hosts.cluster.worker(view.worker_id, hosts_for=0, drivers=(refused,))
    after = hosts.view(driver_id)
    assert (after.state, after.refused, after.reason) == (DriverState.ERROR, True, "app.py cannot be read")


def test_a_supervised_driver_that_has_run_is_tried_again_after_a_refusal(hosts: HostingWorkers) -> None:
    driver_id = hosts.submit(supervise=True)
    hosts.exits(driver_id, 1)
    hosts.silent = {"w1", "w2"}
    while not hosts.view(driver_id).worker_id:
        hosts.cluster.tick(1.0)
    view = hosts.view(driver_id)
    refused = HostedReport(submission=view.submission, refused="/data cannot be entered")
    hosts.cluster.worker(view.worker_id, hosts_for=0, drivers=(refused,))
    assert (hosts.view(driver_id).state, hosts.view(driver_id).refused) == (DriverState.RELAUNCHING, False)
    hosts.silent = set()
    hosts.pass_by(5)
    assert (hosts.view(driver_id).state, hosts.view(driver_id).attempt) == (DriverState.RUNNING, 3)


def test_a_steady_time_counts_also_after_a_restart_of_the_master(hosts: HostingWorkers) -> None:
    driver_id = hosts.submit(supervise=True)
    for _ in range(MOST_FAILURES + 1):
        hosts.cluster.restart()
        hosts.pass_by(STEADY_S + 2)
        hosts.exits(driver_id, 1)
        hosts.pass_by(3)
    assert hosts.view(driver_id).state is DriverState.RUNNING


def test_all_drivers_together_have_a_limited_size(hosts: HostingWorkers) -> None:
    with pytest.raises(TooMuch, match="command lines"):
        hosts.submit(words=("x" * MOST_BYTES,))
    hosts.submit()


def test_an_agent_is_given_some_drivers_at_a_time_in_their_order(hosts: HostingWorkers) -> None:
    hosts.silent = {"w1", "w2"}
    ids = [hosts.submit() for _ in range(4 * STARTED_NEXT)]
    desired = hosts.cluster.worker("w1", hosts_for=0).desired
    there = [hosts.view(one).submission for one in ids if hosts.view(one).worker_id == "w1"]
    assert [spec.submission for spec in desired.drivers] == there[:STARTED_NEXT]
    assert list(desired.drivers_here) == there


def test_what_only_a_start_needs_is_dropped_in_the_end(hosts: HostingWorkers) -> None:
    driver_id = hosts.submit(environment={"TOKEN": "hush"}, words=("--conf", "secret=hush", "app.py"))
    hosts.exits(driver_id)
    driver = hosts.cluster.state.core.hosting.drivers[driver_id]
    assert b"hush" not in msgspec.json.encode(driver)


def test_drivers_outlive_the_master(hosts: HostingWorkers) -> None:
    ended, driver_id = hosts.submit(), hosts.submit(supervise=True)
    hosts.exits(ended)
    hosts.cluster.restart()
    assert hosts.view(ended).state is DriverState.FINISHED
    hosts.pass_by(5)
    assert (hosts.view(driver_id).state, hosts.view(driver_id).attempt) == (DriverState.RUNNING, 1)
    hosts.exits(driver_id, 1)
    hosts.pass_by(5)
    assert hosts.view(driver_id).attempt == 2
    assert hosts.submit() not in (ended, driver_id)


@pytest.mark.parametrize("supervise", [False, True])
def test_a_driver_is_given_up_with_its_worker_and_never_runs_twice(hosts: HostingWorkers, supervise: bool) -> None:
    driver_id = hosts.submit(supervise=supervise)
    first = hosts.view(driver_id)
    conf = {"spark.pace.submission": first.submission}
    application_id = hosts.cluster.register(conf=conf)
    hosts.silent = {first.worker_id}
    hosts.pass_by(LOST_S - 2)
    assert hosts.view(driver_id) == first
    hosts.pass_by(10)
    now = hosts.view(driver_id)
    assert now.state is (DriverState.RUNNING if supervise else DriverState.ERROR)
    assert hosts.cluster.state.applications[application_id].record.cut_off is Outcome.DRIVER_DIED
    with pytest.raises(BadInput, match="given up"):  # it had not registered before its worker was lost
        hosts.cluster.register(conf=conf)
    hosts.silent = set()
    hosts.pass_by(5)
    assert hosts.alive == ([now.submission] if supervise else [])


def test_a_driver_that_reports_is_not_given_up_with_a_silent_worker(hosts: HostingWorkers) -> None:
    driver_id = hosts.submit(supervise=True)
    view = hosts.view(driver_id)
    application_id = hosts.cluster.register(conf={"spark.pace.submission": view.submission})
    hosts.silent = {view.worker_id}
    for _ in range(int(2 * LOST_S / STALE_S * 2)):
        hosts.pass_by(STALE_S / 2)
        hosts.cluster.driver(application_id)
    assert hosts.view(driver_id) == view


def test_an_unknown_start_is_left_alone(hosts: HostingWorkers) -> None:
    hosts.running["w1"]["20290101000000-0000-1"] = None
    hosts.pass_by(5)
    assert hosts.alive == ["20290101000000-0000-1"]


def test_drivers_that_ended_long_ago_are_forgotten(hosts: HostingWorkers) -> None:
    first = hosts.submit()
    hosts.exits(first)
    for _ in range(KEPT):
        hosts.exits(hosts.submit())
    hosts.pass_by(1)
    with pytest.raises(BadInput, match="forgotten"):
        hosts.view(first)


EVENTS = st.lists(
    st.sampled_from(
        ["submit", "supervise", "exit 0", "exit 1", "kill", "cut w1", "cut w2", "heal", "restart", "wait 2", "wait 40"]
    ),
    max_size=25,
)


@given(EVENTS)
def test_whatever_happens_at_most_one_wanted_start_of_a_driver_runs(events: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        hosts = HostingWorkers(FakeCluster(Path(folder)), "w1", "w2", "w3")
        ids: list[str] = []
        for event in events:
            word, _, what = event.partition(" ")
            running = [one for one in ids if hosts.view(one).state is DriverState.RUNNING]
            if word in ("submit", "supervise"):
                with suppress(BadInput):  # all of them are cut off
                    ids.append(hosts.submit(supervise=word == "supervise"))
            elif word == "exit" and running and hosts.view(running[0]).worker_id not in hosts.silent:
                hosts.exits(running[0], int(what))
            elif word == "kill" and ids:
                hosts.cluster.state.hosting.kill(ids[-1], hosts.cluster.now_s)
            elif word == "cut":
                hosts.silent.add(what)
            elif word == "heal":
                hosts.silent.clear()
            elif word == "restart":
                hosts.cluster.restart()
            elif word == "wait":
                hosts.pass_by(float(what))
        hosts.silent.clear()
        hosts.pass_by(LOST_S + STALE_S)
        views = [hosts.view(one) for one in ids]
        assert sorted(hosts.alive) == sorted(one.submission for one in views if one.state is DriverState.RUNNING)
        assert all(one.state is not DriverState.SUBMITTED for one in views)
