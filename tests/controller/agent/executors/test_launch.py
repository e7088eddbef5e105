"""Launches of executors: placeholders filled, mounts checked, directories made without following links."""

from __future__ import annotations

import os
import socket
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import pytest

from controller.agent.executors.launch import make_directories, make_launch
from controller.agent.executors.opened_paths import KEPT
from controller.agent.site import Site
from controller.machine.process import Process
from controller.runtime.base import OWN_ADDRESS, Bind, ExecutorKey, Launch, Mask, OwnNetwork
from controller.runtime.held import HeldPath
from controller.runtime.shown_paths import SYSTEM_ROOTS
from controller.wire.worker import ExecutorSpec, Mount
from stage_model.errors import RuntimeFailed, RuntimeRefused
from tests.fakes.refusals import assert_names
from tests.fakes.worker import make_bridge, site_in, spec

KEY = ExecutorKey("app", "1")


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "allowed").mkdir()
    return replace(site_in(tmp_path), host="10.0.0.7")


def launch(site: Site, *mounts: Mount, **changed: Any) -> Launch:
    return make_launch(spec(mounts=mounts, **changed), site, "/opt/java/bin/java", 0.5, 512)


def refusal(site: Site, mount: Mount) -> str:
    with pytest.raises(RuntimeRefused) as problem:
        launch(site, mount)
    return str(problem.value)


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"environment": {"A=B": "x"}}, "environment variable 'A=B'"),
        ({"environment": {"": "x"}}, "environment variable ''"),
        ({"environment": {"X": "a\0b"}}, "environment variable 'X'"),
        ({"java_args": ("-Da=b\0c",)}, "NUL"),
        ({"uid": 1 << 32}, "uid 4294967296"),
        ({"gid": -1}, "gid -1"),
    ],
)
def test_what_no_kernel_takes_is_refused_before_anything_is_made(site: Site, changed: dict[str, object], said: str) -> None:
    with pytest.raises(RuntimeRefused, match=said):
        launch(site, **changed)
    assert not site.local_root.exists()


class TestFilling:
    def test_placeholders_are_filled_in_arguments_and_environment(self, site: Site) -> None:
        made = launch(site)
        assert made.argv == ["/opt/java/bin/java", f"-Dlocal={site.local_root}/app", "Main", "--host", "10.0.0.7"]
        assert made.environment["SPARKPACE_CONTROL_DIR"] == str(site.local_root / "app/executor-1/control")
        assert made.working_dir == site.local_root / "app/executor-1"
        assert (made.memory_bytes, made.cores) == (512 * 2**20, 0.5)

    def test_the_local_directory_of_the_application_and_the_logs_are_writable(self, site: Site) -> None:
        assert launch(site).binds == [
            Bind(site.local_root / "app", writable=True),
            Bind(site.run_root / "app/executors/1", writable=True),
        ]

    def test_pieces_are_written_as_sparks_resource_file_among_the_orders(self, site: Site) -> None:
        asked = spec(resources={"gpu": ("0", "2")}, java_args=("--resourcesFile", "{resources}"))
        made = make_launch(asked, site, "java", 0.5, 512)
        file = site.orders_root / "app" / "1" / "resources.json"
        assert made.argv[-1] == str(file)
        assert Bind(file.parent) in made.binds
        make_directories(asked, site)
        assert msgspec.json.decode(file.read_bytes()) == [
            {"id": {"componentName": "spark.executor", "resourceName": "gpu"}, "addresses": ["0", "2"]}
        ]

    def test_orders_are_read_only_for_executors_of_elastic_size_and_lie_where_they_cannot_write(self, site: Site) -> None:
        elastic = spec(off_heap_floor_mb=64, environment={"SPARKPACE_ORDERS_DIR": "{orders}"})
        made = make_launch(elastic, site, "/opt/java/bin/java", 0.5, 3000)
        orders = site.orders_root / "app/1"
        assert made.environment["SPARKPACE_ORDERS_DIR"] == str(orders)
        assert made.memory_bytes == 3000 << 20
        assert Bind(orders) in made.binds
        assert not any(orders.is_relative_to(bind.path) for bind in made.binds if bind.writable)
        assert all(bind.path != orders for bind in launch(site).binds)
        make_directories(elastic, site)
        assert orders.is_dir()


