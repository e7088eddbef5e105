"""The Spark and the Python that a submission uses."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from controller.submit.spark_install import find_spark
from stage_model.errors import Unavailable
from tests.fakes.refusals import assert_names


@pytest.fixture
def active(tmp_path: Path) -> Path:
    """Provide a virtual environment, as far as anyone looks at it here."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "python3").symlink_to(sys.executable)
    return tmp_path


def chosen(**environment: str) -> str | None:
    return find_spark(environment).environment.get("PYSPARK_PYTHON")


def test_jobs_run_under_the_python_of_the_virtual_environment_that_is_active(active: Path) -> None:
    assert chosen(VIRTUAL_ENV=str(active)) == str(active / "bin" / "python3"), "the link in it, which shows its packages"
    assert chosen() == sys.executable


def test_a_python_that_was_named_stays(active: Path) -> None:
    assert chosen(VIRTUAL_ENV=str(active), PYSPARK_PYTHON="/opt/python3") is None


@pytest.mark.parametrize("gone", ["", "/no/such/environment", sys.prefix])
def test_sparkpaces_own_environment_and_a_missing_one_change_nothing(gone: str) -> None:
    assert chosen(VIRTUAL_ENV=gone) == sys.executable


def test_without_a_spark_the_error_says_how_to_get_one_where_pipx_installed_us(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(Unavailable) as refused:
        find_spark({"PATH": "/nowhere"})
    assert_names(str(refused.value), "set SPARK_HOME", "pipx inject sparkpace pyspark")
