"""Effects of the core are carried out: what is stored comes first, and one that fails keeps no other from it."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from controller.master.core.effects import Log, StoreApplication, Wake
from tests.fakes.cluster import FakeCluster


@pytest.fixture
def cluster(tmp_path: Path) -> FakeCluster:
    return FakeCluster(tmp_path)


def test_an_effect_that_cannot_be_carried_out_keeps_no_other_from_it(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def explode(*_: Any) -> None:
        raise OverflowError("on purpose")

    monkeypatch.setattr(cluster.state.outside, "_wake", explode)
    cluster.state.outside.carry_out([Wake(frozenset({"w1"})), Log("warning", "the next one")], cluster.now_s)
    logged = [(record.levelno, record.getMessage()) for record in caplog.records]
    assert logged == [(logging.ERROR, "Wake could not be carried out"), (logging.WARNING, "the next one")]


def test_what_is_to_be_stored_is_stored_before_anything_else_is_done(
    cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    application_id = cluster.register()
    application, seen = cluster.state.applications[application_id], list[int]()
    application.record.next_executor = 77

    def look(_: object) -> None:
        [(_, _, data)] = cluster.state.store.applications()
        seen.append(b'"next_executor":77' in data)

    monkeypatch.setattr(cluster.state.outside, "_wake", look)
    cluster.state.outside.carry_out([Wake(frozenset({"w1"})), StoreApplication(application_id)], cluster.now_s)
    assert seen == [True]
