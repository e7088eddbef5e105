"""`sparkpace install-service`: the units of a home are shown, written and removed, those of another home are left, and
systemd reads their words as they were given."""

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

from controller.cli.config import table_text
from controller.cli.install_service import Service, quoted, systemd_version, unit_text
from controller.home import AgentProcess, Home
from controller.machine.files import write_whole
from controller.machine.process import Process
from tests.fakes.commands import assert_refused, run, write_cluster

GONE = Process(2**22, 1, "none")
HOME = Path("/home/me/.sparkpace")
AGENT = Service(HOME, (sys.executable, "-c", "pass", "a b"), {"PATH": "/usr/bin:/bin", "LANG": ""}, "m2")
MASTER = Service(HOME, (sys.executable, "-c", "pass"), {})


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the folder of this user's units, which is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "systemd" / "user"


@pytest.fixture
def home(home: Home, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setenv("SPARKPACE_HOME", str(home.path))
    return home


def started(home: Home) -> None:
    agents = (AgentProcess(worker_id="w1", process=GONE, words=("agent", "--worker-id", "w1", "--cores", "2")),)
    write_cluster(home, master_words=("master", "--port", "7171"), agents=agents)


def test_the_services_of_up_are_shown_with_the_words_that_they_were_started_with(home: Home, units: Path) -> None:
    started(home)
    done = run("install-service", "--user", "--print")
    assert done.exit_code == 0, done.output
    assert f"controller.cli.main master --port 7171 --home {home.path}\n" in done.stdout
    assert f"controller.cli.main agent --worker-id w1 --cores 2 --home {home.path}\n" in done.stdout
    assert "Environment=SPARKPACE_CONFIG=\n" in done.stdout
    assert not units.exists()


def test_they_are_written_and_removed(home: Home, units: Path) -> None:
    started(home)
    done = run("install-service", "--user")
    assert done.exit_code == 0, done.output
    files = sorted(units.iterdir())
    assert [file.name for file in files] == ["sparkpace-agent-w1.service", "sparkpace-master.service"]
    assert {file.stat().st_mode & 0o777 for file in files} == {0o644}
    assert "systemctl --user enable --now sparkpace-master.service sparkpace-agent-w1.service" in done.stdout
    assert "enable-linger" in done.stdout
    assert "The master runs as process" in done.stdout  # the test itself
    written = files[0].read_text()
    assert run("install-service", "--user").exit_code == 0
    assert files[0].read_text() == written
    home.forget_cluster()
    done = run("install-service", "--user", "--uninstall")
    assert done.exit_code == 0, done.output
    assert list(units.iterdir()) == []
    assert "No units" in run("install-service", "--user", "--uninstall").stdout


def test_a_worker_that_has_joined_is_started_by_its_configuration(home: Home, units: Path) -> None:
    write_whole(home.config_file, table_text("agent", {"worker-id": "m2", "master": "https://10.0.0.5:7070"}).encode())
    done = run("install-service", "--user")
    assert done.exit_code == 0, done.output
    text = (units / "sparkpace-agent-m2.service").read_text()
    assert f"controller.cli.main agent --home {home.path}\n" in text
    assert "SPARKPACE_CONFIG" not in text


def test_a_unit_of_another_home_is_left(home: Home, units: Path) -> None:
    started(home)
    units.mkdir(parents=True)
    other = unit_text(Service(home.path / "other", ("true",), {}, "w1"), None)
    (units / "sparkpace-agent-w1.service").write_text(other)
    assert_refused(run("install-service", "--user"), 2, units / "sparkpace-agent-w1.service", home.path)
    assert [file.name for file in units.iterdir()] == ["sparkpace-agent-w1.service"]
    assert run("install-service", "--user", "--uninstall").exit_code == 0
    assert (units / "sparkpace-agent-w1.service").read_text() == other


def test_a_home_without_services_is_refused(home: Home, units: Path) -> None:
    assert_refused(run("install-service", "--user"), 69, home.path, "sparkpace up", "sparkpace join")
    assert not units.exists()


def test_a_folder_that_cannot_be_written_is_named(home: Home, units: Path) -> None:
    started(home)
    units.parents[1].write_text("no folder")
    assert_refused(run("install-service", "--user"), 69, units, "--user")


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


@pytest.mark.parametrize(
    ("says", "delegated"), [("systemd 252 (252.38-1~deb12u1)", False), ("systemd 257 (257.9-1~deb13u1)", True), ("", True)]
)
def test_a_systemd_that_could_not_start_the_agent_again_keeps_its_unit_undivided(
    says: str, delegated: bool, home: Home, units: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started(home)
    (tmp_path / "bin").mkdir()
    if says:
        (tmp_path / "bin/systemctl").write_text(f"#!/bin/sh\necho '{says}'\necho +PAM\n")
        (tmp_path / "bin/systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert systemd_version() == (int(says.split()[1]) if says else None)
    done = run("install-service", "--user")
    assert done.exit_code == 0, done.output
    said = settings((units / "sparkpace-agent-w1.service").read_text())
    assert {"Delegate", "DelegateSubgroup"} & said.keys() == ({"Delegate", "DelegateSubgroup"} if delegated else set())
    assert (said["KillMode"], said["OOMPolicy"]) == (["process"], ["continue"])


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
