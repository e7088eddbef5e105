"""The command line, environment, mounts and memory of one executor, made from a registration: pure.

Executors are started as Spark's own backends start them (`CoarseGrainedExecutorBackend`); what is ours is named at its line.
Placeholders in braces are filled by the agent (`controller.agent.executors.launch`). Memory is MiB.
"""

from __future__ import annotations

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TypeVar

from controller.asks.job_options import JobOptions
from controller.master.core.application_record import ApplicationRecord
from controller.master.core.capacity import slots_on
from controller.runtime.docker.locale_in_image import language_words
from controller.wire.driver import ExecutorWish, PythonEnvironment, Registration
from controller.wire.worker import ExecutorSpec, Mount
from placement.resources import GPU, Held
from stage_model.errors import BadInput
from stage_model.units import parse_memory_mb

Number = TypeVar("Number", int, float)

MAIN_CLASS = "org.apache.spark.executor.CoarseGrainedExecutorBackend"
DEFAULT_HEAP_MB = 1024
PAGE_KEY = "spark.buffer.pageSize"
LEAST_OVERHEAD_MB = 384
"""Spark's own least memoryOverhead."""
OFF_HEAP_START = "64m"
"""The off-heap size that says "not chosen by the user" (driver-settings.properties): an executor has it until its first
order."""
PAGE = "2m"
"""The value of spark.buffer.pageSize in that file."""
LEAST_PAGE = "1m"
"""The smallest page that Spark chooses by itself (MemoryManager.pageSizeBytes)."""
PAGES_PER_SLOT = 2
"""The least number of pages: with fewer a task of Spark fails."""
HADOOP_CREDENTIALS = "HADOOP_TOKEN_FILE_LOCATION"
"""The variable that names the file where Spark looks for the application's secret first, as on YARN
(SecurityManager.getSecretKey)."""
MALLOC = {"MALLOC_MMAP_THRESHOLD_": "131072"}
"""Pages and cached blocks of glibc's malloc then come and go by mmap: what a shrink frees leaves the process at once."""
PYTHON_MB_PER_SLOT = 512
"""Room for one Python worker per slot when spark.executor.pyspark.memory is not given."""

MOST_MB = 2**30
LONGEST_SIZE = 18
"""Most digits of a size, of bytes too; a longer number is more than any machine has."""
MOST_NUMBER = 2**31 - 1


@dataclass(frozen=True, slots=True)
class ContainerMemory:
    """Memory that one executor's container must hold; `off_heap_mb` is of the size that the user chose."""

    heap_mb: int
    overhead_mb: int
    off_heap_mb: int
    python_mb: int
    off_heap_floor_mb: int | None = None
    """Least off-heap memory where its size is ours to choose, beyond the rest; None: `off_heap_mb` is all there is."""

    @property
    def total_mb(self) -> int:
        return self.heap_mb + self.overhead_mb + self.off_heap_mb + self.python_mb

    @property
    def least_mb(self) -> int:
        """Memory of the container in which the executor can start."""
        return self.total_mb + (self.off_heap_floor_mb or 0)


def executor_memory(conf: dict[str, str], wish: ExecutorWish, slots: int, *, python: bool) -> ContainerMemory:
    """Return the container's limit = heap + overhead + off-heap + Python. Raise `BadInput` for unreadable sizes.

    Off-heap memory of the size that we start with is elastic: the master splits what a worker has (docs/decisions/0012).
    """
    heap = _size(conf, "spark.executor.memory", wish.heap_mb)
    heap = DEFAULT_HEAP_MB if heap is None else heap
    overhead = _size(conf, "spark.executor.memoryOverhead", wish.overhead_mb)
    if overhead is None:
        factor = _number(conf, "spark.executor.memoryOverheadFactor", "0.1", float)
        overhead = max(LEAST_OVERHEAD_MB, math.ceil(factor * heap))
    off_heap, floor = 0, None
    if conf.get("spark.memory.offHeap.enabled", "false") == "true":
        start_mb = parse_memory_mb(OFF_HEAP_START)
        if conf.get("spark.memory.offHeap.size") == OFF_HEAP_START and wish.off_heap_mb in (None, start_mb):
            floor = max(start_mb, _pages_mb(conf, slots, PAGE))
        else:
            off_heap = _size(conf, "spark.memory.offHeap.size", wish.off_heap_mb, unit_mb=False) or 0
            least = _pages_mb(conf, slots, LEAST_PAGE)
            # Spark's own profile says 0 where the bridge switched off-heap memory on after the profile was made
            if 0 < off_heap < least:
                raise BadInput(
                    f"spark.memory.offHeap.size is {off_heap} MiB, less than {PAGES_PER_SLOT} pages for each of {slots} "
                    f"slots; set {least} MiB or more"
                )
    python_mb = _size(conf, "spark.executor.pyspark.memory", wish.python_mb)
    if python_mb is None:
        python_mb = PYTHON_MB_PER_SLOT * slots if python else 0
    return ContainerMemory(heap, overhead, off_heap, python_mb, floor)


