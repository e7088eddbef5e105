"""Submissions that come after others, as a master has them: they ask, wait, start, or never will."""

from __future__ import annotations

import os
from typing import Any
from uuid import uuid4

import pytest

from controller.master.core.dependencies import STARTING_S
from controller.master.core.submissions import SILENT_S
from controller.wire.command import PlanRequest, StartReply, StartRequest
from stage_model.errors import BadInput, Unavailable
from tests.fakes.cluster import FakeCluster, answered

pytestmark = pytest.mark.usefixtures("_taught")
NEAR = 2e-3


class Submission:
    """A submission that asks the cluster's master whether its driver may start."""

    def __init__(self, cluster: FakeCluster, name: str, after: str, **plan: Any) -> None:
        self.id, self.name, self.cluster, self.begun_s = str(uuid4()), name, cluster, cluster.now_s
        self.plan = PlanRequest(profile="app@app.py", after=after, **plan)
        self.comes_after: dict[str, str] = {}

    def ask(self) -> StartReply:
        reply = self._asked(None)
        if not reply.known:
            reply = self._asked(self.plan)
        self.comes_after = reply.comes_after
        return reply

    def _asked(self, plan: PlanRequest | None) -> StartReply:
        elapsed_s = self.cluster.now_s - self.begun_s
        asked = StartRequest(name=self.name, elapsed_s=elapsed_s, comes_after=self.comes_after, plan=plan)
        return answered(self.cluster.state.admission.ask(self.id, asked, os.getuid(), self.cluster.clock))

    def register(self, conf: dict[str, str] | None = None) -> str:
        """Start the driver and register it."""
        waited = {"spark.pace.waited": self.id, "spark.pace.name": self.name, "spark.pace.force": "true", **(conf or {})}
        return self.cluster.register(name="app", instance=self.id, age_s=0.0, conf=waited)


def end(cluster: FakeCluster, application_id: str) -> None:
    cluster.end(application_id)
    assert cluster.state.applications[application_id].finished


def listed(cluster: FakeCluster) -> dict[str, tuple[str, str]]:
    """Return state and reason by the name of each job that waits."""
    views = answered(cluster.state.commands.views(cluster.now_s))
    return {view.name: (view.state, view.reason) for view in views if view.submission == view.application_id}


def test_a_driver_starts_once_what_it_comes_after_has_ended(cluster: FakeCluster) -> None:
    load = cluster.register(name="load", instance="load")
    report = Submission(cluster, "report", "load:success")
    said = report.ask().reason
    assert f"{load} (load)" in said
    assert report.ask().reason == said
    assert listed(cluster) == {"report": ("waiting", said)}
    end(cluster, load)
    assert report.ask() == StartReply(comes_after={"load": load})
    assert listed(cluster) == {}
    application = report.register()
    assert not cluster.state.registry.waiting
    assert not cluster.state.applications[application].held_back


def test_a_name_is_that_of_the_job_that_waits_and_not_of_an_earlier_one(cluster: FakeCluster) -> None:
    end(cluster, cluster.register(name="clean", instance="yesterday"))
    load = cluster.register(name="load", instance="load")
    clean = Submission(cluster, "clean", "load")
    clean.ask()
    report = Submission(cluster, "report", "clean:success")
    assert f"{clean.id} (clean)" in report.ask().reason
    end(cluster, load)
    assert not clean.ask().reason
    assert f"{clean.id} (clean)" in report.ask().reason, "its driver starts"
    application = clean.register()
    assert f"{application} (app)" in report.ask().reason
    end(cluster, application)
    assert not report.ask().reason


