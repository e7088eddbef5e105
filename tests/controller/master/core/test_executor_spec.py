"""Command line, memory and mounts of an executor from its registration."""

from __future__ import annotations

import msgspec
import pytest

from controller.asks.job_options import JobOptions
from controller.machine.process import Process
from controller.master.core.executor_spec import (
    OFF_HEAP_START,
    PAGE,
    ContainerMemory,
    executor_memory,
    executor_slots,
    executor_spec,
)
from controller.submit.bridge_jar import JAR, driver_settings
from controller.wire.driver import ExecutorWish, PythonEnvironment, Registration
from controller.wire.worker import ExecutorSpec, Mount
from stage_model.errors import BadInput
from tests.fakes.cluster import application_record, registration

PYTHON = PythonEnvironment(executable="/venv/bin/python", version="3.11", prefix="/venv", base_prefix="/usr")
REGISTRATION = registration(
    uid=1000, gid=1001, pid=77, pid_start=5, boot_id="b", driver_url="spark://CoarseGrainedScheduler@h:1",
    jars_dir="/spark/jars/", bridge_jar="/bridge.jar", environment={"USERS_SECRET": "hush"},
    startup_conf={"spark.driver.port": "1"}, python=PYTHON,
)  # fmt: skip
WISH = ExecutorWish()


def memory(conf: dict[str, str], wish: ExecutorWish = WISH, slots: int = 2, *, python: bool = False) -> ContainerMemory:
    return executor_memory(conf, wish, slots, python=python)


def spec_of(told: Registration, options: JobOptions) -> ExecutorSpec:
    return executor_spec(application_record(told, options, "app-1"), "3", WISH, "0", 2)


def made(conf: dict[str, str] | None = None, **options: object) -> ExecutorSpec:
    told = msgspec.structs.replace(REGISTRATION, conf=conf or {})
    return spec_of(told, JobOptions(**options))  # type: ignore[arg-type]


class TestMemory:
    def test_defaults_are_sparks(self) -> None:
        # 10% of 1024 is below Spark's least overhead
        assert memory({}) == ContainerMemory(1024, 384, 0, 0)
        # 10% of 8192 is 819.2
        assert memory({"spark.executor.memory": "8g"}) == ContainerMemory(8192, 820, 0, 0)

    def test_a_size_below_two_pages_for_each_slot_is_refused(self) -> None:
        small = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "3m"}
        with pytest.raises(BadInput, match=r"3 MiB.* 4 MiB"):
            memory(small)
        assert memory(small, slots=1).off_heap_mb == 3
        assert memory({**small, "spark.memory.offHeap.size": "64m"}, ExecutorWish(off_heap_mb=0)).off_heap_mb == 0
        with pytest.raises(BadInput, match="16 MiB"):
            memory({**small, "spark.buffer.pageSize": "4m"})

    def test_python_workers_have_room_for_each_slot(self) -> None:
        assert memory({}, slots=3, python=True).python_mb == 3 * 512
        assert memory({"spark.executor.pyspark.memory": "100m"}, slots=3, python=True).python_mb == 100

    def test_off_heap_counts_only_when_it_is_on_and_bare_numbers_are_bytes(self) -> None:
        size = {"spark.memory.offHeap.size": str(64 << 20)}
        assert memory(size).off_heap_mb == 0
        assert memory({**size, "spark.memory.offHeap.enabled": "true"}).off_heap_mb == 64
        assert memory({**size, "spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "2g"}).off_heap_mb == 2048

    def test_off_heap_of_our_starting_size_is_elastic_and_of_any_other_size_the_users(self) -> None:
        ours = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "64m"}
        assert memory(ours) == ContainerMemory(1024, 384, 0, 0, 64)
        # Spark's default profile repeats the setting; a profile with a size of its own is the user's
        assert memory(ours, msgspec.structs.replace(WISH, off_heap_mb=64)).off_heap_floor_mb == 64
        assert memory(ours, msgspec.structs.replace(WISH, off_heap_mb=300)) == ContainerMemory(1024, 384, 300, 0)
        assert memory({**ours, "spark.memory.offHeap.size": "1g"}) == ContainerMemory(1024, 384, 1024, 0)
        assert memory({**ours, "spark.memory.offHeap.enabled": "false"}) == ContainerMemory(1024, 384, 0, 0)

    def test_two_pages_per_slot_are_the_least_off_heap_memory(self) -> None:
        ours = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "64m"}
        assert memory(ours, slots=32).off_heap_floor_mb == 2 * 32 * 2
        assert memory({**ours, "spark.buffer.pageSize": "32m"}, slots=4).off_heap_floor_mb == 2 * 4 * 32
        assert memory({**ours, "spark.buffer.pageSize": str(32 << 20)}, slots=4).off_heap_floor_mb == 2 * 4 * 32

    def test_a_wish_comes_first(self) -> None:
        wish = ExecutorWish(heap_mb=500, overhead_mb=0, python_mb=7)
        assert memory({"spark.executor.memory": "8g"}, wish, python=True) == ContainerMemory(500, 0, 0, 7)
        assert memory({}, wish).total_mb == 507

    @pytest.mark.parametrize("key", [f"spark.executor.{name}" for name in ("memory", "memoryOverhead", "pyspark.memory")])
    def test_unreadable_sizes_are_refused_by_name(self, key: str) -> None:
        with pytest.raises(BadInput, match=key):
            memory({key: "much"}, python=True)

    @pytest.mark.parametrize("text", ["much", "-1", "nan", "inf", "0"])
    def test_an_unreadable_factor_too(self, text: str) -> None:
        with pytest.raises(BadInput, match="memoryOverheadFactor"):
            memory({"spark.executor.memoryOverheadFactor": text})

    @pytest.mark.parametrize("text", ["\u00b2", "4\u00b20", "9" * 5000, str(2**30 + 1)])
    def test_a_size_that_no_machine_has_is_refused_by_name(self, text: str) -> None:
        off_heap = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": text * 2}
        for conf in ({"spark.executor.memory": text}, {"spark.executor.memoryOverhead": text}, off_heap):
            with pytest.raises(BadInput, match=r"spark\.\S+ '"):
                memory(conf)

    def test_so_is_a_factor_that_makes_one(self) -> None:
        with pytest.raises(BadInput, match=r"memoryOverheadFactor .*'1e308'"):
            memory({"spark.executor.memoryOverheadFactor": "1e308"})


