"""Units of systemd: their words are read back as they were given, and systemd takes them."""

from __future__ import annotations

import re
import shlex
import shutil
import string
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.local.units import Service, is_of, quoted, unit_text

HOME = Path("/home/me/.sparkpace")
AGENT = Service(HOME, (sys.executable, "-c", "pass", "a b"), {"PATH": "/usr/bin:/bin", "LANG": ""}, "m2")
MASTER = Service(HOME, (sys.executable, "-c", "pass"), {})


def settings(text: str) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        if "=" in line and not line.startswith("#"):
            name, _, value = line.partition("=")
            found.setdefault(name, []).append(value)
    return found


@given(st.lists(st.text(string.printable.strip() + " äß$%\"'\\", min_size=1), min_size=1))
def test_words_are_read_back_as_they_were_given(words: list[str]) -> None:
    line = " ".join(map(quoted, words))
    assert "\n" not in line
    # within double quotes a shell reads \\ and \" as systemd does
    assert [word.replace("%%", "%").replace("$$", "$") for word in shlex.split(line)] == words


@given(st.text(st.characters(categories=["Cc", "Zl", "Zp"]), min_size=1, max_size=5))
def test_no_word_ends_its_line(word: str) -> None:
    assert re.fullmatch(r'"(\\x[0-9a-f]{2})+"', quoted(word))


def test_an_agents_unit_of_the_system() -> None:
    said = settings(unit_text(AGENT, "me"))
    assert said["Type"] == ["notify"]
    assert said["User"] == ["me"]
    assert said["ExecStart"] == [f'{sys.executable} -c pass "a b"']
    assert said["Environment"] == ["PATH=/usr/bin:/bin", "LANG="]
    assert (said["Delegate"], said["KillMode"], said["Restart"]) == (["yes"], ["process"], ["on-failure"])
    assert (said["WatchdogSec"], said["StartLimitIntervalSec"]) == (["60"], ["0"])
    assert (said["LimitNOFILE"], said["TasksMax"], said["OOMPolicy"]) == (["524288"], ["infinity"], ["continue"])
    assert said["WantedBy"] == ["multi-user.target"]
    assert "sparkpace-master.service" in said["After"][0]


def test_a_unit_of_ones_own_manager_names_no_user_and_no_unit_of_the_system() -> None:
    said = settings(unit_text(AGENT, None))
    assert not {"User", "After", "Wants"} & said.keys()
    assert said["WantedBy"] == ["default.target"]


def test_a_masters_unit_holds_no_executors() -> None:
    assert not {"Delegate", "TasksMax"} & settings(unit_text(MASTER, "me")).keys()
    assert (MASTER.unit, AGENT.unit) == ("sparkpace-master.service", "sparkpace-agent-m2.service")


def test_a_unit_is_known_by_its_home() -> None:
    text = unit_text(AGENT, None)
    assert is_of(text, HOME)
    assert not is_of(text, HOME.parent)
    assert not is_of("[Unit]\n", HOME)


@pytest.mark.parametrize("user", ["root", None])
def test_systemd_takes_them(tmp_path: Path, user: str | None) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("there is no systemd-analyze here")
    for service in (MASTER, AGENT):
        (tmp_path / service.unit).write_text(unit_text(service, user))
        scope = () if user else ("--user",)
        words = ("systemd-analyze", *scope, "verify", "--man=no", "--recursive-errors=no", str(tmp_path / service.unit))
        done = subprocess.run(words, capture_output=True, text=True, check=False, env={"XDG_RUNTIME_DIR": str(tmp_path)})
        # DelegateSubgroup is known from systemd 254 on, and is no error before
        wrong = [line for line in done.stderr.splitlines() if service.unit in line and "DelegateSubgroup" not in line]
        assert wrong == []
