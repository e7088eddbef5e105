"""A master that starts on whatever is left: a lost or damaged database, rows it cannot read, profiles that have gone."""

from __future__ import annotations

import logging
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest

from controller.agent.link import OrderFilter
from controller.master.core.agents import COME_BACK_S
from controller.master.core.application_record import skip_unknown_ids
from controller.master.storage.kept import Identity, begin_life
from controller.master.storage.store import Store
from stage_model.errors import BadInput, Denied, InfeasibleDeadline
from tests.fakes.cluster import FakeCluster, answered, one_stage_run, registration, report, rows_aside
from tests.properties.test_plan_cache import taught


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    made = FakeCluster(tmp_path)
    made.worker("w1")
    return made


def again(cluster: FakeCluster, meanwhile: Callable[[], object] = lambda: None) -> None:
    """End the master, let something happen, and start it again."""
    cluster.state.store.close()
    meanwhile()
    cluster.restart()


def lose_database(cluster: FakeCluster) -> None:
    def lose() -> None:
        for path in cluster.path.glob("master.db*"):
            path.unlink()

    again(cluster, lose)


class TestIdentity:
    def test_a_new_cluster_gets_an_id_and_each_start_a_generation(self, tmp_path: Path) -> None:
        store = Store(tmp_path / "master.db")
        lives = [begin_life(tmp_path / "cluster.id", store) for _ in range(3)]
        assert len({life.cluster_id for life in lives}) == 1
        assert [life.generation for life in lives] == [1, 2, 3]
        assert (tmp_path / "cluster.id").stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize(("harmed", "removed"), [("cluster.id", True), ("cluster.id", False), ("master.db", True)])
    def test_either_the_file_or_the_database_is_enough(self, tmp_path: Path, harmed: str, removed: bool) -> None:
        first = [begin_life(tmp_path / "cluster.id", Store(tmp_path / "master.db")) for _ in range(4)][-1]
        for path in tmp_path.glob(f"{harmed}*"):
            path.unlink() if removed else path.write_text("")
        second = begin_life(tmp_path / "cluster.id", Store(tmp_path / "master.db"))
        assert second == Identity(cluster_id=first.cluster_id, generation=5)
        assert msgspec.json.decode((tmp_path / "cluster.id").read_bytes(), type=Identity) == second


class TestLostDatabase:
    def test_agents_obey_the_master_that_lost_its_database(self, cluster: FakeCluster) -> None:
        orders = OrderFilter(cluster.state.identity.cluster_id)
        orders.check(cluster.worker("w1").desired)
        lose_database(cluster)
        orders.check(cluster.worker("w1").desired)

    def test_a_job_that_is_half_done_goes_on_under_its_id(self, cluster: FakeCluster) -> None:
        cluster.state.profiles.add(taught())  # a minute on this worker: more than the second that is left
        deadline = {"spark.pace.deadline": "80s"}
        application_id = cluster.register(conf=deadline)
        cluster.worker("w1", report(application_id, "1"))
        lose_database(cluster)
        cluster.now_s += 77
        unknown = cluster.worker("w1", report(application_id, "1")).desired
        assert (unknown.executors, unknown.stopped, unknown.ended) == ((), (), ())
        late = registration(application_id=application_id, conf=deadline, age_s=79.0)
        assert answered(cluster.state.drivers.register(late, cluster.clock)).application_id == application_id
        with pytest.raises(InfeasibleDeadline):
            cluster.register(conf=deadline, age_s=79.0, instance="another")
        known = cluster.worker("w1", report(application_id, "1")).desired
        assert [plan.application_id for plan in known.applications] == [application_id]
        # what runs is taken over, wherever it is first reported, and a new one starts where one is missing
        assert [spec.executor_id for spec in known.executors] == ["1"]
        assert [spec.executor_id for spec in cluster.worker("w2", report(application_id, "2")).desired.executors] == ["2"]
        [new] = cluster.worker("w3").desired.executors
        assert new.executor_id == str(skip_unknown_ids(1))
        again(cluster)
        assert sorted(cluster.state.applications[application_id].executors) == ["1", str(skip_unknown_ids(1)), "2"]
        cluster.driver(application_id, *one_stage_run(1000), ended=True)
        for worker in ("w1", "w2", "w3"):
            cluster.worker(worker)
        cluster.tick()
        assert cluster.view(application_id).finished

    def test_neither_its_deadline_nor_what_it_came_after_nor_a_bad_profile_keeps_it_out(self, cluster: FakeCluster) -> None:
        given = {
            "spark.pace.deadline": "2026-01-01T00:00+00:00",
            "spark.pace.after": "pace-20200101-000000-abcdef",
            "spark.pace.profile": "mine",
        }
        (cluster.path / "profiles" / "mine.json").write_text("")
        age_s = 20 * 365 * 86400.0 / 20  # submitted a year ago, before that hour
        with pytest.raises(BadInput, match="2026-01-01"):
            cluster.register(conf=given, age_s=age_s)
        outlived = "pace-20251101-000000-abcdef"
        cluster.register(conf=given, age_s=age_s, application_id=outlived)
        application = cluster.state.applications[outlived]
        assert list(application.live_executors())
        assert 0 < (application.options.deadline_s or 0) < age_s
        assert any("mine.json" in line for line in application.notices.lines)

    def test_what_has_exited_goes_once_its_driver_could_register(self, cluster: FakeCluster, application_id: str) -> None:
        lose_database(cluster)
        seen = (report(application_id, "1", "exited", exit_code=0), report(application_id, "2"))
        cluster.now_s += COME_BACK_S - 1
        assert cluster.worker("w1", *seen).desired.stopped == ()
        cluster.now_s += 1
        desired = cluster.worker("w1", *seen).desired
        # executor 2 may still use its directory
        assert (desired.stopped, desired.ended) == ((f"{application_id}/1",), ())
        assert cluster.worker("w1", seen[1]).desired.stopped == ()


