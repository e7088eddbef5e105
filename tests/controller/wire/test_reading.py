"""What a newer peer adds to a message is ignored, and told once."""

from __future__ import annotations

import logging
from typing import Any

import msgspec
import pytest

from controller.wire.driver import DriverSync
from controller.wire.reading import EVERY, Reader
from controller.wire.worker import WorkerSync
from stage_model.history.events import AnyEvent
from tests.fakes.messages import made_up


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records]


@pytest.fixture
def reader(caplog: pytest.LogCaptureFixture) -> Reader:
    caplog.set_level(logging.WARNING, "sparkpace.wire")
    return Reader()


def sync(**further: Any) -> bytes:
    return msgspec.json.encode({"instance": "driver", **further})


def test_a_further_field_is_ignored_and_told_once(reader: Reader, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(3 * EVERY):
        assert reader.read(sync(mood=1), DriverSync) == DriverSync(instance="driver")
    assert told(caplog) == ["field 'mood' of a DriverSync is not known to this release and ignored: a newer one sent it"]


def test_a_field_deep_inside_a_message_is_told_by_its_path(reader: Reader, caplog: pytest.LogCaptureFixture) -> None:
    message = msgspec.json.decode(made_up(WorkerSync, full=True))
    message["executors"][0]["stages"][0]["colour"] = "red"
    message["worker"]["altitude"] = 3
    reader.read(msgspec.json.encode(message), WorkerSync)
    assert [line.split("'")[1] for line in told(caplog)] == ["worker.altitude", "executors.stages.colour"]


def test_who_sends_something_new_among_others_is_noticed_however_they_take_turns(
    reader: Reader, caplog: pytest.LogCaptureFixture
) -> None:
    for turn in range(2 * EVERY):
        reader.read(sync(humour=1) if turn % 2 else sync(), DriverSync)
    assert len(told(caplog)) == 1


def test_a_further_field_of_an_event_is_told(reader: Reader, caplog: pytest.LogCaptureFixture) -> None:
    data = b'{"type": "application_end", "time_ms": 1, "weather": "fine"}'
    reader.look(data, msgspec.json.decode(data, type=AnyEvent))
    assert [line.split("'")[1] for line in told(caplog)] == ["weather"]


def test_a_field_with_a_name_of_any_kind_makes_one_short_line(reader: Reader, caplog: pytest.LogCaptureFixture) -> None:
    reader.read(sync(**{"a\nb" + "c" * 10_000: 1}), DriverSync)
    (line,) = told(caplog)
    assert len(line) < 200
    assert "\n" not in line


@pytest.mark.parametrize("event", [b'"\xff"', b"1e999"])
def test_what_cannot_be_looked_into_does_not_fail_the_message_around_it(reader: Reader, event: bytes) -> None:
    data = b'{"instance": "driver", "events": [{"seq": 1, "event": ' + event + b"}]}"
    assert len(reader.read(data, DriverSync).events) == 1
