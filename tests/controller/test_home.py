"""The home directory: tokens that only we may read, and the cluster it remembers."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from controller.home import (
    LARGEST_TOKEN_BYTES,
    NO_PROCESS,
    SHORTEST_SECRET,
    AgentProcess,
    Cluster,
    Home,
    User,
    find_home,
    make_token,
    read_token,
)
from controller.machine.process import Process, find_process
from stage_model.errors import BadInput, Denied, Unavailable


def cluster(master: Process) -> Cluster:
    return Cluster(
        cluster_id="c1",
        url="https://127.0.0.1:7070",
        host="127.0.0.1",
        port=7070,
        runtime="process",
        master=master,
        agents=(AgentProcess(worker_id="w1", process=Process(pid=2**22, start_ticks=1, boot_id="none")),),
        started=1.0,
    )


def this_process() -> Process:
    found = find_process(os.getpid())
    assert found is not None
    return found


def test_the_option_wins_over_the_environment_and_that_over_the_default(tmp_path: Path) -> None:
    named = {"SPARKPACE_HOME": str(tmp_path / "env")}
    assert find_home(tmp_path / "option", named).path == tmp_path / "option"
    assert find_home(None, named).path == tmp_path / "env"
    assert find_home(None, {}).path == Path.home() / ".sparkpace"
    assert find_home(Path("relative"), {}).path == Path.cwd() / "relative"


def test_a_home_without_a_cluster_knows_the_master_that_the_environment_names(tmp_path: Path) -> None:
    named = find_home(tmp_path, {"SPARKPACE_MASTER": "https://master.example:7171"})
    found = named.need_cluster()
    assert (found.url, found.host, found.port) == ("https://master.example:7171", "master.example", 7171)
    with pytest.raises(BadInput, match=r"http://master.example"):
        find_home(tmp_path, {"SPARKPACE_MASTER": "http://master.example"}).need_cluster()
    with pytest.raises(Unavailable, match="SPARKPACE_MASTER"):
        find_home(tmp_path, {}).need_cluster()


def test_create_makes_everything_private_and_keeps_tokens(home: Home) -> None:
    tokens = home.admin_token(), home.submit_token()
    home.create()
    assert (home.admin_token(), home.submit_token()) == tokens
    assert tokens[0] != tokens[1]
    assert all(len(token) >= 43 for token in tokens)  # 32 bytes in base64 without padding
    assert home.path.stat().st_mode & 0o777 == 0o700
    assert home.admin_token_file.stat().st_mode & 0o777 == 0o600
    assert home.submit_token_file.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777, 0o702])
def test_a_home_that_others_may_change_is_refused_before_anything_is_made(tmp_path: Path, mode: int) -> None:
    path = tmp_path / "home"
    path.mkdir()
    path.chmod(mode)
    with pytest.raises(BadInput, match=f"{mode:04o}.* chmod 700"):
        Home(path).create()
    assert list(path.iterdir()) == []


def test_a_users_own_token_is_that_users_as_long_as_its_file_is_there_and_private(home: Home) -> None:
    assert home.find_user(home.submit_token()) is None
    file = make_token(home.user_token_file(User(1000, 100)))
    token = read_token(file)
    assert make_token(home.user_token_file(User(1000, 100))) == file
    other = read_token(make_token(home.user_token_file(User(1001, 1001))))
    assert (home.find_user(token), home.find_user(other)) == (User(1000, 100), User(1001, 1001))
    for nobodys in ("", "wrong", token[:-1], home.submit_token()):
        assert home.find_user(nobodys) is None
    file.chmod(0o644)
    assert home.find_user(token) is None
    file.chmod(0o600)
    (home.user_tokens / "notes").write_text("not a token's file")
    assert home.find_user(token) == User(1000, 100)
    file.unlink()
    assert home.find_user(token) is None


def test_a_token_file_that_others_may_read_is_refused(home: Home) -> None:
    for mode in (0o640, 0o604, 0o620):
        home.submit_token_file.chmod(mode)
        with pytest.raises(Denied, match="chmod 600"):
            home.submit_token()


def test_a_token_file_that_is_a_link_or_empty_or_missing_is_refused(home: Home) -> None:
    home.submit_token_file.rename(home.path / "elsewhere")
    home.submit_token_file.symlink_to(home.path / "elsewhere")
    with pytest.raises(Denied, match=r"submit.token"):
        home.submit_token()
    home.submit_token_file.unlink()
    with pytest.raises(Unavailable, match=r"submit.token"):
        home.submit_token()
    home.submit_token_file.touch(mode=0o600)
    with pytest.raises(Denied, match="empty"):
        home.submit_token()


@pytest.mark.parametrize("make", [Path.mkdir, os.mkfifo])
def test_what_is_no_plain_file_is_no_token(home: Home, make: Callable[[Path], None]) -> None:
    home.submit_token_file.unlink()
    for file in (home.submit_token_file, home.metrics_token_file, home.notify_secret_file):
        make(file)
        file.chmod(0o700)
    for read in (home.submit_token, home.notify_secret):
        with pytest.raises(Denied, match="plain file"):
            read()
    assert home.find_metrics_token() is None


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("hidden-pl\u00e4ce-of-mine\n", "ASCII"),
        ("hidden-place\nand another line\n", "ASCII"),
        ("hidden-place\0and more\n", "ASCII"),
        ("hidden" + "x" * LARGEST_TOKEN_BYTES, "1030 bytes.* 1024"),
    ],
)
def test_a_token_that_would_be_mangled_is_refused_and_not_shown(home: Home, content: str, why: str) -> None:
    for file, read in ((home.submit_token_file, home.submit_token), (home.notify_secret_file, home.notify_secret)):
        file.write_text(content)
        file.chmod(0o600)
        with pytest.raises(Denied, match=f"{file} .*{why}") as raised:
            read()
        assert "hidden" not in str(raised.value)


def test_a_secret_of_the_operators_own_is_taken_as_it_is_unless_it_is_short(home: Home) -> None:
    own = "correct horse ~!"
    assert len(own) == SHORTEST_SECRET
    assert home.notify_secret() is None
    home.notify_secret_file.write_text(f"{own}\n")
    home.notify_secret_file.chmod(0o600)
    assert home.notify_secret() == own
    home.notify_secret_file.write_text(f"{own[1:]}\n")
    with pytest.raises(Denied, match=r"notify.secret .*15.* 16") as raised:
        home.notify_secret()
    assert "horse" not in str(raised.value)


def test_a_home_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match="--home"):
        Home(tmp_path / "file").create()


def test_the_cluster_is_remembered_and_forgotten(home: Home) -> None:
    assert home.cluster() is None
    with pytest.raises(Unavailable, match="sparkpace up"):
        home.need_cluster()
    written = cluster(this_process())
    home.write_cluster(written)
    assert home.cluster() == written
    assert home.cluster_file.stat().st_mode & 0o777 == 0o600
    home.forget_cluster()
    home.forget_cluster()
    assert home.cluster() is None


def test_a_damaged_cluster_file_is_named(home: Home) -> None:
    home.cluster_file.write_text('{"cluster_id": 1}')
    with pytest.raises(BadInput, match=r"cluster\.json"):
        home.cluster()


def test_only_the_very_process_counts_as_living() -> None:
    ours = this_process()
    assert ours.is_alive()
    assert not structs.replace(ours, start_ticks=ours.start_ticks + 1).is_alive()
    assert not structs.replace(ours, boot_id="another boot").is_alive()


def test_what_is_written_lasts_through_a_loss_of_power(home: Home, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file is on the disk before it gets its name, and the name before the write counts as done."""
    done: list[tuple[str, str]] = []
    sync, rename = os.fsync, os.rename

    def fsync(descriptor: int) -> None:
        done.append(("sync", str(Path(f"/proc/self/fd/{descriptor}").readlink())))
        sync(descriptor)

    def replace(source: object, target: object) -> None:
        done.append(("rename", str(target)))
        rename(source, target)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "replace", replace)
    home.write_cluster(cluster(this_process()))
    written, renamed, named = done
    assert written[0] == "sync"
    assert Path(written[1]).parent == home.path
    assert Path(written[1]).name.startswith(".cluster.json.")
    assert renamed == ("rename", str(home.cluster_file))
    assert named == ("sync", str(home.path))


def test_each_worker_has_a_token_of_its_own_and_a_name_that_is_no_workers_has_none(home: Home) -> None:
    first, second = (home.make_agent_token(name).read_text() for name in ("w1", "w2"))
    assert first != second
    assert home.make_agent_token("w1").read_text() == first
    assert (home.find_agent_token("w1"), home.agent_token("w2")) == (first.strip(), second.strip())
    for name in ("w3", "../submit.token", "..", "", "w1\0", "x" * 5000):
        assert home.find_agent_token(name) is None
    with pytest.raises(Unavailable, match=r"agent-tokens/w3.*`sparkpace token w3`"):
        home.agent_token("w3")
    home.make_agent_token("w1").chmod(0o644)
    assert home.find_agent_token("w1") is None


@pytest.mark.parametrize("url", ["https://127.0.0.1:7070", "https://[::1]:7070", "https://gate.example:7070"])
def test_spark_gets_the_address_at_which_the_master_is_reached(url: str) -> None:
    found = msgspec.structs.replace(cluster(NO_PROCESS), url=url)
    assert found.spark_master == f"sparkpace{url.removeprefix('https')}"
