"""Adopting: only what is what it says, and a watched executor gets nothing."""

from __future__ import annotations

import dataclasses
import os
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import psutil
import pytest
from msgspec import structs

from controller.agent.open_quotas import let_go_all
from controller.machine import proc
from controller.machine.process import Process
from controller.runtime.adopt.runtime import AdoptRuntime
from controller.runtime.base import Adoption
from controller.runtime.claimed_process import BACKENDS, ProcessClaim, Serves, find_claimed
from stage_model.errors import RuntimeRefused
from tests.controller.runtime.adopt.adopting import adoption, said_to_an_ordinary_user
from tests.controller.runtime.rigs import BUSY, IDLE, KEY, AdoptRig, executor_command


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[AdoptRig]:
    made = AdoptRig(tmp_path)
    yield made
    made.close()


def test_a_process_that_is_not_what_it_says_is_refused(rig: AdoptRig) -> None:
    runtime, real = rig.runtime(), adoption(rig)
    said = real.claim.process
    elsewhere = {"boot_id": "another"}
    older = {"start_ticks": said.start_ticks - 1}
    numbered = {"pid": 1}
    lies = [ProcessClaim(structs.replace(said, **lie), real.claim.uid) for lie in (elsewhere, older, numbered)]
    for lie in (*lies, ProcessClaim(said, real.claim.uid + 1)):
        with pytest.raises(RuntimeRefused):
            runtime.adopt(dataclasses.replace(real, claim=lie))
    for other in (
        {"spark_application_id": "app-of-somebody-else"},
        {"executor_id": "2"},
        {"driver_url": "spark://CoarseGrainedScheduler@127.0.0.1:4041"},
    ):
        with pytest.raises(RuntimeRefused, match="no executor"):
            runtime.adopt(dataclasses.replace(real, serves=dataclasses.replace(real.serves, **other)))
    assert runtime.observe() == {}
    runtime.adopt(real)
    assert runtime.observe()[KEY].running


def test_a_program_that_only_has_the_options_is_no_executor(rig: AdoptRig) -> None:
    """The command line of this test's own shell without Spark's class."""
    words = ["--driver-url", rig.SERVES.driver_url, "--executor-id", KEY.executor_id]
    words += ["--app-id", rig.SERVES.spark_application_id]
    child = subprocess.Popen(["/bin/sh", "-c", IDLE, "sh", *words], start_new_session=True)
    rig.processes.append(child)
    with pytest.raises(RuntimeRefused, match="no executor"):
        rig.runtime().adopt(Adoption(KEY, rig.claim(child.pid), rig.SERVES, 0.5))


def has_worked(runtime: AdoptRuntime) -> bool:
    return runtime.observe()[KEY].cpu_s > 0.1


def test_a_watched_process_gets_no_signal_and_needs_no_right_to_send_one(rig: AdoptRig) -> None:
    rig.signals = False
    what, runtime = dataclasses.replace(adoption(rig, BUSY), watched=True), rig.runtime()
    for _ in range(2):  # the second agent has the record of the first one
        runtime.adopt(what)
        assert runtime.set_quota(KEY, 0.01)
        rig.until(partial(has_worked, runtime))
        seen = runtime.observe()[KEY]
        assert (seen.running, seen.quota_cores, seen.throttled_s) == (True, None, None)
        assert runtime._pacer.cores(KEY) is None
        runtime = rig.restart(runtime)
    assert let_go_all(runtime)
    assert (runtime.observe(), list((rig.directory / "state/w1").iterdir())) == ({}, [])
    assert rig.processes[-1].poll() is None, "the executor goes on"


def test_without_a_group_and_without_signals_it_is_refused_with_what_would_help(rig: AdoptRig) -> None:
    runtime = AdoptRuntime(rig.cluster, "w1", rig.directory / "state", cgroups=rig.cgroups())
    with pytest.raises(RuntimeRefused, match="--signals"):
        runtime.adopt(adoption(rig))


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may make namespaces of process numbers")
def test_of_two_containers_that_start_in_one_clock_tick_each_has_its_own_process(rig: AdoptRig) -> None:
    """Both processes have the same number within and the same start. An agent without rights over them does not see whose
    number it is."""

    def started_together() -> list[tuple[psutil.Process, Serves]]:
        serving = [dataclasses.replace(rig.SERVES, executor_id=str(number)) for number in range(8)]
        outer = [
            subprocess.Popen(
                ["unshare", "--pid", "--fork", *executor_command("sleep 1000", BACKENDS[0], one)], start_new_session=True
            )
            for one in serving
        ]
        rig.processes.extend(outer)
        inner = [rig.until(psutil.Process(parent.pid).children)[0] for parent in outer]
        rig.until(lambda: all(BACKENDS[0] in proc.command_line(process.pid) for process in inner))
        alike = defaultdict[int | None, list[tuple[psutil.Process, Serves]]](list)
        for process, one in zip(inner, serving, strict=True):
            alike[proc.start_ticks(process.pid)].append((process, one))
        return next((pair[:2] for pair in alike.values() if len(pair) > 1), [])

    for process, serves in rig.until(started_together):
        ticks, namespace = proc.start_ticks(process.pid), str(Path(f"/proc/{process.pid}/ns/pid").readlink())
        assert ticks is not None
        claim = ProcessClaim(Process(1, ticks, proc.boot_id(), namespace), os.getuid())
        found = find_claimed(claim, serves)
        assert found.pid == process.pid
        said = said_to_an_ordinary_user(partial(find_claimed, claim, serves))
        assert said == str(found)
