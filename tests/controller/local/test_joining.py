"""Joining a real master's API: the worker's identity, what either side keeps, and that a failure leaves nothing."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.asks.join_token import JoinToken
from controller.cli.config import table_text
from controller.client import MasterClient, admin_client
from controller.home import HASHED, Home, read_token
from controller.local.cluster import look
from controller.local.ending import Stopped, _end_or_name_others
from controller.local.joining import Joining, join_cluster, renew_identity
from controller.machine.tls import certificate_in, fingerprint
from controller.machine.waiting import wait_until
from controller.master.access.join_tokens import JoinTokens
from controller.master.access.tokens import digest
from controller.start import ours
from controller.wire.joining import JoinRequest, NewIdentity
from experiments.harness.live_cluster import free_port
from stage_model.errors import BadInput, Denied, Unavailable
from tests.fakes.options import agent_options
from tests.fakes.refusals import assert_names, refused
from tests.fakes.served import ServedMaster, threaded
from tests.fakes.tls import make_ca, squatting

PATIENCE_S = 120.0


@pytest.fixture
def master(tmp_path: Path) -> Iterator[ServedMaster]:
    made = ServedMaster(tmp_path / "master")
    with threaded(made.server, made.listening):
        yield made
    made.cluster.state.close()


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    """Provide the home of a worker, which is not there yet; end the agent that a test has started in it."""
    made = Home(tmp_path / "worker")
    yield made
    if look(made, None).names():
        ended = command("down", home=made)
        assert ended.returncode == 0, ended.stderr


def make_token(master: ServedMaster, uses: int = 1, until_s: float = 60.0) -> JoinToken:
    known = fingerprint(certificate_in(master.home.ca_file))
    return JoinTokens(master.home.join_tokens).make(known, time.time() + until_s, uses, time.time())


def wanted(master: ServedMaster, home: Home, token: JoinToken, worker_id: str = "m2", url: str | None = None) -> Joining:
    options = agent_options(home.path, worker_id=worker_id, master_url=url or master.url)
    return Joining(home, options, token, (), table_text("agent", {"worker-id": worker_id, "master": options.master_url}))


def content(*homes: Home) -> bytes:
    return b"\n".join(file.read_bytes() for home in homes for file in home.path.rglob("*") if file.is_file())


def test_a_worker_that_has_joined_has_an_identity_that_only_it_knows(master: ServedMaster, home: Home) -> None:
    token = make_token(master)
    assert join_cluster(wanted(master, home, token), start=False) == []
    secret = home.agent_token("m2")
    assert MasterClient(master.url, home.ca_file, secret).reported("m2") is False
    assert master.home.find_agent_token("m2") == HASHED + digest(secret)
    assert secret.encode() not in content(master.home)
    assert token.secret.encode() not in content(master.home, home)
    assert certificate_in(home.ca_file) == certificate_in(master.home.ca_file)
    assert home.config_file.read_text() == f'[agent]\nworker-id = "m2"\nmaster = "{master.url}"\n'
    assert not home.admin_token_file.exists()
    for file in (home.config_file, home.ca_file, home.agent_tokens / "m2"):
        assert file.stat().st_mode & 0o777 == 0o600
    with refused(BadInput, home.path, "sparkpace.toml", "sparkpace renew"):
        join_cluster(wanted(master, home, make_token(master)), start=False)


def test_each_worker_has_an_identity_of_its_own(master: ServedMaster, tmp_path: Path) -> None:
    token, homes = make_token(master, uses=2), [Home(tmp_path / name) for name in ("m2", "m3")]
    for one in homes:
        assert join_cluster(wanted(master, one, token, one.path.name), start=False) == []
    with pytest.raises(Denied):
        MasterClient(master.url, homes[0].ca_file, homes[0].agent_token("m2")).reported("m3")
    (master.home.agent_tokens / "m2").unlink()
    with pytest.raises(Denied):
        MasterClient(master.url, homes[0].ca_file, homes[0].agent_token("m2")).reported("m2")
    MasterClient(master.url, homes[1].ca_file, homes[1].agent_token("m3")).reported("m3")


def assert_nothing_left(master: ServedMaster, home: Home) -> None:
    assert not home.path.exists()
    assert not (master.home.agent_tokens / "m2").exists()


def test_who_is_not_the_tokens_master_sees_no_secret(master: ServedMaster, home: Home, tmp_path: Path) -> None:
    other = Home(tmp_path / "other")
    other.create()
    make_ca(other)
    with refused(Denied, master.url, "fingerprint"):
        join_cluster(wanted(master, home, make_token(master)._replace(fingerprint="0" * 64)), start=False)
    assert master.calls == ["/v1/ca"]
    token = make_token(master)
    with squatting(other.master_certificate) as squatter, pytest.raises(Unavailable):
        join_cluster(wanted(master, home, token, url=squatter.url), start=False)
    assert b"/v1/ca" in squatter.secret
    assert token.secret.encode() not in squatter.secret
    assert_nothing_left(master, home)


def test_a_token_that_is_not_good_is_refused_in_one_sentence(master: ServedMaster, home: Home, tmp_path: Path) -> None:
    used, revoked = make_token(master), make_token(master)
    assert join_cluster(wanted(master, Home(tmp_path / "m1"), used, "m1"), start=False) == []
    JoinTokens(master.home.join_tokens).revoke(revoked.token_id)
    for token, said in ((make_token(master, until_s=-60.0), "expired"), (used, "m1 joined"), (revoked, "revoked")):
        with refused(Denied, said, "sparkpace join-token"):
            join_cluster(wanted(master, home, token), start=False)
        assert_nothing_left(master, home)


@pytest.mark.parametrize("off_s", [-86400.0, 86400.0])
def test_a_clock_that_is_a_day_off_is_named_before_any_certificate(master: ServedMaster, home: Home, off_s: float) -> None:
    token = make_token(master)
    master.wall_off_s = off_s
    with refused(Unavailable, "clock of this machine", "behind" if off_s > 0 else "ahead of"):
        join_cluster(wanted(master, home, token), start=False)
    assert_nothing_left(master, home)


@pytest.mark.parametrize(
    ("url", "named"),
    [
        ("https://no.such.name.invalid:7070", "'no.such.name.invalid' does not resolve"),
        ("https://127.0.0.1:1", "sparkpace up --host ADDRESS"),
    ],
)
def test_a_master_that_is_not_reached(master: ServedMaster, home: Home, url: str, named: str) -> None:
    with refused(Unavailable, named):
        join_cluster(wanted(master, home, make_token(master), url=url), start=False)
    assert_nothing_left(master, home)


def test_a_name_that_the_masters_certificate_lacks_is_not_another_master(master: ServedMaster, home: Home) -> None:
    url = master.url.replace("127.0.0.1", "127.1")  # a resolver takes it for the same address
    with refused(Unavailable, "127.1", "`--name 127.1`"):
        join_cluster(wanted(master, home, make_token(master), url=url), start=False)
    assert_nothing_left(master, home)


def test_a_name_that_is_taken_is_a_fault_and_its_identity_stays(master: ServedMaster, home: Home) -> None:
    own = master.home.make_agent_token("m2").read_text()
    [fault] = join_cluster(wanted(master, home, make_token(master)), start=False)
    assert_names(fault, "worker m2", "--worker-id")
    assert not home.path.exists()
    assert (master.home.agent_tokens / "m2").read_text() == own


def test_a_name_that_is_taken_meanwhile_is_refused_and_stays(master: ServedMaster, home: Home) -> None:
    client = MasterClient(master.url, master.home.ca_file, make_token(master).bearer)
    own = master.home.make_agent_token("m2").read_text()
    with pytest.raises(BadInput, match="m2"):
        client.join(JoinRequest(worker_id="m2", digest="0" * 64))
    with pytest.raises(BadInput, match="not usable"):
        client.join(JoinRequest(worker_id="../m2", digest="0" * 64))
    assert (master.home.agent_tokens / "m2").read_text() == own


def test_a_home_that_cannot_be_written_leaves_no_identity(master: ServedMaster, home: Home) -> None:
    home.path.mkdir(mode=0o700)
    home.agent_tokens.write_text("no folder")
    with refused(Unavailable, home.path):
        join_cluster(wanted(master, home, make_token(master)), start=False)
    assert not (master.home.agent_tokens / "m2").exists()
    assert not home.config_file.exists()
    assert not home.ca_file.exists()


def test_an_agent_that_ends_at_once_leaves_no_identity(master: ServedMaster, home: Home) -> None:
    with refused(Unavailable, "agent-m2 ended", "no-such-option"):
        wish = wanted(master, home, make_token(master))
        join_cluster(Joining(home, wish.options, wish.token, ("agent", "--no-such-option"), wish.table), start=True)
    assert_nothing_left(master, home)


def test_a_home_of_a_master_is_no_workers(master: ServedMaster) -> None:
    with refused(BadInput, master.home.path, "--home"):
        join_cluster(wanted(master, master.home, make_token(master)), start=False)


def test_a_renewal_that_was_cut_short_is_ended_by_the_next_one(master: ServedMaster, home: Home) -> None:
    assert join_cluster(wanted(master, home, make_token(master)), start=False) == []
    first = home.agent_token("m2")
    renew_identity(home, master.url, "m2")
    second = home.agent_token("m2")
    assert second != first
    with pytest.raises(Denied):
        MasterClient(master.url, home.ca_file, first).reported("m2")
    # the master has the next token, and this side has died before it took it
    following = home.agent_tokens / ".m2.next"
    following.write_text("the-third-one\n")
    following.chmod(0o600)
    MasterClient(master.url, home.ca_file, second).renew("m2", NewIdentity(digest=digest("the-third-one")))
    renew_identity(home, master.url, "m2")
    assert home.agent_token("m2") == "the-third-one"
    assert MasterClient(master.url, home.ca_file, "the-third-one").reported("m2") is False


def test_a_worker_of_the_masters_home_is_not_renewed_from_outside(master: ServedMaster) -> None:
    token = read_token(master.home.make_agent_token("w1"))
    with pytest.raises(BadInput, match="w1"):
        MasterClient(master.url, master.home.ca_file, token).renew("w1", NewIdentity())


def command(*words: str, home: Home, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Run `sparkpace` as a process of its own: what it leaves behind is not this process's."""
    words = ours("controller.cli.main", *words, "--home", str(home.path))
    return subprocess.run(words, input=stdin, capture_output=True, text=True, check=False, cwd="/")


