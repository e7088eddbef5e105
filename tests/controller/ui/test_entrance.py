"""Links, sessions and senders, with the time and the words given."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from controller.ui.entrance import LINK_S, MOST_SESSIONS, SESSION_S, Entrance, check_size
from stage_model.errors import BadInput, Denied

OWN = {"host": "127.0.0.1:80", "origin": "http://127.0.0.1:80"}


@pytest.fixture
def entrance() -> Entrance:
    words: Iterator[str] = (f"word{number}" for number in count())
    return Entrance(80, lambda: next(words))


def once(link: str) -> str:
    return link.partition("once=")[2]


def test_a_link_lets_one_in_once(entrance: Entrance) -> None:
    link = entrance.new_link(0.0)
    assert link == "http://127.0.0.1:80/word0/enter?once=word1"
    session = entrance.enter(once(link), 1.0)
    entrance.check_session(session, 2.0)
    for again in (once(link), "", "guess"):
        with pytest.raises(Denied):
            entrance.enter(again, 2.0)


def test_a_link_ends_in_time_and_when_there_is_a_newer_one(entrance: Entrance) -> None:
    old, new = entrance.new_link(0.0), entrance.new_link(0.0)
    for link, at_s in ((old, 1.0), (new, LINK_S)):
        with pytest.raises(Denied):
            entrance.enter(once(link), at_s)
    assert [entrance.is_stale(once(link), LINK_S) for link in (old, new)] == [False, True]
    assert not entrance.is_stale(once(new), LINK_S - 1)
    assert entrance.enter(once(new), LINK_S - 1)


def test_a_session_ends(entrance: Entrance) -> None:
    session = entrance.enter(once(entrance.new_link(0.0)), 0.0)
    entrance.check_session(session, SESSION_S - 1)
    for cookie, at_s in ((session, SESSION_S), (None, 1.0), ("guess", 1.0), ("", 1.0)):
        with pytest.raises(Denied):
            entrance.check_session(cookie, at_s)


def test_the_oldest_session_goes_for_a_new_one(entrance: Entrance) -> None:
    sessions = [entrance.enter(once(entrance.new_link(0.0)), 0.0) for _ in range(MOST_SESSIONS + 1)]
    with pytest.raises(Denied):
        entrance.check_session(sessions[0], 1.0)
    for session in sessions[1:]:
        entrance.check_session(session, 1.0)


@pytest.mark.parametrize(
    ("changed", "changes", "allowed"),
    [
        ({}, True, True),
        ({"host": "localhost:80", "origin": "http://localhost:80"}, True, True),
        ({"sec-fetch-site": "same-origin"}, True, True),
        ({"host": "evil.example:80"}, False, False),
        ({"host": "127.0.0.1:81"}, False, False),
        ({"host": "127.0.0.1"}, False, False),
        ({"origin": "http://127.0.0.1:4040"}, False, False),  # a job's Spark UI
        ({"origin": "https://127.0.0.1:80"}, True, False),
        ({"origin": "http://localhost:80"}, True, False),
        ({"origin": "null"}, True, False),
        ({"sec-fetch-site": "same-site"}, False, False),
        ({"sec-fetch-site": "cross-site"}, False, False),
    ],
)
def test_only_the_page_itself_may_call(entrance: Entrance, changed: dict[str, str], changes: bool, allowed: bool) -> None:
    if allowed:
        entrance.check_sender(OWN | changed, changes=changes)
    else:
        with pytest.raises(Denied):
            entrance.check_sender(OWN | changed, changes=changes)


def test_who_looks_needs_no_origin_and_who_changes_does(entrance: Entrance) -> None:
    entrance.check_sender({"host": "127.0.0.1:80"}, changes=False)
    with pytest.raises(Denied):
        entrance.check_sender({"host": "127.0.0.1:80"}, changes=True)


@pytest.mark.parametrize("length", [None, "-1", "11", "x", "٣"])
def test_a_body_says_its_size_and_is_small(length: str | None) -> None:
    check_size({"content-length": "10"}, 10)
    with pytest.raises(BadInput):
        check_size({} if length is None else {"content-length": length}, 10)
