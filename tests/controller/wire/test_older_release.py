"""A peer of the release before is understood, and understands: nothing that both know is lost on the way.

What it writes and the structs it reads by are frozen: `data/wire/release_1.json`, `fakes/release_1.py`.
"""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controller.wire import command, driver, worker
from controller.wire.reading import unknown
from stage_model.history import events
from tests.fakes import release_1
from tests.fakes.messages import lost, made_up

FROZEN = release_1.WRITTEN


def today(kind: str) -> Any:
    return next(getattr(module, kind) for module in (driver, worker, command, events) if hasattr(module, kind))


def passed(message: Any, kind: Any) -> Any:
    """The message as JSON once more, after somebody has read it."""
    return msgspec.json.decode(msgspec.json.encode(msgspec.json.decode(msgspec.json.encode(message), type=kind)))


@pytest.mark.parametrize("kind", FROZEN)
def test_what_the_older_release_writes_is_read_whole(kind: str) -> None:
    for message in FROZEN[kind]:
        assert list(lost(message, passed(message, today(kind)))) == []
        data = msgspec.json.encode(message)
        assert list(unknown(data, msgspec.json.decode(data, type=today(kind)))) == []


@pytest.mark.parametrize("kind", FROZEN)
@pytest.mark.parametrize("full", [True, False])
def test_the_older_release_reads_all_it_knows_of_what_is_written_now(kind: str, full: bool) -> None:
    written = msgspec.json.encode(msgspec.json.decode(made_up(today(kind), full=full), type=today(kind)))
    read = passed(msgspec.json.decode(written), getattr(release_1, kind))
    assert list(lost(read, msgspec.json.decode(written))) == []


def test_the_frozen_messages_are_of_every_kind_that_the_older_release_knows() -> None:
    known = release_1.Message.__subclasses__() + release_1.Event.__subclasses__()
    parts = {part for kind in FROZEN for part in _parts(getattr(release_1, kind))}
    assert {kind.__name__ for kind in known} <= parts


def _parts(kind: Any) -> set[str]:
    """Names of all structs that a message is made of."""
    found: set[str] = set()
    waiting = [msgspec.inspect.type_info(kind)]
    while waiting:
        info = waiting.pop()
        if isinstance(info, msgspec.inspect.StructType):
            found.add(info.cls.__name__)
            waiting += [field.type for field in info.fields]
        elif isinstance(info, msgspec.inspect.Metadata):
            waiting.append(info.type)
        elif isinstance(info, msgspec.inspect.UnionType):
            waiting += info.types
        elif isinstance(info, msgspec.inspect.VarTupleType):
            waiting.append(info.item_type)
        elif isinstance(info, msgspec.inspect.DictType):
            waiting.append(info.value_type)
    return found