@contextmanager
def serving(there: Home, log: Path, port: int) -> Iterator[str]:
    """Run a master in a process of its own; yield its URL."""
    with log.open("wb") as out:
        words = ours("controller.cli.main", "master", "--home", str(there.path), "--port", str(port))
        process = subprocess.Popen(words, stdout=out, stderr=out)
    try:
        assert wait_until(lambda: there.ca_file.exists() and "Started" in log.read_text(), PATIENCE_S), log.read_text()
        yield f"https://127.0.0.1:{port}"
    finally:
        process.terminate()
        try:
            process.wait(PATIENCE_S)
        finally:
            process.kill()
    assert process.returncode == -signal.SIGTERM


def joined(url: str, there: Home, home: Home) -> str:
    """Let a worker join by the commands, and its agent start; return the token that it joined with."""
    made = command("join-token", home=there)
    assert made.returncode == 0, made.stderr
    options = ("--worker-id", "m2", "--cores", "0.5", "--memory", "512m", "--runtime", "process", "--host", "127.0.0.1")
    done = command("join", url, "-", *options, home=home, stdin=made.stdout)
    assert done.returncode == 0, done.stderr
    assert made.stdout.strip() not in done.stdout + done.stderr
    assert [worker.worker_id for worker in admin_client(there, url).workers()] == ["m2"]
    return made.stdout.strip()


