"""One machine reaches another only if the agreed words come from the other's port."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest

from controller.machine.greeting import Greeter, is_greeted
from stage_model.errors import Unavailable

WORDS = "words-of-both-sides"


def test_who_listens_is_reached_until_it_closes() -> None:
    greeter = Greeter("127.0.0.1", WORDS, 60.0)
    for _ in range(2):
        assert is_greeted("127.0.0.1", greeter.port, WORDS)
    assert not is_greeted("127.0.0.1", greeter.port, "words-of-another")
    greeter.close()
    greeter.close()
    assert not is_greeted("127.0.0.1", greeter.port, WORDS)


def test_a_port_is_closed_by_itself() -> None:
    greeter = Greeter("127.0.0.1", WORDS, 0.0)
    greeter._timer.join(60)
    assert not is_greeted("127.0.0.1", greeter.port, WORDS)


def test_a_listener_that_says_nothing_or_has_no_name_is_not_reached() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as silent:
        assert not is_greeted("127.0.0.1", silent.getsockname()[1], WORDS, within_s=0.05)
    assert not is_greeted("no.such.name.invalid", 1, WORDS)
    assert not is_greeted("x" * 500, 1, WORDS)


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(Unavailable, match=r"192\.0\.2\.1"):
        Greeter("192.0.2.1", WORDS, 1.0)
