"""Locks that several processes of this machine share."""

from __future__ import annotations

from pathlib import Path

import pytest

from controller.files import locked
from stage_model.errors import RuntimeFailed


def test_a_lock_is_waited_for_as_long_as_was_said_and_goes_with_its_holder(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lock"
    with locked(path, 0.0), pytest.raises(RuntimeFailed, match=r"has been locked by another process for 0 s; end that one"):
        locked(path, 0.0).__enter__()
    with locked(path, 0.0):
        pass


def test_a_lock_file_that_is_a_link_is_refused(tmp_path: Path) -> None:
    (tmp_path / "lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(RuntimeFailed, match="cannot be opened"):
        locked(tmp_path / "lock", 0.0).__enter__()
    assert not (tmp_path / "elsewhere").exists()
