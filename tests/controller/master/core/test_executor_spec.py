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

EXTRA = "spark.executor.extraJavaOptions"
PYTHON = PythonEnvironment(executable="/venv/bin/python", version="3.11", prefix="/venv", base_prefix="/usr")
REGISTRATION = registration(
    uid=1000, gid=1001, pid=77, pid_start=5, boot_id="b", driver_url="spark://CoarseGrainedScheduler@h:1",
    jars_dir="/spark/jars/", bridge_jar="/bridge.jar", environment={"USERS_SECRET": "hush"},
    startup_conf={"spark.driver.port": "1"}, python=PYTHON,
)  # fmt: skip
WISH = ExecutorWish()


def memory(conf: dict[str, str], wish: ExecutorWish = WISH, slots: int = 2, *, python: bool = False) -> ContainerMemory:
    return executor_memory(conf, wish, slots, python=python)


def spec_of(registered: Registration, options: JobOptions) -> ExecutorSpec:
    return executor_spec(application_record(registered, options, "app-1"), "3", WISH, "0", 2)


def made(conf: dict[str, str] | None = None, **options: object) -> ExecutorSpec:
    registered = msgspec.structs.replace(REGISTRATION, conf=conf or {})
    return spec_of(registered, JobOptions(**options))  # type: ignore[arg-type]


OFF_HEAP = {"spark.memory.offHeap.enabled": "true", "spark.memory.offHeap.size": "64m"}
SIZES = ("spark.executor.memory", "spark.executor.memoryOverhead", "spark.memory.offHeap.size")
NO_MACHINE_HAS = ("\u00b2", "4\u00b20", "9" * 5000)


class TestMemory:
    @pytest.mark.parametrize(
        ("conf", "wish", "found"),
        [
            # 10% of 1024 is below Spark's least overhead
            ({}, WISH, ContainerMemory(1024, 384, 0, 0)),
            # 10% of 8192 is 819.2
            ({"spark.executor.memory": "8g"}, WISH, ContainerMemory(8192, 820, 0, 0)),
            # a wish comes first
            ({"spark.executor.memory": "8g"}, ExecutorWish(heap_mb=500, overhead_mb=0), ContainerMemory(500, 0, 0, 0)),
            # off-heap memory of our starting size is elastic, of any other size the user's
            (OFF_HEAP, WISH, ContainerMemory(1024, 384, 0, 0, 64)),
            ({**OFF_HEAP, "spark.memory.offHeap.size": "1g"}, WISH, ContainerMemory(1024, 384, 1024, 0)),
            # it counts only when it is on, and bare numbers are bytes
            ({**OFF_HEAP, "spark.memory.offHeap.enabled": "false"}, WISH, ContainerMemory(1024, 384, 0, 0)),
            ({"spark.memory.offHeap.size": str(64 << 20)}, WISH, ContainerMemory(1024, 384, 0, 0)),
            ({**OFF_HEAP, "spark.memory.offHeap.size": str(64 << 20)}, WISH, ContainerMemory(1024, 384, 64, 0)),
            # Spark's default profile repeats the setting; a profile with a size of its own is the user's
            (OFF_HEAP, ExecutorWish(off_heap_mb=64), ContainerMemory(1024, 384, 0, 0, 64)),
            (OFF_HEAP, ExecutorWish(off_heap_mb=300), ContainerMemory(1024, 384, 300, 0)),
            (OFF_HEAP, ExecutorWish(off_heap_mb=0), ContainerMemory(1024, 384, 0, 0)),
        ],
    )
    def test_heap_overhead_and_off_heap(self, conf: dict[str, str], wish: ExecutorWish, found: ContainerMemory) -> None:
        assert memory(conf, wish) == found

    def test_a_size_below_two_pages_for_each_slot_is_refused(self) -> None:
        small = {**OFF_HEAP, "spark.memory.offHeap.size": "3m"}
        with pytest.raises(BadInput, match=r"3 MiB.* 4 MiB"):
            memory(small)
        assert memory(small, slots=1).off_heap_mb == 3
        with pytest.raises(BadInput, match="16 MiB"):
            memory({**small, "spark.buffer.pageSize": "4m"})

    def test_python_workers_have_room_for_each_slot(self) -> None:
        assert memory({}, slots=3, python=True).python_mb == 3 * 512
        assert memory({"spark.executor.pyspark.memory": "100m"}, slots=3, python=True).python_mb == 100
        wish = ExecutorWish(heap_mb=500, overhead_mb=0, python_mb=7)
        assert memory({}, wish, python=True).total_mb == 507

    @pytest.mark.parametrize(("page", "slots", "least_mb"), [(None, 32, 128), ("32m", 4, 256), (str(32 << 20), 4, 256)])
    def test_two_pages_per_slot_are_the_least_off_heap_memory(self, page: str | None, slots: int, least_mb: int) -> None:
        conf = OFF_HEAP if page is None else {**OFF_HEAP, "spark.buffer.pageSize": page}
        assert memory(conf, slots=slots).off_heap_floor_mb == least_mb

    @pytest.mark.parametrize(
        ("key", "text"),
        [
            *((f"spark.executor.{name}", "much") for name in ("memory", "memoryOverhead", "pyspark.memory")),
            *(("spark.executor.memoryOverheadFactor", text) for text in ("much", "-1", "nan", "inf", "0", "1e308")),
            *((key, text) for key in SIZES for text in NO_MACHINE_HAS),
            *((key, str(2**30 + 1)) for key in SIZES[:2]),
            (SIZES[2], str(2**30 + 1) * 2),
        ],
    )
    def test_unreadable_sizes_and_factors_are_refused_by_name(self, key: str, text: str) -> None:
        with pytest.raises(BadInput, match=rf"{key} .*'"):
            memory({"spark.memory.offHeap.enabled": "true", key: text}, python=True)


