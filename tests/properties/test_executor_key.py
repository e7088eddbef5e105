"""The text and the file name of an executor's key lead back to the key, whatever the ids are."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.runtime.base import ExecutorKey

characters = st.characters(codec="utf-8", exclude_characters="/\0")
applications = st.text(characters, min_size=1)
numbers = st.integers(0, 2**31 - 1).map(str)


@given(application=applications, executor=st.one_of(numbers, st.text()))
def test_a_text_is_that_of_one_key(application: str, executor: str) -> None:
    key = ExecutorKey(application, executor)
    assert ExecutorKey.parse(key.text) == key


@given(application=applications, executor=numbers)
def test_a_file_is_that_of_one_key(application: str, executor: str) -> None:
    key = ExecutorKey(application, executor)
    assert ExecutorKey.of_file(Path("agents") / f"{key.file_stem}.json") == key


def test_text_without_a_slash_is_refused() -> None:
    with pytest.raises(ValueError, match="'app-1'"):
        ExecutorKey.parse("app-1")
