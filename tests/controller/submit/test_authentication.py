"""Spark's authentication in a driver's settings: on unless its user says that it is off, its file on no disk."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from controller.submit.authentication import authenticated, in_memory, path_of
from stage_model.errors import BadInput

ON, SECRET, CRYPTO = "spark.authenticate", "spark.authenticate.secret", "spark.network.crypto.enabled"


def test_every_driver_gets_a_secret_of_its_own_next_to_the_users_settings() -> None:
    first, second = (authenticated({"spark.ui.port": "4050"}, {}) for _ in range(2))
    assert first.keys() == {ON, SECRET, "spark.ui.port"}
    assert first[ON] == "true"
    assert len(first[SECRET]) >= 43, "256 bits"
    assert first[SECRET] != second[SECRET]


def test_a_secret_of_the_users_own_file_stays_and_one_on_the_command_line_is_refused() -> None:
    assert authenticated({SECRET: "mine"}, {})[SECRET] == "mine"
    assert authenticated({SECRET: ""}, {})[SECRET]
    with pytest.raises(BadInput, match=SECRET) as refused:
        authenticated({}, {SECRET: "mine"})
    assert "mine" not in str(refused.value)


@pytest.mark.parametrize(("file", "conf"), [({ON: "false"}, {}), ({}, {ON: " False "}), ({ON: "true"}, {ON: "false"})])
def test_who_says_no_has_none(file: dict[str, str], conf: dict[str, str]) -> None:
    assert authenticated(file, conf) == file
    with pytest.raises(BadInput, match=f"--encrypt .*{ON}=false"):
        authenticated(file, conf, encrypt=True)


def test_a_yes_on_the_command_line_beats_a_no_in_the_file() -> None:
    assert SECRET in authenticated({ON: "false"}, {ON: "true"})


def test_encryption_is_one_option() -> None:
    assert CRYPTO not in authenticated({}, {})
    assert authenticated({}, {}, encrypt=True)[CRYPTO] == "true"
    with pytest.raises(BadInput, match=f"--encrypt .*{CRYPTO}=false"):
        authenticated({CRYPTO: "false"}, {}, encrypt=True)


def test_a_child_reads_the_file_more_than_once_and_nothing_is_left_of_it(tmp_path: Path) -> None:
    with in_memory({"a": "b"}) as file:
        status = os.fstat(file)
        assert (status.st_mode & 0o777, status.st_nlink) == (0o600, 0), "no name in any directory"
        words = ["cat", path_of(file), path_of(file)]
        assert subprocess.run(words, pass_fds=(file,), cwd=tmp_path, capture_output=True, check=True).stdout == b"a=b\na=b\n"
        assert subprocess.run(words, capture_output=True, check=False).returncode != 0, "no other process has it"
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(file)