def executor_slots(conf: dict[str, str], wish: ExecutorWish, profile_id: str, cores: float) -> int:
    """Return all `cores` of a worker, rounded up; capped by --executor-cores, or by the cores of a resource profile of its
    own."""
    # Spark's default profile claims 1 core for masters it does not know, whatever the user said
    asked = wish.cores if profile_id != "0" else None
    if asked is None and "spark.executor.cores" in conf:
        asked = _number(conf, "spark.executor.cores", "1", int)
    return slots_on(cores, asked)


def executor_spec(
    record: ApplicationRecord,
    executor_id: str,
    wish: ExecutorWish,
    profile_id: str,
    slots: int,
    held: Mapping[str, Held] | None = None,
) -> ExecutorSpec:
    """Return the specification of one executor of an application; `held` are the pieces that it has of resources with ids."""
    application_id, registration, options = record.application_id, record.registration, record.options
    conf = registration.conf
    spark_home = str(PurePosixPath(registration.jars_dir).parent)
    python = _python(registration, options)
    memory = executor_memory(conf, wish, slots, python=python is not None)
    entries = class_path(registration.bridge_jar, registration.jars_dir)
    if users := conf.get("spark.executor.extraClassPath"):
        entries = f"{users}:{entries}"
    user_options = [
        word.replace("{{APP_ID}}", application_id).replace("{{EXECUTOR_ID}}", executor_id)
        for key in ("spark.executor.defaultJavaOptions", "spark.executor.extraJavaOptions")
        for word in _words(conf, key)
    ]
    java_args = [
        *("-cp", entries, f"-Xmx{memory.heap_mb}m"),
        # a JVM started under a small quota would size its pools for it and stay small
        f"-XX:ActiveProcessorCount={slots}",
        *language_words(registration.environment),
        *user_options,
        *(f"-D{key}={value}" for key, value in sorted(registration.startup_conf.items())),
        MAIN_CLASS,
        *("--driver-url", registration.driver_url, "--executor-id", executor_id),
        *("--hostname", "{host}", "--bind-address", "{host}", "--cores", str(slots)),
        *("--app-id", application_id, "--resourceProfileId", profile_id),
        *(("--resourcesFile", "{resources}") if options.placement.of_spark else ()),
    ]
    bin_dirs = [str(PurePosixPath(python.executable).parent)] if python else []
    elastic = memory.off_heap_floor_mb is not None
    environment = {
        **(MALLOC if elastic else {}),
        **registration.environment,
        **({HADOOP_CREDENTIALS: "{credentials}"} if registration.authenticated else {}),
        **_visible(held or {}),
        **({} if _imports_pyspark(python, spark_home) else {"SPARK_HOME": spark_home}),
        "SPARK_USER": registration.user,
        "SPARK_LOCAL_DIRS": "{local}",
        "SPARKPACE_CONTROL_DIR": "{control}",
        **({"SPARKPACE_ORDERS_DIR": "{orders}"} if elastic else {}),
        "PATH": ":".join([*bin_dirs, "/usr/local/bin", "/usr/bin", "/bin"]),
    }
    mounts = [
        Mount(path=spark_home),
        Mount(path=registration.bridge_jar, bridge=True),
        Mount(path=registration.working_dir),
        *(Mount(path=m.path, writable=m.writable, asked=True) for m in options.mounts),
    ]
    return ExecutorSpec(
        application_id=application_id,
        executor_id=executor_id,
        java_home=registration.java_home,
        java_args=tuple(java_args),
        environment=environment,
        mounts=tuple(mounts),
        slots=slots,
        memory_mb=memory.total_mb,
        off_heap_floor_mb=memory.off_heap_floor_mb,
        uid=registration.uid,
        gid=registration.gid,
        umask=registration.umask,
        image=options.image,
        python=python,
        working_dir=registration.working_dir,
        authenticated=registration.authenticated,
        driver=registration.process,
        driver_host=registration.host,
        driver_address=registration.address,
        driver_ports=registration.ports or (),
        closed=options.closed,
        watched=options.observe,
        resources={
            name: tuple(map(str, sorted(pieces)))
            for name, pieces in (held or {}).items()
            if name in options.placement.of_spark
        },
    )


