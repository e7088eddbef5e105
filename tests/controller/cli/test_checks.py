"""Checks of what services are given: a web hook's URL by a file, which is in no list of processes and in no sentence;
addresses; the time after which a worker is lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.agent.supervisor import BACK_OFF
from controller.cli.checks import SHORTEST_LOST_S, absolute_notify, check_address, parse_lost_after, parse_notify
from controller.master.core.workers import STALE_S
from stage_model.errors import BadInput


def write_hook(folder: Path, text: str, mode: int = 0o600) -> None:
    (folder / "hook").write_text(text)
    (folder / "hook").chmod(mode)


def test_a_file_holds_the_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_hook(tmp_path, "https://hooks.example/T0/secret\n")
    found = parse_notify(f"@{tmp_path}/hook")
    assert found.url == "https://hooks.example/T0/secret"
    assert parse_notify("https://hooks.example/T0/secret") == found
    monkeypatch.chdir(tmp_path)
    assert absolute_notify("@hook") == f"@{tmp_path}/hook"
    assert absolute_notify("https://hooks.example/") == "https://hooks.example/"


@pytest.mark.parametrize(
    "url", ["ftp://h/secret", "http://h.example/secret", "https://h/secret#x", "https://h/sec ret", "", " \n", "\u00fc"]
)
def test_a_url_that_is_refused_is_not_shown(tmp_path: Path, url: str) -> None:
    write_hook(tmp_path, url)
    with pytest.raises(BadInput, match=f"--notify {tmp_path}/hook .*https://HOST") as raised:
        parse_notify(f"@{tmp_path}/hook")
    assert "sec" not in str(raised.value)


def test_an_empty_file_and_no_file_are_called_so(tmp_path: Path) -> None:
    write_hook(tmp_path, "\n")
    with pytest.raises(BadInput, match=f"--notify {tmp_path}/hook is empty"):
        parse_notify(f"@{tmp_path}/hook")
    with pytest.raises(BadInput, match=r"--notify @ .*@FILE"):
        parse_notify("@")


@pytest.mark.parametrize(("mode", "why"), [(0o620, "changed"), (0o640, "read"), (0o604, "read")])
def test_a_file_that_others_may_read_or_change_is_refused(tmp_path: Path, mode: int, why: str) -> None:
    write_hook(tmp_path, "https://hooks.example/", mode)
    with pytest.raises(BadInput, match=rf"{tmp_path}/hook .*{why}"):
        parse_notify(f"@{tmp_path}/hook")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "::1", "10.0.0.5", "gate.example"])
def test_a_master_may_listen_at_any_address(host: str) -> None:
    assert check_address(host) == host


@pytest.mark.parametrize("host", ["", " ", "two words", "-x", "https://gate.example", "::1::x:", "999.1.1.1", "1.2.3", "a:b"])
def test_what_is_no_address_is_refused(host: str) -> None:
    with pytest.raises(BadInput, match=f"'{host}'"):
        check_address(host)


def test_a_worker_is_lost_after_15_s_to_a_day() -> None:
    assert [parse_lost_after(text, option="--lost-after") for text in ("15s", "45s", "1d")] == [15.0, 45.0, 86_400.0]


@pytest.mark.parametrize("text", ["14s", "0", "-30s", "25h", "soon", ""])
def test_another_time_after_which_a_worker_is_lost_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match=f"--lost-after '{text}' .*15s to 1d"):
        parse_lost_after(text, option="--lost-after")


def test_people_learn_of_a_silence_before_the_worker_is_lost() -> None:
    assert STALE_S + BACK_OFF.first_s < SHORTEST_LOST_S