class TestPast:
    def finished(self, cluster: FakeCluster) -> str:
        application_id = cluster.register()
        cluster.end(application_id)
        assert cluster.state.applications[application_id].finished
        return application_id

    @pytest.mark.parametrize("state", ["exited", "running"])
    def test_an_executor_of_an_application_that_is_only_remembered_is_removed(self, cluster: FakeCluster, state: str) -> None:
        application_id = self.finished(cluster)
        again(cluster)
        desired = cluster.worker("w1", report(application_id, "1", state)).desired
        assert (desired.stopped, desired.ended) == ((f"{application_id}/1",), (application_id,))
        after = cluster.worker("w1").desired
        assert (after.stopped, after.ended) == ((), ())

    def test_an_unknown_executor_goes_when_its_application_has_ended(self, cluster: FakeCluster, application_id: str) -> None:
        unknown = report(application_id, "77")
        before = cluster.worker("w1", unknown).desired
        assert (before.stopped, before.ended) == ((), ())
        cluster.kill(application_id)
        after = cluster.worker("w1", unknown).desired
        assert (after.stopped, after.ended) == ((f"{application_id}/77",), (application_id,))

    def test_an_application_that_has_ended_does_not_rise_again(self, cluster: FakeCluster) -> None:
        application_id = self.finished(cluster)
        for lost in (again, lose_database):
            lost(cluster)
            with pytest.raises(BadInput, match=application_id):
                cluster.register(application_id=application_id)
            assert application_id not in cluster.state.applications

    def test_no_one_takes_over_a_living_application_by_its_id(self, cluster: FakeCluster, application_id: str) -> None:
        cluster.driver(application_id, *one_stage_run(1000)[:2])
        token = cluster.state.core.drivers.token_hash(application_id)
        for _ in range(2):
            with pytest.raises(Denied, match=application_id):
                cluster.register(application_id=application_id, instance="foreign")
            application = cluster.state.applications[application_id]
            assert (application.stream.acknowledged, cluster.state.core.drivers.token_hash(application_id)) == (2, token)
            assert application.record.registration.instance == "driver"
            again(cluster)


