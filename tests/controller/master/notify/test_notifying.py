"""Notifications of a master to its operator's web hook: deadlines at risk, ends, refusals, and no secret."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.asks.receiver import parse_receiver
from controller.asks.user_limits import UserLimits
from controller.machine.waiting import wait_until
from controller.master.notify.missing import MissingJobs
from controller.master.notify.notifying import Notifying
from controller.master.notify.sender import Sender
from controller.wire.command import PlanRequest
from controller.wire.worker import ExecutorReport
from tests.controller.master.core.test_lateness import squeezed, teach
from tests.controller.master.notify.test_missing import DUE, HOUR, taught
from tests.controller.master.test_metrics import scrape, value
from tests.fakes.calls import Caller
from tests.fakes.cluster import AtOnce, FakeCluster, registration, report, sample
from tests.fakes.hook import Hook, hooked

PATIENCE_S = 60.0


class Notified:
    """A cluster and the events that its hook has received."""

    def __init__(self, cluster: FakeCluster, hook: Hook) -> None:
        self.cluster, self.hook = cluster, hook
        self.sender = Sender(parse_receiver(hook.url), None, time.monotonic)
        cluster.state.notifying = Notifying(self.sender, "this-cluster", lambda: 1e9)

    def at_risk(self, *here: ExecutorReport) -> list[dict[str, Any]]:
        """Let passes be far enough apart that a forecast past a deadline is a risk; return the received events."""
        for seconds in (0.0, 31.0):
            self.cluster.now_s += seconds
            self.cluster.worker("w1", *here)
            self.cluster.tick()
        return self.heard(1)

    def heard(self, count: int) -> list[dict[str, Any]]:
        """Return the notifications as soon as there are `count`."""
        assert wait_until(lambda: self.sender.counts() == ({"sent": count} if count else {}, 0), PATIENCE_S, 0.01)
        return [one.fields for one in self.hook.heard]


def late(cluster: FakeCluster, **changed: Any) -> tuple[str, ExecutorReport]:
    """Run an application whose forecast is 3 s past its deadline; return it, and what is reported of its executor."""
    cluster.worker("w1")
    job = cluster.register(conf={"spark.pace.deadline": "90s"}, **changed)
    cluster.driver(job)
    here = report(job, "1", demand_cores=1.0, quota_cores=0.25)
    cluster.worker("w1", here, samples=(sample(job, "1", 1.0, forecast_end_s=93.0),))
    return job, here


@pytest.fixture
def notified(cluster: FakeCluster) -> Iterator[Notified]:
    with hooked() as hook:
        one = Notified(cluster, hook)
        yield one
        one.sender.close()


def test_a_deadline_at_risk_is_reported_by_the_data_of_the_api(notified: Notified) -> None:
    cluster = notified.cluster
    job, here = late(cluster, name="nightly")
    [event] = notified.at_risk(here)
    view = cluster.view(job)
    assert (event["event"], event["application_id"], event["name"]) == ("deadline_at_risk", job, "nightly")
    assert (event["deadline_s"], event["forecast_end_s"]) == (view.deadline_s, view.forecast_end_s) == (90.0, 93.0)
    assert (event["cluster_id"], event["time"], event["elapsed_s"]) == ("this-cluster", 1e9, view.elapsed_s)
    cluster.tick()
    notified.heard(1)


def test_a_squeezed_job_at_risk_is_reported_with_the_jobs_that_have_its_cores_and_a_remedy(notified: Notified) -> None:
    teach(notified.cluster, 4.0)
    mine, here = squeezed(notified.cluster, forecast_end_s=62.0)
    [event] = notified.at_risk(*here)
    assert (event["application_id"], event["late_s"], event["late_since_s"]) == (mine, 2.0, 1.0)
    # three quarters of a core for two seconds: 1.5 of the 2 s on a core
    assert event["squeezed_by"] == ["other"]
    assert "1.5 core-seconds" in event["lateness"]
    assert event["command"] == f"sparkpace set {mine} --priority high"
    for said in (f"app ({mine})", "2s after its deadline of 1m", event["lateness"], event["command"]):
        assert said in event["text"]


def test_a_limited_user_is_advised_a_priority_that_set_accepts(notified: Notified) -> None:
    cluster, notifying = notified.cluster, notified.cluster.state.notifying
    cluster.users = (UserLimits("me", os.getuid(), priority=60),)
    cluster.restart()
    cluster.state.notifying = notifying
    job, here = late(cluster)
    [event] = notified.at_risk(here)
    assert event["command"] == f"sparkpace set {job} --priority 60"
    cluster.change(job, priority="60")
    assert cluster.view(job).priority == 60


def test_a_job_that_did_not_come_is_reported(notified: Notified, tmp_path: Path) -> None:
    missing = MissingJobs(taught(tmp_path / "habits"), UTC, AtOnce())
    wall = (DUE + HOUR).timestamp()
    notified.cluster.state.notifying = Notifying(notified.sender, "this-cluster", lambda: wall, missing)
    notified.cluster.tick()
    [event] = notified.heard(1)
    assert (event["event"], event["name"], event["time"]) == ("did_not_come", "nightly", wall)
    notified.cluster.tick()
    notified.heard(1)


def test_ends_are_reported_with_the_outcome_that_is_counted(notified: Notified) -> None:
    cluster = notified.cluster
    cluster.tick()
    done = cluster.finished_run(conf={"spark.pace.deadline": "10s"})
    killed = cluster.register(instance="another", name="stopped")
    cluster.kill(killed)
    cluster.tick()
    first, second = notified.heard(2)
    assert (first["application_id"], first["outcome"], first["deadline_s"]) == (done, "succeeded", 10.0)
    # submitted 2 s before it registered, over 9 s after that: 11 s, a tenth late
    assert first["reason"] is None
    assert (first["elapsed_s"], first["error_pct"]) == (pytest.approx(11.0, abs=0.01), pytest.approx(10.0, abs=0.1))
    assert (second["application_id"], second["outcome"]) == (killed, "killed")
    assert second["reason"]
    assert second["error_pct"] is None
    # 3 s until the first task, and 8 core-seconds on a core
    assert "10s" in first["lateness"]
    assert second["lateness"] is None
    counted = scrape(cluster)
    assert value(counted, "applications_ended_total", outcome="succeeded") == 1
    assert value(counted, "notifications_total", outcome="sent") == 2
    assert value(counted, "notifications_waiting") == 0


def test_a_refusal_is_reported_for_a_plan_and_for_a_registration(notified: Notified, call: Caller) -> None:
    notified.cluster.finished_run()
    asked = PlanRequest(profile="app@app.py", deadline_s=5.0, submits="nightly")
    assert call("POST", "/v1/plan", asked)["feasible"] is False
    conf = {"spark.pace.deadline": "5s"}
    call("POST", "/v1/applications", registration(instance="x", conf=conf))
    assert call.status == 409
    first, second = notified.heard(2)
    assert (first["event"], first["name"], first["application_id"]) == ("submission_refused", "nightly", None)
    assert "1.00 cores" in first["reason"]
    assert (second["event"], second["name"]) == ("submission_refused", "app")
    assert second["reason"].startswith(first["reason"])
    assert (first["deadline_s"], second["deadline_s"]) == (5.0, 5.0)


def test_a_refusal_for_something_else_has_the_deadline_that_was_asked_for_if_it_can_be_read(
    notified: Notified, call: Caller
) -> None:
    call.cluster.worker("w1", memory_mb=1000)
    annotated = {"spark.kubernetes.driver.annotation.sparkpace.io/deadline": "80s"}
    for asked in ({}, {"spark.pace.deadline": "90s"}, {"spark.pace.deadline": "soon"}, annotated):
        call("POST", "/v1/applications", registration(conf=asked))
        assert call.status == 400
    assert [event["deadline_s"] for event in notified.heard(4)] == [None, 90.0, None, 80.0]


def test_who_only_asks_is_not_refused_and_neither_is_a_driver_that_comes_again(notified: Notified, call: Caller) -> None:
    notified.cluster.finished_run()
    assert call("POST", "/v1/plan", PlanRequest(profile="app@app.py", deadline_s=5.0))["feasible"] is False
    assert call("POST", "/v1/plan", PlanRequest(profile="app@app.py", deadline_s=60.0, submits="x"))["feasible"] is True
    call("POST", "/v1/applications", registration(application_id="pace-20200101-000000-abcdef", instance="x", uid=-1))
    assert call.status >= 400
    assert notified.heard(0) == []


def test_no_secret_of_a_submission_is_sent_with_any_refusal(notified: Notified, call: Caller) -> None:
    call.cluster.worker("w1", memory_mb=4000)
    secret = "hunter2"
    environment = {"API_KEY": secret}
    conf = {"spark.hadoop.fs.s3a.secret.key": secret, "spark.executor.extraJavaOptions": secret}
    refused: list[dict[str, object]] = [
        {"uid": -1},
        {"environment": {**environment, "A=B": secret}},
        {"environment": {**environment, "NUL": secret + "\0"}},
        {"conf": {**conf, "spark.pace.deadline": "soon"}},
        {"conf": {**conf, "spark.executor.memory": "64g"}},
        {"conf": {**conf, "spark.pace.nonsense": secret}},
        {"authenticated": True},
    ]
    for changed in refused:
        call("POST", "/v1/applications", registration(**({"environment": environment, "conf": conf} | changed)))
        assert call.status >= 400, changed
    assert len(notified.heard(len(refused))) == len(refused)
    for heard in notified.hook.heard:
        assert secret.encode() not in heard.body, heard.body
        assert msgspec.json.decode(heard.body)["cluster_id"] == "this-cluster"


def test_a_receiver_that_is_away_holds_up_no_pass(tmp_path: Path) -> None:
    with hooked("silence") as hook:
        one = Notified(FakeCluster(tmp_path), hook)
        one.cluster.tick()
        for number in range(3):
            one.cluster.kill(one.cluster.register(instance=str(number)))
            one.cluster.tick()
        assert one.sender.counts() == ({}, 3)
        hook.over.set()
        one.sender.close()
