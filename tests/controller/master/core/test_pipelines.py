"""Jobs with one end together in the master: each one's share, refusals of the whole, and shares split again.

The profile is of `finished_run`: 3 s of start-up and 8 core-seconds on one core, so T(c) = 3 + 8 / c.
"""

from __future__ import annotations

import os
import re
from typing import Any

import pytest

from controller.master.core.pipelines import SPLITS_A_TICK
from controller.wire.command import PlanRequest
from controller.wire.driver import NOBODY_UID
from stage_model.errors import BadInput, InfeasibleDeadline
from tests.fakes.cluster import FakeCluster, answered
from tests.fakes.refusals import assert_names

pytestmark = pytest.mark.usefixtures("_taught")
NEAR = 2e-3


def join(cluster: FakeCluster, instance: str, by: str, after: str = "", **more: Any) -> str:
    conf = {"spark.pace.pipeline": "nightly", "spark.pace.pipeline.by": by, **more.pop("conf", {})}
    if after:
        conf["spark.pace.after"] = after
    return cluster.register(conf=conf, instance=instance, age_s=0.0, **more)


def deadlines(cluster: FakeCluster, *ids: str) -> list[float | None]:
    return [cluster.state.applications[one].options.deadline_s for one in ids]


def test_who_joins_gets_its_share_and_the_others_get_new_ones(cluster: FakeCluster) -> None:
    first = join(cluster, "a", "44s")
    assert deadlines(cluster, first) == [pytest.approx(44.0)]
    second = join(cluster, "b", "44s", after=first)
    cluster.pass_by()
    # 2 (3 + 8 / c) = 44
    assert deadlines(cluster, first, second) == [pytest.approx(22.0, rel=NEAR), pytest.approx(44.0, rel=NEAR)]
    assert [one.deadline_s for one in cluster.state.applications[first].record.changes] == [pytest.approx(22.0, rel=NEAR)]
    assert not cluster.state.applications[second].record.changes, "its first share is no change"
    assert cluster.view(second).pipeline == "nightly"
    cluster.pass_by(1.0)
    assert len(cluster.state.applications[first].record.changes) == 1, "nothing came or ended"


def test_what_is_left_is_split_again_when_a_job_ends(cluster: FakeCluster) -> None:
    first = join(cluster, "a", "66s")
    second = join(cluster, "b", "66s", after=first)
    third = join(cluster, "c", "66s", after=second)
    cluster.pass_by()
    assert deadlines(cluster, first, second, third) == [pytest.approx(by, rel=NEAR) for by in (22.0, 44.0, 66.0)]
    cluster.now_s += 10.0
    cluster.driver(first, ended=True)
    cluster.pass_by()
    # both drivers are up: 8 / c each in the 56 s that are left
    assert deadlines(cluster, second, third) == [pytest.approx(38.0, rel=NEAR), pytest.approx(66.0, rel=NEAR)]


def test_many_pipelines_are_split_a_few_at_a_time_and_none_is_left_out(cluster: FakeCluster) -> None:
    pairs = []
    for number in range(SPLITS_A_TICK + 1):
        named = {"spark.pace.pipeline": f"nightly-{number}", "spark.pace.force": "true"}
        first = join(cluster, f"a{number}", "44s", conf=named)
        pairs.append((first, join(cluster, f"b{number}", "44s", after=first, conf=named)))

    def split() -> list[bool]:
        return [deadlines(cluster, first) == [pytest.approx(22.0, rel=NEAR)] for first, _ in pairs]

    cluster.pass_by()
    assert split() == [True] * SPLITS_A_TICK + [False]
    cluster.pass_by()
    assert all(split())


def test_drivers_without_a_voucher_are_not_one_users(cluster: FakeCluster) -> None:
    first, second = (join(cluster, name, by, attached=True, uid=NOBODY_UID) for name, by in (("a", "44s"), ("b", "90s")))
    cluster.pass_by()
    assert deadlines(cluster, first, second) == [44.0, 90.0]


def test_a_whole_that_cannot_end_in_time_is_refused(cluster: FakeCluster) -> None:
    first = join(cluster, "a", "30s")
    with pytest.raises(InfeasibleDeadline, match=r"nightly, 20s, .* 22s.* 23s"):
        join(cluster, "b", "20s", after=first)
    forced = join(cluster, "c", "20s", after=first, conf={"spark.pace.force": "true"})
    cluster.pass_by()
    assert deadlines(cluster, first, forced) == [pytest.approx(11.0, rel=NEAR), pytest.approx(22.0, rel=NEAR)]


def test_a_submission_asks_for_the_whole_before_its_driver_starts(cluster: FakeCluster) -> None:
    """Each job takes 3 s of start-up and 8 core-seconds, one after the other: 22 s on the one core; the driver is not there
    yet. The promise to the first one is a part of the whole, and nothing that this one has to fit next to."""
    first = join(cluster, "a", "20s")

    def asked(by_s: float, after: str, uid: int = os.getuid(), name: str = "nightly") -> tuple[bool | None, str]:
        request = PlanRequest(profile="app@app.py", deadline_s=by_s, pipeline=name, after=after)
        reply = answered(cluster.state.admission.plan(request, cluster.now_s, uid=uid))
        return reply.feasible, reply.reason

    feasible, no = asked(20.0, first)
    assert not feasible
    assert_names(no, "nightly, 20s", "22s", "23s")
    assert "nightly, 10s" in asked(10.0, first)[1]
    assert asked(23.0, first)[0]
    assert asked(20.0, "", name="other")[0]
    assert asked(20.0, first, uid=NOBODY_UID)[0]
    with pytest.raises(InfeasibleDeadline, match=re.escape(no)):
        join(cluster, "b", "20s", after=first)


def test_other_users_have_pipelines_of_their_own(cluster: FakeCluster) -> None:
    mine = join(cluster, "a", "60s")
    theirs = join(cluster, "b", "50s", after=mine, uid=12345)
    cluster.pass_by()
    assert deadlines(cluster, mine, theirs) == [pytest.approx(60.0), pytest.approx(50.0)]


def test_a_job_without_a_profile_has_no_deadline_and_the_others_share_the_time(cluster: FakeCluster) -> None:
    new = join(cluster, "a", "40s", name="new", main="new.py")
    known = join(cluster, "b", "40s", after=new)
    cluster.pass_by()
    assert deadlines(cluster, new, known) == [None, pytest.approx(40.0, rel=NEAR)]


def test_without_a_worker_it_is_split_when_one_is_there(cluster: FakeCluster) -> None:
    cluster.now_s += 60.0  # the only worker is silent
    first = join(cluster, "a", "44s")
    second = join(cluster, "b", "44s", after=first)
    assert deadlines(cluster, first, second) == [pytest.approx(44.0), pytest.approx(44.0)]
    cluster.pass_by()
    assert deadlines(cluster, first) == [pytest.approx(22.0, rel=NEAR)]


def test_too_many_jobs_are_refused(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.master.core.pipelines.MOST_JOBS", 2)
    join(cluster, "a", "60s")
    join(cluster, "b", "60s")
    with pytest.raises(BadInput, match=r"nightly .* 3 jobs.* 2"):
        join(cluster, "c", "60s")


def test_the_record_says_which_pipeline_it_was_of(cluster: FakeCluster) -> None:
    conf = {"spark.pace.pipeline": "nightly", "spark.pace.pipeline.by": "90s"}
    application_id = cluster.finished_run(conf=conf, instance="second")
    summary = cluster.summary(application_id)
    assert summary["pipeline"] == {"name": "nightly", "by_s": 90.0}
