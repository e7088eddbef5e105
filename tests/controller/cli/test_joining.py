"""`sparkpace join-token`, `join`, `renew` and `token --revoke`: what they take, print and refuse."""

from __future__ import annotations

import tomllib
from pathlib import Path

import msgspec
import pytest

from controller.asks.join_token import parse_join_token
from controller.cli.config import checked_table, table_text
from controller.cli.services import agent
from controller.home import HASHED, Home, read_token
from controller.machine.tls import certificate_in, fingerprint
from controller.master.access.tokens import digest
from tests.fakes.commands import assert_refused, run, table
from tests.fakes.tls import make_ca

URL = "https://10.0.0.5:7070"
TOKEN = f"0a1b2c3d.{'s' * 43}.{'f' * 64}"


@pytest.fixture
def home(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Provide a master's home."""
    make_ca(home)
    monkeypatch.setenv("SPARKPACE_HOME", str(home.path))
    return home


def test_only_the_token_is_on_stdout_and_is_listed_without_its_secret_until_it_is_revoked(home: Home) -> None:
    made = run("join-token", "--valid", "1h", "--uses", "3")
    assert made.exit_code == 0, made.output
    token = parse_join_token(made.stdout)
    assert token.fingerprint == fingerprint(certificate_in(home.ca_file))
    assert "sparkpace join https://ADDRESS:PORT" in made.stderr
    assert token.secret not in made.stderr
    shown = run("join-token", "--list")
    assert token.token_id in shown.stdout
    assert "0 of 3" in shown.stdout
    [row] = msgspec.json.decode(run("join-token", "--list", "--output", "json").stdout)
    assert (row["id"], row["uses"], row["joined"]) == (token.token_id, 3, [])
    assert 3000 < row["left_s"] <= 3600
    for text in (shown.stdout, str(row)):
        assert token.secret not in text
    assert run("join-token", "--revoke", token.token_id).exit_code == 0
    assert token.token_id not in run("join-token", "--list").stdout
    assert_refused(run("join-token", "--revoke", token.token_id), 2, token.token_id)


WRONG = table("""
    join-token --valid 0s | --valid "'0s'"
    join-token --valid 8d | --valid "'8d'" 7d
    join-token --valid soon | --valid "'soon'"
    join-token --uses 0 | --uses "'0'"
    token w1 --revoke | agent-tokens/w1
    token --metrics --revoke | metrics.token
    token --revoke | WORKER_ID
    token --user 1000:1000 --revoke | user-tokens/1000-1000
    join http://10.0.0.5:7070 TOKEN | http://10.0.0.5:7070
    join https://10.0.0.5:7070 abc.def | "join token" "sparkpace join-token"
    join https://10.0.0.5:7070 @none | none
    join https://10.0.0.5:7070 TOKEN --cores 0 | --cores
    join https://10.0.0.5:7070 TOKEN --cores 5000 | --cores
    join https://10.0.0.5:7070 TOKEN --worker-id A | --worker-id
    join https://10.0.0.5:7070 TOKEN --runtime kubernetes | --runtime
    join https://10.0.0.5:7070 TOKEN --allow-mount /no/such | --allow-mount /no/such
    join https://10.0.0.5:7070 TOKEN --runtime process --cores 0.5 --memory 512m | "of its own" --home
""")


@pytest.mark.parametrize(("words", "named"), WRONG)
def test_what_is_refused(home: Home, words: list[str], named: list[str]) -> None:
    done = run(*(TOKEN if word == "TOKEN" else word for word in words))
    assert done.exit_code in (2, 69), done.output
    assert_refused(done, done.exit_code, *named)
    assert "s" * 43 not in done.output


def test_only_a_masters_home_makes_tokens(tmp_path: Path) -> None:
    assert_refused(run("join-token", "--home", str(tmp_path / "none")), 69, "admin.token")
    made = Home(tmp_path / "new")
    made.create()
    assert_refused(run("join-token", "--home", str(made.path)), 69, "ca.pem", "sparkpace up")


def test_a_revoked_worker_no_longer_has_a_token(home: Home) -> None:
    assert run("token", "w1").exit_code == 0
    done = run("token", "w1", "--revoke")
    assert done.exit_code == 0, done.output
    assert home.find_agent_token("w1") is None


def test_a_masters_own_workers_are_renewed_by_themselves_and_others_are_left(home: Home) -> None:
    first, by_hand = read_token(home.make_agent_token("w1")), read_token(home.make_agent_token("pods"))
    home.write_agent_token("m2", HASHED + digest("of m2"))
    for worker_id in ("w1", "m2"):
        home.agent(worker_id).mkdir(parents=True)
    done = run("renew")
    assert done.exit_code == 0, done.output
    assert "w1" in done.stdout
    assert home.find_agent_token("w1") not in (None, first)
    assert home.find_agent_token("m2") == HASHED + digest("of m2")
    assert home.find_agent_token("pods") == by_hand, "a token that was copied to another machine stays"


def test_the_masters_home_starts_no_agent_of_a_worker_that_has_joined(home: Home) -> None:
    home.write_agent_token("m2", HASHED + digest("of m2"))
    words = ("agent", "--worker-id", "m2", "--cores", "1", "--memory", "512m", "--runtime", "process", "--master", URL)
    assert_refused(run(*words), 2, "m2", "joined", "--worker-id", "--revoke")


def test_a_home_that_has_joined_gets_no_cluster_of_its_own(home: Home, tmp_path: Path) -> None:
    joined = Home(tmp_path / "joined")
    joined.create_folders()
    joined.ca_file.write_bytes(home.ca_file.read_bytes())
    assert_refused(run("up", "--home", str(joined.path)), 2, joined.path, "`sparkpace agent`", "--home")
    assert joined.ca_file.read_bytes() == home.ca_file.read_bytes()
    assert not joined.admin_token_file.exists()


def test_a_home_without_a_worker_has_nothing_to_renew(tmp_path: Path) -> None:
    assert_refused(run("renew", "--home", str(tmp_path / "none")), 69, "sparkpace join")


def test_the_table_of_a_worker_that_has_joined_is_read_back(tmp_path: Path) -> None:
    (tmp_path / "a b").mkdir()
    values = {
        "worker-id": "m2", "cores": 1.5, "memory": "512m", "runtime": "adopt", "master": URL, "image": None, "labels": "",
        "allow-mount": (tmp_path / "a b", tmp_path), "shared": True, "signals": False, "resources": 'gpu="\\ ä\x7f',
    }  # fmt: skip
    read = tomllib.loads(table_text("agent", values))
    said = {name: value for name, value in values.items() if value not in (None, "", False)}
    assert read == {"agent": {**said, "allow-mount": [str(tmp_path / "a b"), str(tmp_path)]}}
    assert checked_table(agent, {**read["agent"], "resources": "gpu=1"}, tmp_path / "sparkpace.toml")[1] == []
