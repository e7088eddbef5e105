"""Limits of users in `sparkpace.toml`: what the master gets of them, and that its command line wins. What is refused:
`test_config` and `test_bad_input`."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.asks.user_limits import UserLimits
from controller.cli.master_options import MASTER
from controller.cli.service_option import values_of
from controller.cli.services import agent, master
from controller.cli.up import up
from controller.cli.user_tables import checked_users, user_texts
from tests.fakes.commands import assert_refused, run

FILE = """
[users.default]
priority = "normal"
applications = 3

[users.root]
cores = 2.5
memory = "4g"
"""
LIMITS = (UserLimits("default", None, priority=50, applications=3), UserLimits("root", 0, cores=2.5, memory_mb=4096))


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPARKPACE_HOME", str(tmp_path / "home"))
    path = tmp_path / "limits.toml"
    path.write_text(FILE)
    path.chmod(0o600)
    return path


def users(file: Path, *words: str) -> object:
    with master.make_context("master", ["--config", str(file), *words]) as context:
        return values_of(MASTER, context.params)["users"]


def test_the_master_gets_the_limits_of_the_file_and_those_of_its_table(file: Path) -> None:
    assert users(file) == LIMITS
    file.write_text(f'{FILE}\n[master]\nuser-limits = ["7 applications=1"]\n')
    assert users(file) == (UserLimits("7", 7, applications=1), *LIMITS)
    assert run("config", "check", str(file)).exit_code == 0


def test_the_command_line_wins(file: Path) -> None:
    assert users(file, "--user-limits", "default cores=1") == (UserLimits("default", None, cores=1.0),)


def test_up_takes_the_limits_and_an_agent_does_not_look_at_them(file: Path) -> None:
    with up.make_context("up", ["--config", str(file)]) as context:
        assert checked_users(context.params["users"], option="--user-limits") == LIMITS
    file.write_text("[users.no-such-user]\ncores = 2\n")
    assert_refused(run("up", "--config", str(file)), 2, file, "'no-such-user'")
    words = ["--worker-id", "w1", "--cores", "1", "--memory", "1g", "--runtime", "process", "--master", "https://127.0.0.1:1"]
    with agent.make_context("agent", [*words, "--config", str(file)]) as context:
        assert "users" not in context.params


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "priority": st.integers(0, 100),
            "cores": st.floats(0.01, 4096).map(lambda cores: round(cores, 2)),
            "memory": st.integers(1, 2**30),
            "applications": st.integers(1, 1_000_000),
        },
    ).filter(bool)
)
def test_what_a_table_says_is_what_the_option_says(table: dict[str, float]) -> None:
    texts, wrong = user_texts({"users": {"root": table}})
    assert wrong == []
    [limits] = checked_users(texts, option="--user-limits")
    found = (limits.priority, limits.cores, limits.memory_mb, limits.applications)
    assert found == tuple(table.get(key) for key in ("priority", "cores", "memory", "applications"))