class TestProfiles:
    @pytest.mark.parametrize("damage", [None, b"", b"{", b'{"version": 1, "key": "app@app.py", "runs": 7}'])
    def test_a_running_application_goes_on_without_a_lost_profile(self, cluster: FakeCluster, damage: bytes | None) -> None:
        cluster.state.profiles.add(taught())
        application_id = cluster.register(conf={"spark.pace.deadline": "1h"})
        cluster.driver(application_id, *one_stage_run(1000)[:3])
        before = cluster.worker("w1", report(application_id, "1")).desired
        token = cluster.state.core.drivers.token_hash(application_id)
        path = cluster.state.profiles.path("app@app.py")

        def lose() -> None:
            path.unlink()
            if damage is not None:
                path.write_bytes(damage)

        again(cluster, lose)
        application = cluster.state.applications[application_id]
        assert application.stream.acknowledged == 3
        assert cluster.state.core.drivers.token_hash(application_id) == token
        assert cluster.worker("w1", report(application_id, "1")).desired.executors == before.executors
        assert application.profile_key == "app@app.py"
        assert len(cluster.driver(application_id, first=4).notices) == 1

    def test_one_given_as_a_file_too(self, cluster: FakeCluster, tmp_path: Path) -> None:
        cluster.state.profiles.add(msgspec.structs.replace(taught(), key="another"))
        given = cluster.state.profiles.path("another").rename(tmp_path / "given.json")
        application_id = cluster.register(conf={"spark.pace.profile": str(given)})
        again(cluster, given.unlink)
        assert cluster.state.applications[application_id].profile_key == "another"

    @pytest.mark.timeout(60)
    def test_what_is_no_plain_file_is_refused_at_once(self, cluster: FakeCluster, tmp_path: Path) -> None:
        os.mkfifo(tmp_path / "pipe")
        (tmp_path / "link").symlink_to(cluster.state.profiles.path("app"))
        for given in ("/dev/zero", str(tmp_path / "pipe"), f"/{'x' * 1000}"):
            with pytest.raises(BadInput, match="plain file"):
                cluster.register(conf={"spark.pace.profile": given})
        with pytest.raises(BadInput, match=str(tmp_path / "link")):
            cluster.register(conf={"spark.pace.profile": str(tmp_path / "link")})


