"""`sparkpace install-service`: the units of a home are shown, written and removed, and those of another home are left."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli.config import table_text
from controller.home import AgentProcess, Home
from controller.machine.files import write_whole
from controller.machine.process import Process
from tests.fakes.commands import assert_refused, run, write_cluster

GONE = Process(2**22, 1, "none")


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Provide the folder of this user's units, which is not there yet."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path / "config" / "systemd" / "user"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    made = Home(tmp_path / "home")
    made.create()
    monkeypatch.setenv("SPARKPACE_HOME", str(made.path))
    return made


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
    (units / "sparkpace-agent-w1.service").write_text("[Unit]\n")
    assert_refused(run("install-service", "--user"), 2, units / "sparkpace-agent-w1.service", home.path)
    assert [file.name for file in units.iterdir()] == ["sparkpace-agent-w1.service"]
    assert run("install-service", "--user", "--uninstall").exit_code == 0
    assert (units / "sparkpace-agent-w1.service").read_text() == "[Unit]\n"


def test_a_home_without_services_is_refused(home: Home, units: Path) -> None:
    assert_refused(run("install-service", "--user"), 69, home.path, "sparkpace up", "sparkpace join")
    assert not units.exists()


def test_a_folder_that_cannot_be_written_is_named(home: Home, units: Path) -> None:
    started(home)
    units.parents[1].write_text("no folder")
    assert_refused(run("install-service", "--user"), 69, units, "--user")
