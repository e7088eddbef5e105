"""Preparations of `up` for executors, at the same time as another `up` of the same machine."""

from __future__ import annotations

from pathlib import Path

from controller.home import Home
from controller.local.prepare import cluster_of


def test_two_homes_do_not_end_each_others_programs() -> None:
    assert cluster_of(Home(Path("/one"))) != cluster_of(Home(Path("/other")))
    assert cluster_of(Home(Path("/one"))) == cluster_of(Home(Path("/one")))
