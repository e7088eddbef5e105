"""Join tokens as people hand them on: what is printed is read, and nothing else is, nor shown."""

from __future__ import annotations

import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.asks.join_token import JoinToken, parse_join_token
from stage_model.errors import BadInput

SECRET = "s" * 42 + "_"
TOKEN = JoinToken("0a1b2c3d", SECRET, "f" * 64)
WORDS = st.text(string.ascii_letters + string.digits + "-_", min_size=43, max_size=43)


@given(st.integers(0, 2**32 - 1), WORDS, st.binary(min_size=32, max_size=32))
def test_what_is_printed_is_read(number: int, secret: str, digest: bytes) -> None:
    token = JoinToken(f"{number:08x}", secret, digest.hex())
    assert parse_join_token(f" {token.text}\n") == token
    assert token.text == f"{token.bearer}.{token.fingerprint}"


@pytest.mark.parametrize(
    "text",
    ["", "token", TOKEN.text[:-1], TOKEN.text[1:], TOKEN.bearer, TOKEN.text.upper(), TOKEN.text + "0", f"{TOKEN.text} x"],
)
def test_anything_else_is_refused_and_not_shown(text: str) -> None:
    with pytest.raises(BadInput, match="sparkpace join-token") as refused:
        parse_join_token(text)
    assert SECRET[:8] not in str(refused.value)