class TestRows:
    """Rows that cannot be read: reported in one sentence, kept aside, and everything else is restored."""

    def change(self, cluster: FakeCluster, sql: str, *values: object) -> None:
        def change() -> None:
            db = sqlite3.connect(cluster.path / "master.db")
            with db:
                db.execute(sql, values)
            db.close()

        again(cluster, change)

    def test_an_application(self, cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
        lost, kept = cluster.register(name="lost"), cluster.register(name="kept", instance="kept")
        cluster.driver(lost, *one_stage_run(1000)[:2])
        caplog.clear()
        self.change(cluster, "UPDATE applications SET data = ? WHERE id = ?", b'{"future": 1}', lost)
        assert list(cluster.state.applications) == [kept]
        [logged] = [record for record in caplog.records if record.levelno == logging.ERROR]
        assert lost in logged.message
        aside = {kind: data for _, kind, _, data in rows_aside(cluster.state.store)}
        assert aside["application"] == b'{"future": 1}'
        assert set(aside) == {"application", "event", "executor"}
        # its driver registers again, and the rows that were set aside do not get in its way
        cluster.register(name="lost", application_id=lost)
        assert cluster.driver(lost, *one_stage_run(1000)[:2]).acknowledged == 2
        again(cluster)
        assert set(cluster.state.applications) == {lost, kept}

    def test_an_executor(self, cluster: FakeCluster, caplog: pytest.LogCaptureFixture) -> None:
        cluster.worker("w2")
        application_id = cluster.register()
        self.change(cluster, "UPDATE executors SET data = x'78' WHERE executor = '1'")
        application = cluster.state.applications[application_id]
        assert list(application.executors) == ["2"]
        assert any("executor 1" in line for line in application.notices.lines)
        assert [kind for _, kind, _, _ in rows_aside(cluster.state.store)] == ["executor"]

    def test_of_texts_that_are_no_utf_8_and_of_others_keys(self, cluster: FakeCluster, application_id: str) -> None:
        texts = ("INSERT INTO applications VALUES (CAST(x'ff' AS TEXT), 1, x'')", "UPDATE events SET data = x'ff'")
        cluster.driver(application_id, *one_stage_run(1000)[:3])
        for sql in (*texts, "INSERT INTO applications SELECT 'other', 1, data FROM applications WHERE id = ?"):
            self.change(cluster, sql, *((application_id,) if "?" in sql else ()))
        assert list(cluster.state.applications) == [application_id]
        assert any(kind == "application" and key == "other" for _, kind, key, _ in rows_aside(cluster.state.store))

    @pytest.mark.parametrize("value", ["{", '[{"worker_id": "w1"}]', '"text"'])
    @pytest.mark.parametrize("key", ["workers", "labels", "started_workers"])
    def test_what_is_known_of_workers(
        self, cluster: FakeCluster, caplog: pytest.LogCaptureFixture, key: str, value: str, application_id: str
    ) -> None:
        self.change(cluster, "INSERT OR REPLACE INTO meta VALUES (?, ?)", key, value)
        lost = cluster.state.store.decoded_meta(key, list[int], "") if key == "started_workers" else None
        assert lost is None
        [(_, kind, name, data)] = rows_aside(cluster.state.store)
        assert (kind, name, data) == ("meta", key, value)
        assert [r.levelno for r in caplog.records if f"{key} of master.db" in r.message] == [logging.ERROR]
        assert cluster.worker("w1", report(application_id, "1")).desired.executors

    @pytest.mark.parametrize("value", ["x", "9" * 5000])
    def test_the_generation(self, cluster: FakeCluster, value: str) -> None:
        before = cluster.state.identity.generation
        self.change(cluster, "UPDATE meta SET value = ? WHERE key = 'generation'", value)
        assert cluster.state.identity.generation == before + 1

    @pytest.mark.parametrize("where", [0, 100, 4096])
    def test_a_damaged_database_is_kept_and_a_new_one_begun_for_the_same_cluster(
        self, cluster: FakeCluster, caplog: pytest.LogCaptureFixture, where: int, application_id: str
    ) -> None:
        cluster_id, generation = cluster.state.identity.cluster_id, cluster.state.identity.generation
        cluster.state.store.checkpoint()
        path = cluster.path / "master.db"

        def damage() -> None:
            content = bytearray(path.read_bytes())
            content[where : where + 100] = b"\xff" * 100
            path.write_bytes(content)

        again(cluster, damage)
        assert (cluster.state.identity.cluster_id, cluster.state.identity.generation) == (cluster_id, generation + 1)
        assert not cluster.state.applications
        assert (cluster.path / "master.db.damaged-1").exists()
        assert any("master.db.damaged-1" in record.message for record in caplog.records)
        cluster.register(application_id=application_id)
        again(cluster)
        assert list(cluster.state.applications) == [application_id]


class TestUnusable:
    @pytest.mark.parametrize(
        ("changed", "part"),
        [
            ({"environment": {"A=B": "x"}}, "'A=B'"),
            ({"environment": {"": "x"}}, "''"),
            ({"environment": {"X": "secret\0"}}, "'environment.X'"),
            ({"environment": {"X\0": "secret"}}, "'environment'"),
            ({"conf": {"spark.executor.extraJavaOptions": "-Da=b\0c"}}, "extraJavaOptions"),
            ({"startup_conf": {"spark.a": "\0"}}, "'startup_conf.spark.a'"),
            ({"java_home": "/java\0"}, "'java_home'"),
            ({"uid": 2**32}, "uid 4294967296"),
            ({"uid": -1}, "uid -1"),
            ({"gid": 2**31}, "gid 2147483648"),
            ({"gid": 10**300}, "gid 1000"),
            ({"pid": -1}, "pid -1"),
        ],
    )
    def test_what_starts_no_executor_is_refused(self, cluster: FakeCluster, changed: dict[str, object], part: str) -> None:
        with pytest.raises(BadInput) as refused:
            cluster.register(boot_id="elsewhere", **({"uid": 1000} | changed))
        assert part in str(refused.value)
        assert "secret" not in str(refused.value)
        assert len(str(refused.value)) < 300
        assert not cluster.state.applications
        assert not cluster.state.store.applications()
        assert not list((cluster.path / "runs").iterdir())
