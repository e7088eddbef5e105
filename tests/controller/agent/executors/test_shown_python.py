"""The Python that executors are shown: a virtual environment with its base, without the secrets in it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from controller.agent.executors.launch import python_binds, python_roots
from controller.runtime.base import Bind, Mask
from controller.wire.driver import PythonEnvironment
from stage_model.errors import RuntimeRefused
from tests.fakes.worker import site_in, spec


def environment(prefix: str, base: str = "/usr") -> PythonEnvironment:
    return PythonEnvironment(executable=f"{prefix}/bin/python3", version="3.11", prefix=prefix, base_prefix=base)


@pytest.mark.parametrize("prefix", ["/usr", "/usr/", "/usr/local", "/"])
def test_a_system_python_is_the_images(prefix: str) -> None:
    assert python_roots(environment(prefix)) == []


def test_a_virtual_environment_is_shown_with_its_base(tmp_path: Path) -> None:
    for name in ("venv", "base"):
        (tmp_path / name / "bin").mkdir(parents=True)
        (tmp_path / name / "bin/python3.11").touch()
    assert python_roots(environment(f"{tmp_path}/venv", f"{tmp_path}/base")) == [tmp_path / "venv", tmp_path / "base"]


def test_secrets_in_it_are_masked_and_it_is_no_way_into_one(tmp_path: Path) -> None:
    site, prefix = site_in(tmp_path), tmp_path / "venv"
    for folder in (prefix, site.home):
        (folder / "bin").mkdir(parents=True)
        (folder / "bin/python3.11").touch()
    inner = replace(site, home=prefix / "home")
    inner.home.mkdir()
    masked = Bind(prefix, masks=(Mask(inner.home, True),))
    assert python_binds(spec(python=environment(str(prefix))), inner) == [masked]
    with pytest.raises(RuntimeRefused, match="leads into"):
        python_binds(spec(python=environment(str(site.home))), site)


def test_what_is_no_python_is_refused(tmp_path: Path) -> None:
    for prefix in (str(tmp_path), "relative", f"{tmp_path}/../etc"):
        with pytest.raises(RuntimeRefused, match=prefix):
            python_roots(environment(prefix))