class TestSlots:
    def test_all_cores_of_the_worker_rounded_up(self) -> None:
        assert executor_slots({}, WISH, "0", 1.35) == 2

    def test_executor_cores_cap_them(self) -> None:
        assert executor_slots({"spark.executor.cores": "1"}, WISH, "0", 4.0) == 1
        assert executor_slots({"spark.executor.cores": "9"}, WISH, "0", 4.0) == 4

    def test_only_a_resource_profile_of_its_own_caps_too(self) -> None:
        assert executor_slots({}, ExecutorWish(cores=1), "0", 4.0) == 4
        assert executor_slots({}, ExecutorWish(cores=1), "1", 4.0) == 1

    @pytest.mark.parametrize("text", ["abc", "1.5", "0", "-2", ""])
    def test_unreadable_cores_are_refused(self, text: str) -> None:
        with pytest.raises(BadInput, match=r"spark\.executor\.cores"):
            executor_slots({"spark.executor.cores": text}, WISH, "0", 4.0)


class TestSpec:
    def test_it_starts_sparks_own_backend(self) -> None:
        args = made().java_args
        assert args[:2] == ("-cp", "/bridge.jar:/spark/jars/*")
        assert "-XX:ActiveProcessorCount=2" in args
        assert "-Dspark.driver.port=1" in args
        backend = args.index("org.apache.spark.executor.CoarseGrainedExecutorBackend")
        options = dict(zip(args[backend + 1 :: 2], args[backend + 2 :: 2], strict=True))
        assert options == {
            "--driver-url": "spark://CoarseGrainedScheduler@h:1",
            "--executor-id": "3",
            "--hostname": "{host}",
            "--bind-address": "{host}",
            "--cores": "2",
            "--app-id": "app-1",
            "--resourceProfileId": "0",
        }

    def test_the_users_options_come_word_by_word_with_names_filled_in(self) -> None:
        conf = {"spark.executor.extraJavaOptions": "-Da='b c' -Xlog:gc:{{APP_ID}}-{{EXECUTOR_ID}}.log"}
        args = made(conf).java_args
        assert "-Da=b c" in args
        assert "-Xlog:gc:app-1-3.log" in args

    def test_options_that_are_no_words_are_refused(self) -> None:
        with pytest.raises(BadInput, match="extraJavaOptions"):
            made({"spark.executor.extraJavaOptions": "-Da='b"})

    def test_the_drivers_language_comes_before_the_users_own_words(self) -> None:
        conf = {"spark.executor.extraJavaOptions": "-Dmine=1"}
        told = msgspec.structs.replace(REGISTRATION, environment={"LANG": "de_DE.UTF-8"}, umask=0o027, conf=conf)
        got = spec_of(told, JobOptions())
        assert got.java_args.index("-Duser.language=de") < got.java_args.index("-Dmine=1")
        assert (got.environment["LANG"], got.umask) == ("de_DE.UTF-8", 0o027)

    def test_the_users_environment_is_no_argument(self) -> None:
        got = made()
        assert got.environment["USERS_SECRET"] == "hush"
        assert "hush" not in " ".join(got.java_args)

    def test_executors_of_a_driver_that_authenticates_read_their_credentials_from_a_file(self) -> None:
        told = msgspec.structs.replace(REGISTRATION, authenticated=True, credentials=b"hush-hush")
        spec = spec_of(told, JobOptions())
        assert spec.authenticated
        assert spec.environment["HADOOP_TOKEN_FILE_LOCATION"] == "{credentials}"
        assert "hush-hush" not in repr(spec)
        assert "HADOOP_TOKEN_FILE_LOCATION" not in made().environment

    def test_mounts_are_read_only_unless_asked_for(self) -> None:
        got = made(mounts=(Mount(path="/data", writable=True),))
        own = [(path, False, False) for path in ("/spark", "/bridge.jar", "/home/me")]
        assert [(m.path, m.writable, m.asked) for m in got.mounts] == [*own, ("/data", True, True)]

    def test_it_runs_as_the_submitter_and_knows_the_driver(self) -> None:
        got = made()
        assert (got.uid, got.gid, got.driver) == (1000, 1001, Process(77, 5, "b"))

    def test_a_python_of_the_image_replaces_the_drivers(self) -> None:
        got = made(python="/opt/py/bin/python3")
        assert got.python is not None
        assert (got.python.executable, got.python.version, got.python.prefix) == ("/opt/py/bin/python3", "3.11", "/usr")
        assert got.environment["PATH"].startswith("/opt/py/bin:")

    def test_spark_home_is_told_unless_the_python_has_this_pyspark(self) -> None:
        """Python workers import pyspark from a zip of sources if SPARK_HOME is set, which costs 0.6 s of CPU at every
        start."""
        assert made().environment["SPARK_HOME"] == "/spark"
        packaged = msgspec.structs.replace(REGISTRATION, jars_dir="/venv/lib/python3.11/site-packages/pyspark/jars")
        got = spec_of(packaged, JobOptions())
        assert "SPARK_HOME" not in got.environment
        image_python = spec_of(packaged, JobOptions(python="/usr/bin/python3"))
        assert image_python.environment["SPARK_HOME"] == "/venv/lib/python3.11/site-packages/pyspark"


def test_an_executor_of_elastic_size_reads_orders_and_gives_memory_back() -> None:
    spec = made({"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "64m"})
    assert (spec.memory_mb, spec.off_heap_floor_mb) == (1024 + 384 + 2 * 512, 64)
    assert spec.environment["SPARKPACE_ORDERS_DIR"] == "{orders}"
    assert spec.environment["MALLOC_MMAP_THRESHOLD_"] == "131072"
    assert "SPARKPACE_ORDERS_DIR" not in made().environment


@pytest.mark.skipif(not JAR.is_file(), reason="needs the built bridge jar")
def test_what_marks_a_size_as_ours_is_what_drivers_are_given() -> None:
    settings = driver_settings()
    assert (settings["spark.memory.offHeap.size"], settings["spark.buffer.pageSize"]) == (OFF_HEAP_START, PAGE)
    assert settings["spark.memory.offHeap.enabled"] == "true"
