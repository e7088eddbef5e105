"""Servers on which pods are paced: a stand-in, and a real one from 1.33 on. What a real server cannot be made to do at will
(refuse rights, hang up, be old) is asked only of the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.controller.runtime.kubernetes.kube_worlds import World, real_world, standin_world, why_no_real_server


@pytest.fixture
def standin(tmp_path: Path) -> Iterator[World]:
    """Provide the stand-in."""
    with standin_world(tmp_path) as made:
        yield made


@pytest.fixture(params=["stand-in", "real"])
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    """Provide the stand-in, then the real server; skip the latter where no cluster is named."""
    real = request.param == "real"
    if real and (reason := why_no_real_server()):
        pytest.skip(reason)
    with (real_world if real else standin_world)(tmp_path) as made:
        yield made