@pytest.mark.parametrize("how", ["killed", "interrupted", "silent"])
def test_a_job_after_the_success_of_a_job_that_never_starts_does_not_start(cluster: FakeCluster, how: str) -> None:
    cluster.pass_by(STARTING_S)
    end(cluster, cluster.register(name="clean", instance="yesterday"))
    clean, report, other = (
        Submission(cluster, name, after)
        for name, after in (("clean", "load"), ("report", "clean:success"), ("other", "clean"))
    )
    for one in (clean, report, other):
        assert one.ask().reason
    if how == "killed":
        cluster.kill(clean.id)
        assert clean.ask().never
        assert answered(cluster.state.commands.views(cluster.now_s))
        assert cluster.view(clean.id).state == "ended"
    elif how == "interrupted":
        cluster.state.submissions.end(clean.id, "its driver has ended before it registered")
    else:
        for _ in range(2):
            cluster.pass_by(0.6 * SILENT_S)
            assert not report.ask().never or not cluster.state.submissions.view(clean.id, cluster.now_s)
    assert report.ask().never
    assert not other.ask().reason, "it only has to have ended"
    later = Submission(cluster, "later", "clean:success")
    assert not later.ask().reason, "the job that never started no longer counts under that name"


def test_after_a_restart_of_the_master_a_job_is_kept_to(cluster: FakeCluster) -> None:
    end(cluster, cluster.register(name="clean", instance="yesterday"))
    clean, report = Submission(cluster, "clean", "load"), Submission(cluster, "report", "clean")
    clean.ask()
    report.ask()
    cluster.pass_by(1.0)
    cluster.restart()
    assert clean.id in report.ask().reason
    assert "'load'" in clean.ask().reason
    assert f"{clean.id} (clean)" in report.ask().reason


def test_circles_and_unknown_ids_are_refused(cluster: FakeCluster) -> None:
    Submission(cluster, "a", "b").ask()
    with pytest.raises(BadInput, match="b after a after b"):
        Submission(cluster, "b", "a").ask()
    with pytest.raises(BadInput, match="b after a after b"):
        cluster.register(name="b", instance="b", conf={"spark.pace.after": "a"})
    c = Submission(cluster, "c", "a")
    assert c.ask().reason
    with pytest.raises(BadInput, match="b after c"):
        Submission(cluster, "b", "c").ask()
    with pytest.raises(BadInput, match="pace-20000101-000000-abcdef"):
        Submission(cluster, "e", "pace-20000101-000000-abcdef").ask()
    wrong = Submission(cluster, "d", "a")
    wrong.id = "pace-20000101-000000-abcdef"
    with pytest.raises(BadInput, match="UUID"):
        wrong.ask()


def test_too_many_are_refused(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.master.core.submissions.MOST_WAITING", 1)
    Submission(cluster, "a", "z").ask()
    with pytest.raises(Unavailable):
        Submission(cluster, "b", "z").ask()


def test_jobs_that_wait_keep_their_share_of_the_pipelines_time(cluster: FakeCluster) -> None:
    """Each job takes 3 s of start-up and 8 core-seconds, one after the other on one core: 3 (3 + 8 / c) = 66."""
    named = {"spark.pace.pipeline": "nightly", "spark.pace.pipeline.by": "66s"}
    load = cluster.register(instance="load", age_s=0.0, conf={**named, "spark.pace.name": "load"})
    clean, report = (
        Submission(cluster, name, after, pipeline="nightly", deadline_s=66.0)
        for name, after in (("clean", "load"), ("report", "clean"))
    )
    clean.ask()
    report.ask()
    cluster.pass_by()
    options = cluster.state.applications[load].options
    assert options.deadline_s == pytest.approx(22.0, rel=NEAR)
    late = PlanRequest(profile="app@app.py", deadline_s=30.0, pipeline="nightly", after="report")
    reply = answered(cluster.state.admission.plan(late, cluster.now_s, uid=os.getuid()))
    assert (reply.feasible, " 44s" in reply.reason) == (False, True)
    cluster.now_s += 10.0
    end(cluster, load)
    clean.ask()
    application = clean.register({**named, "spark.pace.pipeline.by": "56s"})
    for _ in range(2):
        # what waits counts still, and what has started counts once: half of the 56 s that are left, but for its start-up
        assert cluster.state.applications[application].options.deadline_s == pytest.approx(28.0, abs=1.0)
        cluster.pass_by()