class TestCredentials:
    def asked(self, uid: int = os.geteuid()) -> ExecutorSpec:
        return spec(authenticated=True, environment={"HADOOP_TOKEN_FILE_LOCATION": "{credentials}"}, uid=uid)

    def test_only_the_submitter_can_read_their_file_which_the_executor_sees_read_only(self, site: Site) -> None:
        uid = 12345 if os.geteuid() == 0 else os.geteuid()
        asked = self.asked(uid=uid)
        made = make_launch(asked, site, "java", 0.5, 512)
        file = Path(made.environment["HADOOP_TOKEN_FILE_LOCATION"])
        assert Bind(file.parent) in made.binds
        assert not any(file.is_relative_to(bind.path) for bind in made.binds if bind.writable)
        for content in (b"first", b"of a second try"):
            make_directories(asked, site, content)
            status = file.stat()
            assert (file.read_bytes(), status.st_mode & 0o777, status.st_uid) == (content, 0o400, uid)
        assert "first" not in repr(made)

    def test_an_executor_that_needs_them_waits_for_them(self, site: Site) -> None:
        with pytest.raises(RuntimeFailed):
            make_directories(self.asked(), site)
        assert not site.executor_dir(KEY).exists()


class TestMounts:
    def test_a_path_within_an_allowed_root_is_shown(self, site: Site) -> None:
        (site.allowed_mounts[0] / "data").mkdir()
        path = str(site.allowed_mounts[0] / "data")
        assert Bind(Path(path), writable=True) in launch(site, Mount(path=path, writable=True, asked=True)).binds
        assert Bind(site.allowed_mounts[0]) in launch(site, Mount(path=str(site.allowed_mounts[0]), asked=True)).binds

    @pytest.mark.parametrize("path", ["", "allowed-not", "allowed/link"])
    def test_a_path_outside_is_not_wherever_a_link_to_it_lies(self, site: Site, tmp_path: Path, path: str) -> None:
        (tmp_path / "allowed-not").mkdir()
        (tmp_path / "allowed/link").symlink_to(tmp_path / "allowed-not")
        assert_names(refusal(site, Mount(path=str(tmp_path / path), asked=True)), tmp_path / path, "--allow-mount")

    def test_without_allowed_roots_nothing_may_be_asked_for(self, site: Site) -> None:
        closed = replace(site, allowed_mounts=())
        assert "--allow-mount" in refusal(closed, Mount(path=str(site.allowed_mounts[0]), asked=True))

    @pytest.mark.parametrize("path", ["relative", "../up", "{root}/../..", "{root}/a:b", "//etc", "", "{root}/none"])
    def test_odd_and_missing_paths_are_refused(self, site: Site, path: str) -> None:
        text = path.replace("{root}", str(site.allowed_mounts[0]))
        assert f"'{text}'" in refusal(site, Mount(path=text, asked=True))
        assert f"'{text}'" in refusal(site, Mount(path=text))

    def test_only_what_was_asked_for_may_be_writable(self, site: Site, tmp_path: Path) -> None:
        (tmp_path / "jars").mkdir()
        assert Bind(tmp_path / "jars") in launch(site, Mount(path=str(tmp_path / "jars"))).binds
        assert f"{tmp_path}/jars" in refusal(site, Mount(path=str(tmp_path / "jars"), writable=True))

    def test_the_home_of_sparkpace_is_masked_and_refused_to_who_asks_for_it(self, site: Site, tmp_path: Path) -> None:
        """Every token and the files that other applications left lie there."""
        home = site.home
        home.mkdir()
        homely = replace(site, local_root=home / "local", run_root=home / "runs", allowed_mounts=(tmp_path,))
        binds = {bind.path: bind for bind in launch(homely, Mount(path=str(tmp_path))).binds}
        assert Mask(home, folder=True) in binds[tmp_path].masks
        assert binds[home / "local/app"] == Bind(home / "local/app", writable=True)
        assert binds[home / "runs/app/executors/1"].writable
        assert f"leads into {home}" in refusal(homely, Mount(path=str(home), asked=True))
        (tmp_path / "allowed/link").symlink_to(home)
        assert f"leads into {home}" in refusal(homely, Mount(path=str(tmp_path / "allowed/link"), asked=True))

    def test_a_directory_of_submission_in_the_home_is_not_shown(self, site: Site, caplog: pytest.LogCaptureFixture) -> None:
        (site.home / "runs").mkdir(parents=True)
        inside = str(site.home / "runs")
        asked = spec(mounts=(Mount(path=inside),), working_dir=inside)
        made = make_launch(asked, site, "java", 0.5, 512)
        assert Path(inside) not in {bind.path for bind in made.binds}
        assert_names(caplog.text, "app", inside)
        assert f"leads into {site.home}" in refusal(site, Mount(path=inside))

    @pytest.mark.parametrize("path", [p for p in SYSTEM_ROOTS if Path(p).exists()])
    def test_system_directories_are_never_shown_whole(self, site: Site, path: str, tmp_path: Path) -> None:
        assert f"'{path}'" in refusal(site, Mount(path=path))
        (tmp_path / "innocent").symlink_to(Path(path).resolve())
        if str(Path(path).resolve()) in SYSTEM_ROOTS:
            assert "innocent" in refusal(site, Mount(path=str(tmp_path / "innocent")))

    @pytest.mark.parametrize("path", ["/", "/etc", "a:b,c"])
    def test_a_runtime_without_mounts_refuses_no_directory_of_submission(self, site: Site, tmp_path: Path, path: str) -> None:
        (tmp_path / "a:b,c").mkdir()
        (tmp_path / "spark").mkdir()
        submitted = str(tmp_path / path)
        mounts = (Mount(path=str(tmp_path / "spark")), Mount(path=submitted), Mount(path=str(tmp_path), asked=True))
        asked = spec(mounts=mounts, working_dir=submitted)
        with pytest.raises(RuntimeRefused):
            make_launch(asked, site, "java", 0.5, 512)
        made = make_launch(asked, replace(site, mounts=False), "java", 0.5, 512)
        assert {bind.path for bind in made.binds} - {bind.path for bind in launch(site).binds} == {tmp_path / "spark"}


