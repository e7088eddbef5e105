"""A scrape of a cluster, worked out by hand; its series are of what is there, and bounded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from controller.agent.timings import PeriodTimings
from controller.asks.user_limits import UserLimits
from controller.master import metrics
from controller.master.metric_table import METRICS
from tests.fakes.cluster import FakeCluster, answered, report, sample

NOW_EPOCH_S = 2_000_000.0
Series = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(cluster: FakeCluster) -> Series:
    text = answered(metrics.metrics(cluster.state, cluster.now_s, NOW_EPOCH_S)).decode()
    families = text_string_to_metric_families(text)
    return {(s.name, tuple(sorted(s.labels.items()))): s.value for family in families for s in family.samples}


def value(series: Series, name: str, **labels: str) -> float | None:
    return series.get((f"sparkpace_{name}", tuple(sorted(labels.items()))))


def test_what_is_shown_of_an_application_that_runs(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    one = cluster.register(conf={"spark.pace.deadline": "90s", "spark.pace.priority": "high"})
    cluster.driver(one)
    running = report(one, "1", quota_cores=0.5, demand_cores=0.75, cpu_core_s=3.0, memory_limit_mb=2)
    cluster.worker("w1", running, samples=(sample(one, "1", 8.0, usage=0.25, forecast_end_s=80.0),))
    cluster.now_s += 10
    series = scrape(cluster)
    # it was submitted 2 s before it registered, and that was 10 s ago
    since = NOW_EPOCH_S - 12
    assert value(series, "application_deadline_timestamp_seconds", application=one) == pytest.approx(since + 90, abs=0.01)
    assert value(series, "application_forecast_end_timestamp_seconds", application=one) == pytest.approx(since + 80, abs=0.01)
    cores = {kind: value(series, "application_cores", application=one, kind=kind) for kind in ("granted", "demanded", "used")}
    assert cores == {"granted": 0.5, "demanded": 0.75, "used": 0.25}
    assert value(series, "executor_cpu_seconds_total", application=one, executor="1", worker="w1") == 3.0
    assert value(series, "application_memory_bytes", application=one) == 2 * 1024 * 1024
    assert value(series, "application_priority", application=one) == 100
    assert value(series, "worker_last_report_timestamp_seconds", worker="w1") == NOW_EPOCH_S - 10
    assert value(series, "applications", state="running") == 1


def test_series_of_one_that_has_ended_are_gone_and_its_end_is_counted(cluster: FakeCluster) -> None:
    done = cluster.finished_run(conf={"spark.pace.deadline": "10s"})
    killed = cluster.register(instance="another")
    cluster.kill(killed)
    series = scrape(cluster)
    assert not [labels for _, labels in series if {done, killed} & set(dict(labels).values())]
    ended = {how: value(series, "applications_ended_total", outcome=how) for how in ("succeeded", "killed", "failed")}
    assert ended == {"succeeded": 1, "killed": 1, "failed": 0}
    # submitted 2 s before it registered, over 9 s after that: 11 s, a tenth late
    error = {le: value(series, "application_deadline_error_ratio_bucket", le=le) for le in ("0.05", "0.2", "+Inf")}
    assert error == {"0.05": 0, "0.2": 1, "+Inf": 1}
    cluster.restart()
    assert value(scrape(cluster), "applications_ended_total", outcome="succeeded") == 0, "one life of the master"


def test_what_an_agent_tells_of_its_speed_is_shown_by_worker_and_phase(cluster: FakeCluster) -> None:
    timings = PeriodTimings(lambda: 0.0)
    timings.add_period({"look": 0.001, "write quotas": 0.03, "of a newer release": 1.0})
    timings.add_period({"look": 20.0, "write quotas": 0.03})
    timings.add_quota_write(0.004, written=True)
    timings.add_quota_write(0.25, written=False)
    cluster.worker("w1", timings=timings.message())
    series = scrape(cluster)
    looks = {
        le: value(series, "agent_tick_seconds_bucket", worker="w1", phase="look", le=le) for le in ("0.001", "10.0", "+Inf")
    }
    assert looks == {"0.001": 1, "10.0": 1, "+Inf": 2}
    assert value(series, "agent_tick_seconds_sum", worker="w1", phase="write_quotas") == pytest.approx(0.06)
    writes = {le: value(series, "quota_write_seconds_bucket", worker="w1", le=le) for le in ("0.0025", "0.005", "0.25")}
    assert writes == {"0.0025": 0, "0.005": 1, "0.25": 2}
    assert value(series, "quota_write_failures_total", worker="w1") == 1
    assert not [labels for _, labels in series if "of_a_newer_release" in dict(labels).values()]


def test_a_hostile_name_is_one_short_label(cluster: FakeCluster) -> None:
    hostile = 'a"} 1\n\x1b[2J\\' + "x" * 900
    one = cluster.register(name=hostile)
    (shown,) = [dict(labels) for name, labels in scrape(cluster) if name == "sparkpace_application_info"]
    assert shown["application"] == one
    assert shown["name"] == 'a"} 1??[2J\\' + "x" * (80 - 11)


def test_executors_over_a_limit_have_no_series_and_are_counted(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics, "MOST_EXECUTORS", 1)
    cluster.worker("w1")
    cluster.worker("w2")
    one = cluster.register()
    assert len(cluster.state.applications[one].executors) == 2
    series = scrape(cluster)
    assert len([name for name, _ in series if name == "sparkpace_executor_cpu_seconds_total"]) == 1
    assert value(series, "executors_left_out") == 1


def test_throttled_time_is_shown_of_executors_whose_runtime_counts_it(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    cluster.worker("w2")
    one = cluster.register()
    cluster.worker("w1", report(one, "1", throttled_s=2.5))
    cluster.worker("w2", report(one, "2"))
    shown = {dict(labels)["executor"]: seconds for (name, labels), seconds in scrape(cluster).items() if "throttled" in name}
    assert shown == {"1": 2.5}


def test_how_far_a_worker_makes_room_on_its_machine_is_shown(cluster: FakeCluster) -> None:
    cluster.worker("w1")
    assert value(scrape(cluster), "worker_relief_steps", worker="w1") == 0
    cluster.worker("w1", relief_steps=2)
    assert value(scrape(cluster), "worker_relief_steps", worker="w1") == 2


def test_every_metric_of_the_table_is_shown(cluster: FakeCluster) -> None:
    text = answered(metrics.metrics(cluster.state, 100.0, NOW_EPOCH_S)).decode()
    shown = {line.split()[2]: line.split()[3] for line in text.splitlines() if line.startswith("# TYPE ")}
    assert shown == {metric.shown: metric.kind for metric in METRICS}


def test_users_with_limits_have_series_and_others_none(tmp_path: Path) -> None:
    me, other = os.getuid(), 54_321
    limits = (UserLimits("me", me, cores=2.0, applications=3), UserLimits("default", memory_mb=4096))
    cluster = FakeCluster(tmp_path, users=limits)
    cluster.worker("w1")
    cluster.driver(cluster.register())
    of_me = {
        (name, kind): value(scrape(cluster), f"user_{name}", user="me", kind=kind)
        for name in ("applications", "cores", "memory_bytes")
        for kind in ("used", "limit")
    }
    used = {("applications", "used"): 1, ("cores", "used"): 0, ("memory_bytes", "used"): 1408 * 1024 * 1024}
    assert of_me == {**used, ("applications", "limit"): 3, ("cores", "limit"): 2, ("memory_bytes", "limit"): None}
    assert value(scrape(cluster), "user_memory_bytes", user=str(other), kind="limit") is None
    cluster.driver(cluster.register(instance="second", uid=other))
    assert value(scrape(cluster), "user_memory_bytes", user=str(other), kind="limit") == 4096 * 1024 * 1024
