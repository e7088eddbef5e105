"""Which URLs notifications may go to."""

from __future__ import annotations

import pytest

from controller.notify.receiver import Receiver, parse_receiver
from stage_model.errors import BadInput


@pytest.mark.parametrize(
    ("url", "receiver"),
    [
        ("https://hooks.example/a/b?c=d", Receiver(True, "hooks.example", 443, "hooks.example", "/a/b?c=d")),
        ("https://hooks.example:8443", Receiver(True, "hooks.example", 8443, "hooks.example:8443", "/")),
        ("https://192.0.2.7/x", Receiver(True, "192.0.2.7", 443, "192.0.2.7", "/x")),
        ("http://127.0.0.1:9/x", Receiver(False, "127.0.0.1", 9, "127.0.0.1:9", "/x")),
        ("http://127.8.8.8/x", Receiver(False, "127.8.8.8", 80, "127.8.8.8", "/x")),
        ("http://localhost/x", Receiver(False, "localhost", 80, "localhost", "/x")),
        ("http://[::1]:9/x", Receiver(False, "::1", 9, "[::1]:9", "/x")),
    ],
)
def test_what_is_taken(url: str, receiver: Receiver) -> None:
    assert parse_receiver(url) == receiver


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
    with pytest.raises(BadInput, match=r"--notify .*accepted: https://HOST") as raised:
        parse_receiver(url)
    assert len(str(raised.value)) < 300
    assert "word" not in str(raised.value)
