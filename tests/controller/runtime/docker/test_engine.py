"""Behaviour of the docker runtime only: container options, the engine's word, adoption without kernel files."""

from __future__ import annotations

import dataclasses
import itertools
import json
import os
import pwd
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from controller.agent.executors.masks import Place, Secret, ShowReason, Wanted, masked
from controller.runtime import launching
from controller.runtime.base import CPU_PERIOD_US, Bind, ExecutorKey, Mask, Program
from controller.runtime.cgroup.tree import CgroupTree
from controller.runtime.docker import container as docker_container
from controller.runtime.docker import image
from controller.runtime.docker.client import EngineClients
from controller.runtime.docker.engine import LIST_EVERY_S, DockerRuntime
from controller.runtime.docker.mounting import mounts
from controller.runtime.held import HeldPath
from stage_model.errors import RuntimeRefused, Unavailable
from tests.controller.runtime import rigs
from tests.controller.runtime.docker.rig import DockerRig
from tests.controller.runtime.rigs import KEY

pytestmark = pytest.mark.docker

SECRET = "s3cr3t-of-this-test"


@pytest.fixture
def rig(tmp_path: Path) -> Iterator[DockerRig]:
    made = DockerRig(tmp_path)
    yield made
    made.close()


def test_a_submitter_who_is_not_root_has_a_name_inside(rig: DockerRig) -> None:
    launch = rig.launch("id -u; id -un")
    uid = os.getuid() or 54_321
    launch = dataclasses.replace(launch, uid=uid, gid=uid if os.getuid() == 0 else os.getgid())
    number, name = rigs.output(rig, rig.runtime(), launch).splitlines()
    assert number == str(uid)
    assert name == (f"uid-{uid}" if os.getuid() == 0 else pwd.getpwuid(uid).pw_name)