class TestHolding:
    """The file that was checked is the file that is bound, whatever the path names later."""

    def test_a_link_that_is_swapped_after_the_check_changes_nothing(self, site: Site, tmp_path: Path) -> None:
        root = site.allowed_mounts[0]
        (root / "data").mkdir()
        (tmp_path / "secret").mkdir()
        (root / "link").symlink_to(root / "data")
        (bind,) = (b for b in launch(site, Mount(path=str(root / "link"), asked=True)).binds if b.path == root / "link")
        (root / "link").unlink()
        (root / "link").symlink_to(tmp_path / "secret")
        assert bind.held is not None
        assert bind.held.real == root / "data"
        (root / "data").rename(root / "moved")
        (root / "data").symlink_to(tmp_path / "secret")
        assert os.path.samestat(Path(bind.held.name).stat(), (root / "moved").stat())
        assert not bind.held.same_as(root / "data")

    def test_a_path_that_is_named_twice_is_looked_at_once(self, site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
        """A path that is looked at twice could be allowed as one thing and shown, writable, as another."""
        path, opened, openly = str(site.allowed_mounts[0]), list[str](), os.open

        def watched(path: str, *rest: Any, **more: Any) -> int:
            opened.append(str(path))
            return openly(path, *rest, **more)

        monkeypatch.setattr(os, "open", watched)
        launch(site, Mount(path=path, asked=True, writable=True), Mount(path=path))
        assert opened.count(path) == 1

    def test_it_is_let_go_with_the_launch(self, site: Site) -> None:
        made = launch(site, Mount(path=str(site.allowed_mounts[0]), asked=True))
        (held,) = (bind.held for bind in made.binds if bind.held is not None)
        descriptor = held.descriptor
        os.fstat(descriptor)
        del made, held
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(descriptor)

    def test_what_is_neither_a_file_nor_a_directory_is_refused(self, site: Site) -> None:
        root = site.allowed_mounts[0]
        os.mkfifo(root / "pipe")
        with socket.socket(socket.AF_UNIX) as listening:
            listening.bind(str(root / "socket"))
        (root / "engine").symlink_to(root / "socket")
        for name in ("pipe", "socket", "engine"):
            for mount in (Mount(path=str(root / name), asked=True), Mount(path=str(root / name), bridge=True)):
                assert name in refusal(site, mount)
        everything = replace(site, allowed_mounts=(Path("/"),))
        assert "/dev/null" in refusal(everything, Mount(path="/dev/null", asked=True))
        for path in ("/proc", "/proc/self", "/proc/self/status", "/sys/kernel", "/dev"):
            assert f"'{path}'" in refusal(everything, Mount(path=path, asked=True))

    def test_a_jar_that_is_no_bridge_is_refused_and_a_copy_of_the_agents_is_shown(self, site: Site, tmp_path: Path) -> None:
        jar = tmp_path / "bridge.jar"
        jar.write_bytes(b"anything")
        for path in (jar, tmp_path, Path("/etc/passwd")):
            assert str(path) in refusal(site, Mount(path=str(path), bridge=True))
        make_bridge(jar, "first")
        os.utime(jar, ns=(5, 1_700_000_000_000_000_001))
        (bind,) = (b for b in launch(site, Mount(path=str(jar), bridge=True)).binds if b.path == jar)
        said = jar.read_bytes()
        make_bridge(jar, "another")
        assert bind.held is not None
        assert bind.held.real.parent == site.bridge_root
        assert bind.held.real.read_bytes() == said
        assert (bind.held.real.stat().st_mtime_ns, bind.held.real.stat().st_mode & 0o777) == (
            1_700_000_000_000_000_001,
            0o644,
        )

    def test_few_copies_of_bridges_are_kept(self, site: Site, tmp_path: Path) -> None:
        for number in range(KEPT + 3):
            jar = tmp_path / f"{number}.jar"
            make_bridge(jar, str(number))
            made = launch(site, Mount(path=str(jar), bridge=True))
            assert len(list(site.bridge_root.iterdir())) == min(number + 1, KEPT)
            (held,) = (bind.held for bind in made.binds if bind.held is not None)
            assert held.same_as(held.real)

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root looks with another user's rights")
    def test_no_user_is_shown_files_in_a_closed_folder(self, site: Site) -> None:
        """A directory open to all within a closed one: bound by root, it would be open."""
        with tempfile.TemporaryDirectory() as folder:  # tmp_path is closed to all but us
            Path(folder).chmod(0o755)
            self.look_behind_a_closed_door(replace(site, allowed_mounts=(Path(folder),)))

    def look_behind_a_closed_door(self, site: Site) -> None:
        shown = site.allowed_mounts[0] / "closed" / "open"
        shown.mkdir(parents=True)
        shown.parent.chmod(0o700)
        mount = Mount(path=str(shown), asked=True)

        def asked(uid: int, gid: int) -> Launch:
            return make_launch(spec(mounts=(mount,), uid=uid, gid=gid), site, "java", 0.5, 512)

        with pytest.raises(RuntimeRefused, match="uid 54321"):
            asked(54321, 54321)
        asked(0, 0)
        os.chown(shown.parent, 54321, 54321)
        asked(54321, 54321)
        with pytest.raises(RuntimeRefused, match="uid 54322"):
            asked(54322, 54321)
        shown.parent.chmod(0o710)
        asked(54322, 54321)
        assert (os.geteuid(), os.getegid()) == (0, 0)
        assert shown.exists()

    @pytest.mark.parametrize(("mode", "firm"), [(0o755, True), (0o700, True), (0o775, False), (0o1777, True), (0o777, False)])
    def test_a_path_is_firm_if_no_other_user_can_redirect_it(self, tmp_path: Path, mode: int, firm: bool) -> None:
        (tmp_path / "above" / "data").mkdir(parents=True)
        (tmp_path / "above").chmod(mode)
        held = HeldPath(os.open(tmp_path / "above" / "data", os.O_PATH))
        stranger = os.geteuid() + 54321
        assert held.is_firm(stranger) == firm
        if os.geteuid() == 0:
            os.chown(tmp_path / "above", stranger, stranger)
            assert not held.is_firm(stranger)
        else:
            assert not held.is_firm(os.geteuid())


class TestDirectories:
    def test_they_are_closed_to_others_and_made_once(self, site: Site) -> None:
        for _ in range(2):
            make_directories(spec(), site)
        for directory in (site.local_dir(KEY), site.executor_dir(KEY), site.control_dir(KEY), site.log_dir(KEY)):
            assert directory.stat().st_mode & 0o777 == 0o700

    def test_an_application_cannot_make_the_agent_give_away_another_directory(self, site: Site, tmp_path: Path) -> None:
        """Executor 1 puts a link where executor 2's directory will be."""
        make_directories(spec(), site)
        (tmp_path / "secret").mkdir()
        owner = (tmp_path / "secret").stat().st_uid
        site.executor_dir(ExecutorKey("app", "2")).symlink_to(tmp_path / "secret")
        with pytest.raises(OSError, match="executor-2"):
            make_directories(spec(executor="2", uid=owner + 1, gid=owner + 1), site)
        assert (tmp_path / "secret").stat().st_uid == owner
        assert not (tmp_path / "secret/control").exists()

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a directory away")
    def test_the_submitters_directories_are_theirs_and_the_ones_above_are_not(self, site: Site) -> None:
        make_directories(spec(uid=12345, gid=12346), site)
        for directory in (site.local_dir(KEY), site.executor_dir(KEY), site.control_dir(KEY), site.log_dir(KEY)):
            assert (directory.stat().st_uid, directory.stat().st_gid) == (12345, 12346)
        for directory in (site.local_root, site.run_root, site.run_root / "app", site.run_root / "app/executors"):
            assert directory.stat().st_uid == 0


class TestNetwork:
    """Addresses of executors. 192.0.2.77 belongs to no machine (RFC 5737)."""

    @pytest.fixture
    def own(self, site: Site) -> Site:
        return replace(site, own_networks=True)

    @pytest.fixture
    def here(self) -> str:
        """Provide an address of this machine besides loopback."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            try:
                probe.connect(("198.51.100.1", 9))
            except OSError:
                pytest.skip("this machine has no address but loopback")
            return str(probe.getsockname()[0])

    def test_an_executor_has_the_hosts_network_and_address_or_its_own(self, site: Site, own: Site, here: str) -> None:
        assert (launch(site).network, launch(site).argv[-1]) == (None, "10.0.0.7")
        launched = launch(own, driver_address=here, driver_ports=(7, 8))
        assert launched.argv[-1] == OWN_ADDRESS
        assert launched.network == OwnNetwork(here, (7, 8))

    @pytest.mark.parametrize(("all_closed", "this_closed"), [(True, False), (False, True), (True, True)])
    def test_the_stricter_of_worker_and_job_counts(self, own: Site, here: str, all_closed: bool, this_closed: bool) -> None:
        launched = launch(replace(own, closed=all_closed), driver_address=here, driver_ports=(7,), closed=this_closed)
        assert launched.network == OwnNetwork(here, (7,), closed=True)

    def test_a_job_that_is_to_be_closed_does_not_run_on_the_hosts_network(self, site: Site) -> None:
        with pytest.raises(RuntimeRefused, match="--network open"):
            launch(site, closed=True)

    @pytest.mark.parametrize(
        ("address", "said"),
        [
            *((address, address) for address in ("127.0.0.1", "192.0.2.77", "0.0.0.0")),
            *((address, "'driver-host'") for address in (None, "::1", "localhost")),
        ],
    )
    def test_a_driver_that_no_container_reaches_gets_a_remedy(self, own: Site, address: str | None, said: str) -> None:
        with pytest.raises(RuntimeRefused, match=rf"{said}.*--network host"):
            launch(own, driver_host="driver-host", driver_address=address, driver_ports=(7,))

    def test_a_driver_on_another_machine_needs_the_hosts_network(self, own: Site) -> None:
        with pytest.raises(RuntimeRefused, match="--network host"):
            launch(own, driver_address="192.0.2.77", driver=Process(1, 1, "another"))
