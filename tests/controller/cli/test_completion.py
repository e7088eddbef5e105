"""Completions that a shell offers for commands, options, ids, profiles and workers, and silence where they cannot be had."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

from controller.cli.main import main
from controller.home import Home
from controller.runs.profile_store import ProfileStore
from controller.wire.command import WorkerView
from controller.wire.states import ApplicationState
from stage_model.history.profile import profile
from stage_model.laws import LAWS
from tests.fakes.commands import served_home, write_cluster
from tests.fakes.master import Server
from tests.fakes.records import run, stage
from tests.fakes.views import view

COMMAND = Path(sys.executable).parent / "sparkpace"
WORKER = WorkerView(
    worker_id="w1", host="127.0.0.1", cores=1.7, memory_mb=1024, runtime="docker", pid=1, boot_id="b", seen_s_ago=0.4
)
VIEW = view(application_id="pace-20261121-a", name="sort")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Home, Server]]:
    with served_home(tmp_path / "home", monkeypatch) as (home, master):
        master.view, master.workers = VIEW, (WORKER,)
        yield home, master


def offered(*words: str) -> list[str]:
    """Return the completions of the last word."""
    shell = ShellComplete(main, {}, "sparkpace", "_SPARKPACE_COMPLETE")
    return [str(item.value) for item in shell.get_completions(list(words[:-1]), words[-1])]


@pytest.mark.parametrize("command", ["kill", "set", "explain"])
def test_ids_of_what_has_not_ended(home: tuple[Home, Server], command: str) -> None:
    assert offered(command, "") == ["pace-20261121-a"]
    assert offered(command, "pace-2026") == ["pace-20261121-a"]
    assert offered(command, "x") == []
    home[1].view = msgspec.structs.replace(VIEW, state=ApplicationState.ENDED)
    assert offered(command, "") == []


def test_workers(home: tuple[Home, Server]) -> None:
    assert offered("label", "") == ["w1"]
    assert offered("label", "v") == []


@pytest.mark.parametrize("command", ["report", "plot", "logs"])
def test_runs_of_which_a_record_is_kept(home: tuple[Home, Server], command: str) -> None:
    assert offered(command, "") == []
    for name in ("pace-2", "pace-1"):
        (home[0].runs / name).mkdir()
    assert offered(command, "") == ["last", "pace-1", "pace-2"]
    assert offered(command, "pace-2") == ["pace-2"]


@pytest.mark.parametrize(
    "words", [*(["profile", name] for name in ("show", "curve", "drift", "forget")), ["plan", "--profile"]], ids=" ".join
)
def test_profiles(home: tuple[Home, Server], words: list[str]) -> None:
    assert offered(*words, "") == []
    ProfileStore(home[0].profiles).add(profile("small@app.py", (run("r1", 1, stage("a")),)))
    assert offered(*words, "") == ["small@app.py"]
    assert offered(*words, "x") == []


def test_words_of_submit(home: tuple[Home, Server]) -> None:
    ProfileStore(home[0].profiles).add(profile("small@app.py", (run("r1", 1, stage("a")),)))
    assert {"--deadline", "--conf", "--py-files"} <= set(offered("submit", "--"))
    assert not {"--remote", "--submission"} & set(offered("submit", "--"))
    assert offered("submit", "--deploy-mode", "cl") == ["client", "cluster"]
    assert offered("submit", "--deadline", "90s", "--dea") == []
    assert offered("submit", "--mount", ".", "--mou") == ["--mount"]
    assert offered("submit", "--law", "") == list(LAWS)
    assert offered("submit", "--exec", "--priority", "h") == ["high"]
    assert offered("submit", "--after", "pace") == ["pace-20261121-a"]
    assert offered("submit", "--profile", "s") == ["small@app.py"]
    assert offered("submit", "--deadline", "9") == []
    assert offered("submit", "--home", "/no/such/home", "--profile", "s") == ["s"], "a file"
    assert offered("submit", "--profile", "./s") == ["./s"], "a file"


@pytest.mark.parametrize("words", [["a"], ["--law", "paper", ""], ["app.py", "--l"], ["app.py", "--law", ""], ["--jars", ""]])
def test_files_of_submit(words: list[str]) -> None:
    shell = ShellComplete(main, {}, "sparkpace", "_SPARKPACE_COMPLETE")
    [item] = shell.get_completions(["submit", *words[:-1]], words[-1])
    assert (item.type, item.value) == ("file", words[-1])


def test_nothing_is_offered_or_said_without_a_master(
    home: tuple[Home, Server], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    write_cluster(home[0])
    assert offered("kill", "") == []
    home[0].cluster_file.write_text("{")
    assert offered("kill", "") == []
    home[0].submit_token_file.chmod(0o644)
    assert offered("label", "") == []
    monkeypatch.setenv("SPARKPACE_HOME", "/no/such/home")
    assert offered("kill", "") == offered("label", "") == offered("report", "") == offered("profile", "show", "") == []
    assert capsys.readouterr() == ("", "")


def test_a_master_that_says_nothing_is_not_waited_for(home: tuple[Home, Server], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("controller.cli.completion.TIMEOUT_S", 0.05)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        write_cluster(home[0], url=f"https://127.0.0.1:{silent.getsockname()[1]}")
        assert offered("kill", "") == []


@pytest.mark.skipif(shutil.which("bash") is None or not COMMAND.is_file(), reason="needs bash and the installed command")
@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("sparkpace pro", "profile"),
        ("sparkpace up --keep", "--keep-runs"),
        ("sparkpace submit --pri", "--principal --priority"),
        ("sparkpace submit --executor-m", "--executor-memory"),
        ("sparkpace submit --conf spark.a = b --law f", "forecast"),
        ("sparkpace submit --detach --law = p", "paper"),
        ("sparkpace profile lea", "learn"),
    ],
)
def test_bash_completes_commands_options_and_values(typed: str, offered: str) -> None:
    script = (
        f'PATH="{COMMAND.parent}:$PATH"; eval "$(sparkpace completion bash)"; COMP_WORDS=({typed}); '
        'COMP_CWORD=$((${#COMP_WORDS[@]} - 1)); _sparkpace_completion sparkpace; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=120)
    assert done.stdout.split() == offered.split(), done.stderr


def test_another_shell_is_refused() -> None:
    assert CliRunner().invoke(main, ["completion", "tcsh"]).exit_code == 2
