"""Notifications on their way to a real HTTP server: taken, tried again, given up, dropped; no caller waits for them."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from controller.asks.receiver import parse_receiver
from controller.home import Home
from controller.machine.back_off import BackOff
from controller.machine.waiting import wait_until
from controller.master.notify import sender
from controller.master.notify.deliveries import MOST_WAITING, Deliveries
from controller.master.notify.sender import Sender
from tests.fakes.hook import hooked
from tests.fakes.refusals import assert_names

PATIENCE_S = 60.0
QUICK, TRIES = BackOff(first_s=0.01, most_s=0.02), 3


@contextmanager
def sending(
    url: str, silence_s: float = PATIENCE_S, back_off: BackOff = QUICK, secret: str | None = None
) -> Iterator[Sender]:
    one = Sender(parse_receiver(url), secret, time.monotonic, Deliveries(back_off, TRIES), silence_s)
    try:
        yield one
    finally:
        one.close()


def until(one: Sender, **counts: int) -> None:
    """Wait until the notifications have these outcomes, and nothing waits."""
    assert wait_until(lambda: one.counts() == (counts, 0), PATIENCE_S, 0.01), one.counts()


@pytest.mark.parametrize(("secret", "sent"), [(None, None), ("between the two of us", "Bearer between the two of us")])
def test_a_notification_is_posted_once_with_the_shared_secret_if_there_is_one(secret: str | None, sent: str | None) -> None:
    with hooked() as hook, sending(hook.url, secret=secret) as one:
        one.put("n1", b'{"id":"n1"}')
        until(one, sent=1)
    [heard] = hook.heard
    assert (heard.path, heard.body) == ("/hook?key=1", b'{"id":"n1"}')
    assert heard.headers["content-type"] == "application/json"
    assert heard.headers.get("authorization") == sent


@pytest.mark.parametrize("answer", [500, 503, 429, 408, "close", b"\x00\xff\r\n\r\n", b"HTTP/1.1 abc OK\r\n\r\n"])
def test_what_failed_is_tried_again_with_the_same_id(answer: int | str | bytes) -> None:
    with hooked(answer, 200) as hook, sending(hook.url) as one:
        one.put("n1", b"{}")
        until(one, sent=1)
    assert [heard.body for heard in hook.heard] == [b"{}", b"{}"]


@pytest.mark.parametrize("answer", [500, "silence"])
def test_a_notification_that_fails_each_time_is_given_up_with_one_sentence(
    caplog: pytest.LogCaptureFixture, answer: int | str
) -> None:
    with hooked(answer) as hook, sending(hook.url, silence_s=PATIENCE_S if answer == 500 else 0.2) as one:
        one.put("n1", b"{}")
        until(one, given_up=1)
    assert len(hook.heard) == TRIES
    assert_names(caplog.messages[-1], "n1", f"http://127.0.0.1:{hook.server_port}", 500 if answer == 500 else "")
    assert "key" not in caplog.text, "the path of a web hook may be secret"


@pytest.mark.parametrize("answer", [301, 302, 307, 308, 400, 401, 404, 410])
def test_a_refusal_or_a_redirect_is_the_end_and_no_other_receiver_is_asked(answer: int) -> None:
    with hooked(answer) as hook, sending(hook.url) as one:
        one.put("n1", b"{}")
        until(one, given_up=1)
    assert [heard.path for heard in hook.heard] == ["/hook?key=1"]


@pytest.mark.parametrize("answer", ["silence", "drip"])
def test_a_receiver_that_does_not_end_holds_up_neither_who_puts_in_nor_a_stop(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch, answer: str
) -> None:
    monkeypatch.setattr(sender, "STOP_S", 0.2)
    with hooked(answer) as hook, sending(hook.url, back_off=BackOff(first_s=1e6, most_s=1e6)) as one:
        one.put("n1", b"{}")
        assert wait_until(lambda: len(hook.heard) == 1, PATIENCE_S, 0.01)
        one.put("n2", b"{}")
        one.close()
        assert one.counts() == ({}, 2)
    assert "2 notifications" in caplog.text


def test_without_a_listener_a_notification_is_given_up(caplog: pytest.LogCaptureFixture) -> None:
    with hooked() as hook:
        url = hook.url
    with sending(url) as one:
        one.put("n1", b"{}")
        until(one, given_up=1)
    assert "key" not in caplog.text, "the path of a web hook may be secret"


def test_a_full_queue_drops_and_says_so_once_while_who_puts_in_goes_on(caplog: pytest.LogCaptureFixture) -> None:
    with hooked("silence", 200) as hook, sending(hook.url) as one:
        for number in range(MOST_WAITING + 5):  # the receiver is silent all the while
            one.put(f"n{number}", b"{}")
        assert one.counts() == ({"dropped": 5}, MOST_WAITING)
        [said] = [message for message in caplog.messages if "dropped" in message]
        assert_names(said, MOST_WAITING, "http://127.0.0.1")
        hook.over.set()
        until(one, sent=MOST_WAITING, dropped=5)


def test_at_a_stop_what_is_due_is_still_sent() -> None:
    with hooked() as hook:
        with sending(hook.url) as one:
            for number in range(20):
                one.put(f"n{number}", b"%d" % number)
        assert [heard.body for heard in hook.heard] == [b"%d" % number for number in range(20)]


def test_at_a_stop_what_waits_for_its_next_try_is_tried_once_more() -> None:
    with hooked(500, 204) as hook:
        with sending(hook.url, back_off=BackOff(first_s=1e6, most_s=1e6)) as one:
            one.put("n1", b"{}")
            assert wait_until(lambda: one._deliveries.wait_s(time.monotonic()) not in {None, 0.0}, PATIENCE_S, 0.01)
        assert (len(hook.heard), one.counts()) == (2, ({"sent": 1}, 0))


@pytest.mark.parametrize(
    ("host", "trusted", "sent"),
    [
        ("127.0.0.1", True, True),
        # no CA of this machine vouches for the receiver
        ("127.0.0.1", False, False),
        # its certificate is for 127.0.0.1
        ("127.0.0.2", True, False),
    ],
)
def test_nothing_is_sent_to_a_receiver_whose_certificate_is_not_that_of_its_host(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, trusted: bool, sent: bool
) -> None:
    home = Home(tmp_path)
    home.create()
    with hooked(home=home, host=host) as hook:
        if trusted:
            monkeypatch.setenv("SSL_CERT_FILE", str(home.ca_file))
        with sending(hook.url) as one:
            one.put("n1", b"{}")
            until(one, **{"sent" if sent else "given_up": 1})
        assert [heard.headers["host"] for heard in hook.heard] == ([f"127.0.0.1:{hook.server_port}"] if sent else [])