class TestSlots:
    @pytest.mark.parametrize(
        ("conf", "wish", "profile", "worker_cores", "slots"),
        [
            ({}, WISH, "0", 1.35, 2),
            ({"spark.executor.cores": "1"}, WISH, "0", 4.0, 1),
            ({"spark.executor.cores": "9"}, WISH, "0", 4.0, 4),
            # only a resource profile of its own caps too
            ({}, ExecutorWish(cores=1), "0", 4.0, 4),
            ({}, ExecutorWish(cores=1), "1", 4.0, 1),
        ],
    )
    def test_all_cores_of_the_worker_rounded_up_or_those_that_were_asked_for(
        self, conf: dict[str, str], wish: ExecutorWish, profile: str, worker_cores: float, slots: int
    ) -> None:
        assert executor_slots(conf, wish, profile, worker_cores) == slots

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
        args = made({EXTRA: "-Da='b c' -Xlog:gc:{{APP_ID}}-{{EXECUTOR_ID}}.log"}).java_args
        assert {"-Da=b c", "-Xlog:gc:app-1-3.log"} <= set(args)
        with pytest.raises(BadInput, match="extraJavaOptions"):
            made({EXTRA: "-Da='b"})

    def test_the_drivers_language_comes_before_the_users_own_words(self) -> None:
        conf = {EXTRA: "-Dmine=1"}
        registered = msgspec.structs.replace(REGISTRATION, environment={"LANG": "de_DE.UTF-8"}, umask=0o027, conf=conf)
        got = spec_of(registered, JobOptions())
        assert got.java_args.index("-Duser.language=de") < got.java_args.index("-Dmine=1")
        assert (got.environment["LANG"], got.umask) == ("de_DE.UTF-8", 0o027)

    def test_the_users_environment_is_no_argument(self) -> None:
        got = made()
        assert got.environment["USERS_SECRET"] == "hush"
        assert "hush" not in " ".join(got.java_args)

    def test_executors_of_a_driver_that_authenticates_read_their_credentials_from_a_file(self) -> None:
        registered = msgspec.structs.replace(REGISTRATION, authenticated=True, credentials=b"hush-hush")
        spec = spec_of(registered, JobOptions())
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

    def test_spark_home_is_set_unless_the_python_has_this_pyspark(self) -> None:
        """Python workers import pyspark from a zip of sources if SPARK_HOME is set, which costs 0.6 s of CPU at every
        start."""
        assert made().environment["SPARK_HOME"] == "/spark"
        packaged = msgspec.structs.replace(REGISTRATION, jars_dir="/venv/lib/python3.11/site-packages/pyspark/jars")
        got = spec_of(packaged, JobOptions())
        assert "SPARK_HOME" not in got.environment
        image_python = spec_of(packaged, JobOptions(python="/usr/bin/python3"))
        assert image_python.environment["SPARK_HOME"] == "/venv/lib/python3.11/site-packages/pyspark"


def test_an_executor_of_elastic_size_reads_orders_and_gives_memory_back() -> None:
    spec = made(OFF_HEAP)
    assert (spec.memory_mb, spec.off_heap_floor_mb) == (1024 + 384 + 2 * 512, 64)
    assert spec.environment["SPARKPACE_ORDERS_DIR"] == "{orders}"
    assert spec.environment["MALLOC_MMAP_THRESHOLD_"] == "131072"
    assert "SPARKPACE_ORDERS_DIR" not in made().environment


@pytest.mark.skipif(not JAR.is_file(), reason="needs the built bridge jar")
def test_drivers_get_the_size_that_marks_elastic_memory() -> None:
    settings = driver_settings()
    assert (settings["spark.memory.offHeap.size"], settings["spark.buffer.pageSize"]) == (OFF_HEAP_START, PAGE)
    assert settings["spark.memory.offHeap.enabled"] == "true"