def _visible(held: Mapping[str, Held]) -> dict[str, str]:
    """Return the variable by which CUDA programs see only the devices that the executor has."""
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, sorted(held[GPU])))} if GPU in held else {}


def class_path(bridge_jar: str, jars_dir: str) -> str:
    """Return the class path of an executor whose user adds nothing to it."""
    return f"{bridge_jar}:{jars_dir.rstrip('/')}/*"


def _python(registration: Registration, options: JobOptions) -> PythonEnvironment | None:
    """Return the driver's Python environment; `spark.pace.python` names one inside the image instead, of the same version."""
    if registration.python is None or options.python is None:
        return registration.python
    return PythonEnvironment(
        executable=options.python, version=registration.python.version, prefix="/usr", base_prefix="/usr"
    )


def _imports_pyspark(python: PythonEnvironment | None, spark_home: str) -> bool:
    """Return True if `python` finds pyspark by itself: this Spark is a package of that environment (pip install pyspark).

    With SPARK_HOME an executor's Python workers import pyspark from a zip of sources, which they compile again every time
    (PythonUtils.sparkPythonPath): 0.6 s of CPU before the first task. Executors on YARN have no SPARK_HOME either.
    """
    return python is not None and PurePosixPath(spark_home).is_relative_to(PurePosixPath(python.prefix) / "lib")


def _pages_mb(conf: dict[str, str], slots: int, page: str) -> int:
    """Return the least off-heap memory with which tasks run; `page` is the size of a page where the user chose none."""
    return PAGES_PER_SLOT * slots * (_size({PAGE_KEY: page, **conf}, PAGE_KEY, None, unit_mb=False) or 0)


def _number(conf: dict[str, str], key: str, default: str, kind: Callable[[str], Number]) -> Number:
    text = conf.get(key, default)
    try:
        number = kind(text)
    except ValueError:
        number = kind("-1")
    if not 0 < number <= MOST_NUMBER:
        raise BadInput(f"{key} is {text[:100]!r}; accepted: a number above 0 and at most {MOST_NUMBER}")
    return number


def _words(conf: dict[str, str], key: str) -> list[str]:
    try:
        return shlex.split(conf.get(key, ""))
    except ValueError as error:
        raise BadInput(f"{key} cannot be split into words ({error}); quote the options as for a shell") from error


def _size(conf: dict[str, str], key: str, asked_mb: int | None, *, unit_mb: bool = True) -> int | None:
    """Return a memory size of the conf in MiB; bare numbers count MiB, or bytes where Spark reads bytes."""
    if asked_mb is not None:
        return asked_mb
    text = conf.get(key)
    if text is None:
        return None
    word = text.strip()
    if word.isascii() and word.isdigit() and len(word) <= LONGEST_SIZE:
        mb = int(word) if unit_mb else math.ceil(int(word) / (1 << 20))
        if mb <= MOST_MB:
            return mb
    return parse_memory_mb(text, option=key)