def test_containers_are_confined_and_labelled(rig: DockerRig) -> None:
    read_only = rig.directory / "read-only"
    read_only.mkdir()
    launch = rig.launch(f"touch {read_only}/file; {rigs.IDLE}", environment={"SECRET": SECRET})
    rig.runtime().start(dataclasses.replace(launch, binds=[Bind(read_only)], labels={"mine": "too"}))
    seen = rig.inspect()
    host, config = seen["HostConfig"], seen["Config"]
    assert host["NetworkMode"] == "host"
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["Init"] is True
    assert (host["CpuPeriod"], host["CpuQuota"]) == (CPU_PERIOD_US, 50_000)
    assert host["Memory"] == host["MemorySwap"] == rigs.MEMORY_BYTES
    assert host["PidsLimit"] == 4096
    assert host["LogConfig"]["Type"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert {"Name": "core", "Hard": 0, "Soft": 0} in host["Ulimits"]
    assert config["User"] == f"{os.getuid()}:{os.getgid()}"
    assert config["WorkingDir"] == str(rig.directory)
    assert (
        config["Labels"].items()
        >= {
            "sparkpace.cluster": rig.cluster,
            "sparkpace.worker": "w1",
            "sparkpace.application": "app-1",
            "sparkpace.executor": "1",
            "mine": "too",
        }.items()
    )
    config["Env"] = []
    assert SECRET not in json.dumps(seen)
    rig.until(lambda: (launch.log_dir / "stderr").exists() and (launch.log_dir / "stderr").read_text())
    assert not (read_only / "file").exists()


WRITABLE = "/tmp", "/dev/shm", "/dev/mqueue"
"""Paths that a container has for its own, in its memory."""


@pytest.mark.parametrize("uid", [0, 54_321])
def test_a_container_writes_only_to_its_mounts_and_to_bounded_memory(rig: DockerRig, uid: int) -> None:
    if os.getuid() not in (0, uid):
        pytest.skip("only an agent that is root can start executors as anybody")
    folders = "find / -xdev -type d -writable; find /dev -type d -writable"
    program = (
        f"({folders}) 2>/dev/null | sort -u; cp /bin/true /tmp/mine && /tmp/mine && echo runs; rm /tmp/mine; "
        f"head -c 100000000 /dev/zero >/tmp/big; stat -c %s /tmp/big; ulimit -c; ulimit -n; echo $HOME"
    )
    launch = dataclasses.replace(rig.launch(program), uid=uid, gid=uid, memory_bytes=4 * rigs.MEMORY_BYTES)
    runtime = rig.runtime(tmp_mb=20)
    *folders_seen, runs, size, core, files, home = rigs.output(rig, runtime, launch).splitlines()
    assert set(folders_seen) - {"/dev", "/dev/pts"} == set(WRITABLE)
    assert (runs, int(size), core, home) == ("runs", 20 << 20, "0", "/tmp")
    assert runtime._most_files in (None, int(files))
    assert docker_container.most_files() <= 65_536


def test_an_engine_with_a_lower_limit_of_files_starts_executors_with_its_own_limit(rig: DockerRig) -> None:
    runtime = rig.runtime()
    runtime._most_files = (1 << 30) + 1  # more than a kernel has (fs.nr_open)
    key = rig.start(runtime, rigs.IDLE)
    assert runtime.observe()[key].running
    assert runtime._most_files is None


def test_a_tmp_that_is_a_mount_stays_what_was_asked_for(rig: DockerRig) -> None:
    shown = mounts([Bind(Path("/tmp"), writable=True)])
    assert docker_container.hardening(shown, 64)["tmpfs"] == {}


@pytest.mark.parametrize("writable", [True, False])
@pytest.mark.parametrize("uid", [os.getuid(), 12345])
def test_what_is_masked_cannot_be_read_and_what_is_bound_below_a_mask_can(rig: DockerRig, uid: int, writable: bool) -> None:
    """A folder, a file, a socket and where a link leads, masked as the agent does it."""
    home = rig.directory / "home"
    own = home / ".sparkpace/local/app"
    for folder in (own, home / ".aws/asked", home / "clusters"):
        folder.mkdir(parents=True)
    files = (".sparkpace/admin.token", ".aws/credentials", ".aws/asked/file", ".netrc", "clusters/key", "plain")
    for file in files:
        (home / file).write_text(f"<{file}>\n")
    (home / ".kube").symlink_to("clusters")
    for path in (home, *home.rglob("*")):
        path.chmod(0o777)
    secrets = [
        Secret(home / ".sparkpace", (Place(home / ".sparkpace"),), "a home of Sparkpace"),
        Secret(home / "engine.sock", (Place(home / "engine.sock", folder=False),), "the container engine's"),
        Secret(home / ".aws", (Place(home / ".aws"),)),
        Secret(home / ".netrc", (Place(home / ".netrc", folder=False),)),
        Secret(home / ".kube", (Place(home / "clusters"),)),
    ]
    wanted = [
        Wanted(home, home, ShowReason.ASKED, writable),
        Wanted(own, own, ShowReason.OWN, writable=True),
        Wanted(home / ".aws/asked", home / ".aws/asked", ShowReason.ASKED),
    ]
    program = (
        f"cd {home}; test -S engine.sock && echo a socket; touch .sparkpace/x .aws/x && echo a written mask; "
        f"touch new && echo written; echo own >{own}/file; cat {own}/file .kube/key {' '.join(files)}; true"
    )
    with socket.socket(socket.AF_UNIX) as engine:
        engine.bind(str(home / "engine.sock"))
        asked = Program(["/bin/sh", "-c", program], uid, uid, masked(wanted, secrets))
        said = rig.runtime().run_program(asked)
    assert said.split() == [*(["written"] if writable else []), "own", "<.aws/asked/file>", "<plain>"]
    assert (home / ".netrc").read_text() == "<.netrc>\n"


def test_too_much_memory_is_an_end_with_a_reason(rig: DockerRig) -> None:
    runtime = rig.runtime()
    key = rig.start(runtime, "exec python3 -c 'b = bytearray(500_000_000)'", cores=1.0)
    seen = rig.ended(runtime, key)
    assert seen.exit_code == 137
    assert "out of memory" in seen.reason


def test_without_kernel_files_the_engine_is_asked(rig: DockerRig, tmp_path: Path) -> None:
    """An agent in a container sees neither the pids nor the control groups of its executors."""
    runtime = rig.runtime(cgroups=CgroupTree(tmp_path / "no-cgroups"))
    key = rig.start(runtime, rigs.BUSY, cores=0.3)
    rig.until(lambda: runtime.observe()[key].cpu_s > 0)
    seen = runtime.observe()[key]
    assert seen.quota_cores == pytest.approx(0.3)
    assert 0 < seen.memory_bytes < rigs.MEMORY_BYTES
    assert runtime.set_quota(key, 0.2)
    rig.until(lambda: runtime.observe()[key].quota_cores == pytest.approx(0.2))
    assert runtime.set_memory_limit(key, 2 * rigs.MEMORY_BYTES)
    rig.until(lambda: runtime.observe()[key].memory_limit_bytes == 2 * rigs.MEMORY_BYTES)
    runtime.stop(key)
    assert rig.ended(runtime, key).exit_code == 137
    assert not runtime.set_quota(key, 1.0)


def test_a_container_removed_by_others_is_gone(rig: DockerRig) -> None:
    runtime = rig.runtime()
    key = rig.start(runtime, rigs.IDLE)
    rig.client.remove_container(rig.inspect()["Id"], force=True)
    assert not runtime.set_quota(key, 1.0)
    rig.until(lambda: not runtime.observe())


def test_the_list_is_asked_for_every_ten_seconds_only(rig: DockerRig) -> None:
    now = 100.0
    watcher = rig.runtime(clock=lambda: now)
    assert watcher.observe() == {}
    key = rig.start(rig.runtime(), rigs.IDLE)
    now += LIST_EVERY_S - 0.1
    assert watcher.observe() == {}
    now += 0.1
    assert rig.until(watcher.observe)[key].running


def test_one_thread_may_start_while_another_observes(rig: DockerRig) -> None:
    """The engine is asked for a list at every observation: a container between create and start must not look like an ended
    executor."""
    ticks = itertools.count(step=LIST_EVERY_S)
    runtime = rig.runtime(clock=lambda: next(ticks))
    key = rig.start(runtime, rigs.EXITS_WITH_3)
    rig.ended(runtime, key)
    keys = [ExecutorKey("app-1", str(number)) for number in range(2, 6)]
    with ThreadPoolExecutor(1) as pool:
        starts = [pool.submit(runtime.start, rig.launch(rigs.IDLE, key=key)) for key in keys]
        while not all(start.done() for start in starts):
            assert all(seen.running for seen in runtime.observe().values() if seen.key in keys)
    for start in starts:
        start.result()
    assert {seen.key for seen in runtime.observe().values() if seen.running} == set(keys)


def test_a_name_taken_by_a_foreign_container_is_refused(rig: DockerRig) -> None:
    runtime = rig.runtime()
    taken = rig.client.create_container(runtime.prepare_image(), ["true"], name=launching.unique_name(rig.cluster, "w1", KEY))
    try:
        with pytest.raises(RuntimeRefused, match="foreign"):
            runtime.start(rig.launch(rigs.IDLE))
    finally:
        rig.client.remove_container(taken["Id"])


def test_a_container_that_was_never_started_is_replaced(rig: DockerRig) -> None:
    first = rig.runtime(records=rig.directory / "forgotten")
    key = rig.start(first, rigs.IDLE)
    labels, name = rig.inspect()["Config"]["Labels"], launching.unique_name(rig.cluster, "w1", KEY)
    rig.client.remove_container(name, force=True)
    rig.client.create_container(first.prepare_image(), ["true"], name=name, labels=labels)
    second = rig.restart(first)
    seen = rig.until(lambda: [one for one in second.observe().values() if not one.running])[0]
    assert (seen.running, seen.exit_code, seen.reason) == (False, None, "created but never started")
    rig.start(second, rigs.IDLE)
    assert second.observe()[key].running


def test_an_image_that_does_not_exist_is_refused(rig: DockerRig) -> None:
    runtime = rig.runtime()
    launch = dataclasses.replace(rig.launch(rigs.IDLE), image="localhost:9/sparkpace/no-such-image:1")
    with pytest.raises(RuntimeRefused, match="no-such-image"):
        runtime.start(launch)
    assert runtime.observe() == {}


@pytest.mark.parametrize("room", [True, False])
def test_a_base_that_cannot_be_built_on_is_refused_with_the_last_lines_whether_or_not_there_is_place_for_a_lock(
    rig: DockerRig, room: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The lock lies where no other user can be before us."""
    cache = rig.directory / "cache"
    if not room:
        cache.touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    with pytest.raises(RuntimeRefused, match=r"localhost:9/no-base:1(?s:.*)Last lines"):
        rig.runtime(base_image="localhost:9/no-base:1").prepare_image()
    assert not room or (cache / "sparkpace" / "image.lock").stat().st_mode & 0o777 == 0o600


def test_no_engine_is_unavailable(tmp_path: Path) -> None:
    with pytest.raises(Unavailable, match="make engine"):
        DockerRuntime("c", "w", tmp_path / "records", base_url="tcp://127.0.0.1:9")


def test_the_tag_follows_the_base() -> None:
    assert image.tag_of("a") != image.tag_of("b") != image.tag_of(None)
    assert image.tag_of("a") == image.tag_of("a")
    assert b"ARG BASE_IMAGE=" in image.dockerfile()


def test_the_image_has_java_and_python(rig: DockerRig) -> None:
    runtime = rig.runtime()
    launch = rig.launch(f"java -version && echo $HOME; {rigs.IDLE}")
    # A JVM reserves more than the other tests' limit.
    runtime.start(dataclasses.replace(launch, memory_bytes=512 << 20, cores=1.0))
    assert rig.until(lambda: rig.said(launch.key)) == "/tmp\n"
    assert 'version "17' in (launch.log_dir / "stderr").read_text()
    assert runtime.java("/some/where", None).program == "java"


@pytest.fixture
def swappable(tmp_path: Path) -> Iterator[tuple[Path, Path]]:
    """Provide a folder that any user may change, with a path in it, and what that path must not lead to."""
    open_to_all = tmp_path / "open"
    (open_to_all / "data").mkdir(parents=True)
    (open_to_all / "data" / "which").write_text("checked\n")
    (tmp_path / "secret").mkdir()
    (tmp_path / "secret" / "which").write_text("secret\n")
    open_to_all.chmod(0o777)
    yield open_to_all / "data", tmp_path / "secret"
    assert (tmp_path / "secret" / "which").read_text() == "secret\n"


def looked_at(path: Path, *, writable: bool = False) -> Bind:
    held = HeldPath(os.open(path, os.O_PATH))
    return Bind(path, writable, held=held, firm=held.is_firm(os.getuid()))


def swap(path: Path, target: Path) -> None:
    path.rename(path.with_name("moved"))
    path.symlink_to(target)


def reads(runtime: DockerRuntime, folder: Path, bind: Bind) -> str:
    """Return what a program reads in a folder that it sees by `bind`."""
    return runtime.run_program(Program(["/bin/cat", f"{folder}/which"], os.getuid(), os.getgid(), [bind]))


def test_a_directory_swapped_between_check_and_start_is_shown_as_it_was_checked(
    rig: DockerRig, swappable: tuple[Path, Path]
) -> None:
    data, secret = swappable
    volumes: set[str] = set()
    for writable in (False, True):
        launch = rig.launch(
            f"cat {data}/which; touch {data}/made-{writable} && echo wrote", key=ExecutorKey("app-1", str(writable))
        )
        bind = looked_at(data, writable=writable)
        assert not bind.firm
        runtime = rig.runtime(f"w-{writable}")
        swap(data, secret)
        said = rigs.output(rig, runtime, dataclasses.replace(launch, binds=[bind]))
        assert said.split() == (["checked", "wrote"] if writable else ["checked"])
        seen = rig.inspect(launch.key, f"w-{writable}")
        volumes |= {mount["Name"] for mount in seen["Mounts"] if mount["Type"] == "volume"}
        data.unlink()
        data.with_name("moved").rename(data)
        assert reads(runtime, data, looked_at(data)) == "checked\n"
    assert len(volumes) == 2
    docker_container.clear(rig.client, {docker_container.CLUSTER: rig.cluster})
    rig.until(lambda: not volumes & {volume["Name"] for volume in rig.client.volumes()["Volumes"] or ()})
    # what the engine removed with the container was its volume, not what was mounted there
    assert sorted(path.name for path in data.iterdir()) == ["made-True", "which"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root looks into a container's files")
def test_a_file_swapped_between_check_and_start_ends_the_executor(rig: DockerRig, swappable: tuple[Path, Path]) -> None:
    data, secret = swappable
    data.chmod(0o777)
    launch = rig.launch(rigs.IDLE)
    bind = looked_at(data / "which")
    runtime = rig.runtime()
    swap(data / "which", secret / "which")
    with pytest.raises(RuntimeRefused, match="app-1/1"):
        runtime.start(dataclasses.replace(launch, binds=[bind]))
    assert runtime.observe() == {}
    assert rig.client.containers(all=True, filters={"label": f"sparkpace.cluster={rig.cluster}"}) == []


def test_masks_and_deeper_binds_lie_over_a_held_directory(rig: DockerRig, swappable: tuple[Path, Path]) -> None:
    data, _ = swappable
    (data / "hidden").mkdir()
    (data / "hidden" / "key").touch()
    (data / "inner").mkdir()
    bind = dataclasses.replace(
        looked_at(data), masks=(Mask(data / "hidden", folder=True), Mask(data / "which", folder=False))
    )
    inner = looked_at(data / "inner", writable=True)
    launch = rig.launch(f"ls {data}/hidden; cat {data}/which; touch {data}/inner/file; ls {data}/inner")
    assert rigs.output(rig, rig.runtime(), dataclasses.replace(launch, binds=[bind, inner])).split() == ["file"]


def test_an_engine_that_does_not_see_what_is_held_mounts_by_name_and_the_log_says_so(
    rig: DockerRig, swappable: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    data, _ = swappable
    monkeypatch.setattr(EngineClients, "pid", lambda _: None)  # as that of an engine in another namespace, or remote
    runtime = rig.runtime()
    for _ in range(2):
        assert reads(runtime, data, looked_at(data)) == "checked\n"
    assert caplog.text.count("mounted by name") == 1


def test_where_namespaces_cannot_be_compared_the_engine_is_tried(
    rig: DockerRig, swappable: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    data, _ = swappable
    closed = PermissionError("as to who is not root")
    samefile = Path.samefile

    def refuses(path: Path, other: Any) -> bool:
        if str(path).startswith("/proc/"):
            raise closed
        return samefile(path, other)

    monkeypatch.setattr(Path, "samefile", refuses)
    bind = looked_at(data)
    swap(data, swappable[1])
    assert reads(rig.runtime(), data, bind) == "checked\n"
