"""A web hook's URL by a file: it is in no list of processes, and in no sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.cli.checks import absolute_notify, parse_notify
from stage_model.errors import BadInput


def test_a_file_holds_the_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hook").write_text("https://hooks.example/T0/secret\n")
    found = parse_notify(f"@{tmp_path}/hook")
    assert (found.host, found.path) == ("hooks.example", "/T0/secret")
    assert parse_notify("https://hooks.example/T0/secret") == found
    monkeypatch.chdir(tmp_path)
    assert absolute_notify("@hook") == f"@{tmp_path}/hook"
    assert absolute_notify("https://hooks.example/") == "https://hooks.example/"


@pytest.mark.parametrize(
    "url", ["ftp://h/secret", "http://h.example/secret", "https://h/secret#x", "https://h/sec ret", "", "\u00fc"]
)
def test_a_url_that_is_refused_is_not_shown(tmp_path: Path, url: str) -> None:
    (tmp_path / "hook").write_text(url)
    with pytest.raises(BadInput, match="accepted: https://HOST") as raised:
        parse_notify(f"@{tmp_path}/hook")
    assert "sec" not in str(raised.value)


def test_a_file_that_others_may_change_is_refused(tmp_path: Path) -> None:
    (tmp_path / "hook").write_text("https://hooks.example/")
    (tmp_path / "hook").chmod(0o666)
    with pytest.raises(BadInput, match=r"hook may be changed by others"):
        parse_notify(f"@{tmp_path}/hook")