def test_a_machine_joins_by_one_command_and_its_token_is_renewed_and_revoked_as_it_serves(tmp_path: Path, home: Home) -> None:
    there, log, agent_log = Home(tmp_path / "master"), tmp_path / "log", home.logs / "agent-m2.log"
    with serving(there, log, free_port()) as url:
        token, client = joined(url, there, home), admin_client(there, url)
        checked = command("config", "check", home=home)
        assert (checked.returncode, checked.stdout.count("\n")) == (0, 1), checked  # `agent` needs no other option
        assert command("renew", home=home).returncode == 0
        since_s = time.monotonic()

        def heard_again() -> bool:
            return client.workers()[0].seen_s_ago < time.monotonic() - since_s

        assert wait_until(heard_again, PATIENCE_S), agent_log.read_text()
        assert command("token", "m2", "--revoke", home=there).returncode == 0
        assert wait_until(lambda: "status 401" in agent_log.read_text(), PATIENCE_S), agent_log.read_text()
        assert token not in log.read_text() + agent_log.read_text()
        ended = command("down", home=home)
        assert ended.returncode == 0, ended.stderr


def test_down_names_an_agent_elsewhere_and_ends_it_with_all(tmp_path: Path, home: Home) -> None:
    there, log, port = Home(tmp_path / "master"), tmp_path / "log", free_port()
    with serving(there, log, port) as url:
        joined(url, there, home)
        left = command("down", home=there)
        assert left.returncode == 0, left.stderr
        assert "the agent of m2 on 127.0.0.1" in left.stderr
        assert "down --all" in left.stderr
        assert look(home, None).names() == ["the agent of m2"]
    with serving(there, log, port) as url:
        assert wait_until(lambda: bool(admin_client(there, url).workers()), PATIENCE_S)
        ended = command("down", "--all", home=there)
        assert ended.returncode == 0, ended.stderr
        assert "m2" not in ended.stderr
    agent_log = home.logs / "agent-m2.log"
    assert wait_until(lambda: look(home, None).names() == [], PATIENCE_S), agent_log.read_text()
    assert "the master has ended this worker" in agent_log.read_text()


def test_down_all_without_a_master_says_that_agents_elsewhere_were_not_asked(home: Home) -> None:
    stopped = Stopped()
    _end_or_name_others(home, "", stopped, everywhere=True)
    (said,) = stopped.elsewhere
    assert_names(said, "agents of other homes", "no master", "end them there")
    _end_or_name_others(home, "", stopped, everywhere=False)
    assert (len(stopped.elsewhere), stopped.notes) == (1, [])


def test_a_ca_file_that_is_damaged_is_named(master: ServedMaster, home: Home) -> None:
    home.create_folders()
    home.ca_file.write_text("no certificate")
    with refused(BadInput, home.ca_file, "remove it", "--home"):
        join_cluster(wanted(master, home, make_token(master)), start=False)
