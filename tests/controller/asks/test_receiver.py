"""URLs to which notifications may go."""

from __future__ import annotations

import pytest

from controller.asks.receiver import Receiver, parse_receiver
from stage_model.errors import BadInput


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://hooks.example/a/b?c=d", "https://hooks.example"),
        ("https://hooks.example:8443", "https://hooks.example:8443"),
        ("https://192.0.2.7/x", "https://192.0.2.7"),
        ("http://127.0.0.1:9/x", "http://127.0.0.1:9"),
        ("http://127.8.8.8/x", "http://127.8.8.8"),
        ("http://localhost/x", "http://localhost"),
        ("http://[::1]:9/x", "http://[::1]:9"),
    ],
)
def test_what_is_taken(url: str, shown: str) -> None:
    assert parse_receiver(url) == Receiver(url, shown)


BAD_URLS = [
    "",
    "hooks.example",
    "ftp://hooks.example/",
    "file:///etc/passwd",
    "https://",
    "https:///path",
    "https://h:0/",
    "https://h:99999/",
    "https://h:x/",
    "https://[::1/",
    "https://user@h/",
    "https://user:word@h/",
    "https://h/#part",
    "https://h/a b",
    "https://h/\r\nX: 1",
    "https://h/\x00",
    "https://h\u00fc.example/",
    "http://hooks.example/",
    "http://192.0.2.7/",
    "http://localhost.example/",
    "http://127.0.0.1.example/",
    "http://0.0.0.0/",
    "https://h/" + "x" * 3000,
]


@pytest.mark.parametrize("url", BAD_URLS)
def test_what_is_refused(url: str) -> None:
    with pytest.raises(BadInput, match=r"--notify .*https://HOST") as raised:
        parse_receiver(url)
    assert len(str(raised.value)) < 300
    assert "word" not in str(raised.value)
