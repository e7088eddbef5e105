"""Messages of any kind with made-up values by which fields can be distinguished."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import Any

import msgspec
from msgspec import inspect


def made_up(kind: Any, *, full: bool) -> bytes:
    """Return a message as JSON: with every field that `kind` knows, or only with the fields that it must have. Of a union,
    its first."""
    return msgspec.json.encode(_value(inspect.type_info(kind), full, "", count(1)))


def _value(info: inspect.Type, full: bool, name: str, numbers: Iterator[int]) -> Any:
    match info:
        case inspect.Metadata():
            return _value(info.type, full, name, numbers)
        case inspect.StructType():
            fields = {f.encode_name: _value(f.type, full, f.name, numbers) for f in info.fields if full or f.required}
            return fields if info.tag_field is None else {info.tag_field: info.tag, **fields}
        case inspect.UnionType():
            return _value(next(one for one in info.types if not isinstance(one, inspect.NoneType)), full, name, numbers)
        case inspect.VarTupleType():
            return [_value(info.item_type, full, name, numbers) for _ in range(info.min_length or 1)]
        case inspect.TupleType():
            return [_value(one, full, name, numbers) for one in info.item_types]
        case inspect.DictType():
            return {_value(info.key_type, full, name, numbers): _value(info.value_type, full, name, numbers)}
        case inspect.StrType() | inspect.BytesType():
            return _word(info, name, next(numbers))
        case inspect.BoolType() | inspect.EnumType() | inspect.LiteralType():
            return _first(info)
        case inspect.IntType():
            return next(numbers)
        case inspect.FloatType():
            return next(numbers) + 0.5
        case inspect.RawType():
            return {"type": "application_end", "time_ms": next(numbers)}
    raise AssertionError(f"no value is made up for {info}")


def _first(info: inspect.BoolType | inspect.EnumType | inspect.LiteralType) -> Any:
    if isinstance(info, inspect.BoolType):
        return True
    return info.values[0] if isinstance(info, inspect.LiteralType) else next(iter(info.cls))


def _word(info: inspect.StrType | inspect.BytesType, name: str, number: int) -> str:
    if isinstance(info, inspect.BytesType):
        return f"{number:04d}"  # base64, as JSON has bytes
    return str(number) if info.pattern else f"{name} {number}"
