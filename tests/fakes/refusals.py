"""Errors by their class and the values that they name, whatever their words are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pytest


@contextmanager
def refused(kind: type[Exception], *named: object) -> Iterator[pytest.ExceptionInfo[Exception]]:
    """Expect an error of this class that names each of the values."""
    with pytest.raises(kind) as found:
        yield found
    assert_names(found.value, *named)


def assert_names(sentence: object, *named: object) -> None:
    """Check that a sentence names each of the values."""
    for value in named:
        assert str(value) in str(sentence)
