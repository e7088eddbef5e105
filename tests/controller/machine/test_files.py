"""Locks that several processes of this machine share, and files that are read only if they are plain ones."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.machine.files import local_path, locked, read_plain, read_tail
from stage_model.errors import BadInput, RuntimeFailed


def test_a_lock_is_waited_for_as_long_as_was_said_and_goes_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    with locked(path, 0.0), pytest.raises(RuntimeFailed, match=f"{path} .* 0 s"):
        locked(path, 0.0).__enter__()
    with locked(path, 0.0):
        pass


def test_a_lock_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RuntimeFailed, match=f"{tmp_path}/lock"):
        locked(tmp_path / "lock", 0.0).__enter__()
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/a b", "/a b"),
        ("a%20b", "a%20b"),
        ("hdfs://h/a", "hdfs://h/a"),
        ("file:/a", "/a"),
        ("file:///a%20b", "/a b"),
        ("file://localhost/a", "/a"),
        ("file:a.py", "a.py"),
        ("file:///a?b#c", "/a?b#c"),
        ("file:", ""),
        ("file://", ""),
    ],
)
def test_a_file_url_is_the_path_that_it_names(text: str, path: str) -> None:
    assert local_path(text) == path


@given(st.text().filter(lambda name: "\0" not in name and name.isprintable()))
def test_the_url_of_a_path_names_that_path(name: str) -> None:
    path = Path("/") / name.replace("/", "")
    assert local_path(path.as_uri()) == str(path)


def test_a_file_of_another_machine_is_refused() -> None:
    with pytest.raises(BadInput, match=r"'file://other/a'.*'other'.*file:///PATH"):
        local_path("file://other/a")


@pytest.mark.parametrize("kind", ["folder", "pipe", "long"])
def test_what_is_no_plain_file_is_refused_at_once(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "here"
    match kind:
        case "folder":
            path.mkdir()
        case "pipe":
            os.mkfifo(path)
        case _:
            path.write_bytes(b"x" * ((1 << 20) + 1))
    with pytest.raises(BadInput, match=f"profile file {path} .* 1 MB"):
        read_plain(path, what="profile file", largest=1 << 20, follow=True)
    assert read_plain(tmp_path / "none", what="profile file", largest=1, follow=True) is None


def test_the_end_of_a_plain_file_is_read_and_of_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"0123456789")
    assert [read_tail(tmp_path / "log", most) for most in (4, 10, 11)] == [(b"6789", 10), *[(b"0123456789", 10)] * 2]
    assert read_tail(tmp_path / "none", 4) is None
    (tmp_path / "link").symlink_to(tmp_path / "log")
    os.mkfifo(tmp_path / "pipe")
    for name in ("link", "pipe", "."):
        with pytest.raises(BadInput, match=str(tmp_path / name)):
            read_tail(tmp_path / name, 4)
