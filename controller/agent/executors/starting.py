"""The ways in which an executor starts on this worker: launched here, or adopted after another cluster manager started it.

All of this runs on a thread of the launcher's, which decides when to start, counts failures and tries again.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from controller.agent.executors.class_archive import ClassArchives
from controller.agent.executors.launch import make_directories, make_launch, python_binds
from controller.agent.site import Site
from controller.runtime.base import Adopter, Adoption, ExecutorKey, Program, Starter, full_image_name
from controller.runtime.claimed_process import ProcessClaim, Serves
from controller.runtime.engines import VERSION_PROGRAM
from controller.wire.driver import PythonEnvironment
from controller.wire.worker import AdoptedSpec, ExecutorSpec
from stage_model.errors import RuntimeFailed, RuntimeRefused

log = logging.getLogger("sparkpace.agent")

Spec = ExecutorSpec | AdoptedSpec


@dataclass(frozen=True, slots=True)
class Start:
    """An executor to start. `memory_mb` is the container's limit; `credentials` go into the executor's own file, None: the
    executor needs no credentials, or they are not known yet. An adopted executor has neither."""

    key: ExecutorKey
    spec: Spec
    cores: float
    memory_mb: int = 0
    credentials: bytes | None = field(default=None, repr=False)


def kept_spec(spec: Spec) -> bytes:
    """Return what is remembered of an executor's spec, as JSON: all but its environment."""
    return msgspec.json.encode(msgspec.structs.replace(spec, environment={}) if isinstance(spec, ExecutorSpec) else spec)


class AdoptingStarter:
    """The way of executors that another cluster manager has started."""

    def __init__(self, runtime: Adopter) -> None:
        self._runtime = runtime

    def start(self, start: Start, cores: Callable[[], float], wanted: Callable[[], bool]) -> None:  # noqa: ARG002 - at once
        spec = start.spec
        assert isinstance(spec, AdoptedSpec)
        serves = Serves(spec.spark_application_id, spec.executor_id, spec.driver_url)
        claim = ProcessClaim(spec.process.process, spec.process.uid)
        self._runtime.adopt(Adoption(start.key, claim, serves, cores(), spec.host, spec.slots, spec.watched))

    def read_spec(self, data: bytes) -> AdoptedSpec:
        return msgspec.json.decode(data, type=AdoptedSpec)

    def images(self) -> tuple[str, ...]:
        return ()


class LaunchingStarter:
    """The way of executors that this worker's runtime starts."""

    def __init__(self, runtime: Starter, site: Site) -> None:
        self.runtime, self._site = runtime, site
        self._archives = ClassArchives(runtime, site.archive_root)
        self._versions: dict[tuple[str | None, str, int], str] = {}
        self._images: tuple[str, ...] | None = None
        """Images that were here at the last look."""

    def start(self, start: Start, cores: Callable[[], float], wanted: Callable[[], bool]) -> None:
        """Start the executor unless it is no longer `wanted`; `cores` gives the newest grant. Raise `RuntimeRefused`,
        `RuntimeFailed` and `OSError`."""
        spec = start.spec
        assert isinstance(spec, ExecutorSpec)
        self._check_python(spec)
        java = self.runtime.java(spec.java_home, spec.image)
        launch = make_launch(spec, self._site, java.program, start.cores, start.memory_mb)
        launch = self._archives.add_to(launch, java)
        if not wanted():  # an image or an archive may have taken minutes
            return
        make_directories(spec, self._site, start.credentials)
        self.runtime.start(replace(launch, cores=cores()))
        if spec.image and full_image_name(spec.image) not in self.images():
            self._images = None

    def read_spec(self, data: bytes) -> ExecutorSpec:
        """Read a `kept_spec`. Raise the exceptions in `UNREADABLE`."""
        return msgspec.json.decode(data, type=ExecutorSpec)

    def images(self) -> tuple[str, ...]:
        """Return the executor images that are here, as far as is known."""
        if self._images is None:
            try:
                self._images = self.runtime.images()
            except RuntimeFailed as error:
                log.warning("%s", error)
        return self._images or ()

    def _check_python(self, spec: ExecutorSpec) -> None:
        """Check before anything starts that Spark's Python workers would be of the driver's minor version."""
        if spec.python is None:
            return
        known = (spec.image, spec.python.executable, spec.uid)
        if known not in self._versions:
            self._versions[known] = self._python_version(spec, spec.python)
        if self._versions[known] != spec.python.version:
            raise RuntimeRefused(
                f"{spec.python.executable} is Python {self._versions[known]} on the executors but {spec.python.version} "
                f"on the driver; use the same minor version (--image or --python names another)"
            )

    def _python_version(self, spec: ExecutorSpec, python: PythonEnvironment) -> str:
        """Ask the Python that executors would run for its minor version ("3.11"). Raise `RuntimeRefused`."""
        binds = python_binds(spec, self._site)
        argv = [python.executable, "-I", "-c", VERSION_PROGRAM]
        try:
            answer = self.runtime.run_program(Program(argv, spec.uid, spec.gid, binds, spec.image)).strip()
        except RuntimeRefused as error:
            raise RuntimeRefused(
                f"Python {error}; mount its environment with --mount, or name another with spark.pace.python"
            ) from error
        if not re.fullmatch(r"\d+\.\d+", answer):
            raise RuntimeRefused(
                f"{python.executable} answered {answer[:200]!r} when asked for its version; a Python is needed"
            )
        return answer
