"""Calls of machines that join: how many are looked at together, and what a call that fails leaves."""

from __future__ import annotations

import asyncio
import socket

import pytest

from controller.asks.join_token import JoinToken
from controller.home import Home
from controller.master.access.join_tokens import JoinTokens
from controller.master.join_calls import MOST_LOOKS, JoinCalls
from controller.wire.joining import JoinCheck, JoinFound, JoinRequest
from stage_model.errors import Denied, NotStored, TooMuch, Unavailable
from tests.fakes.refusals import assert_names

NOW_S = 1e9
NO_PORT = JoinCheck(worker_id="m2", host="127.0.0.1", greeting="x" * 20)


@pytest.fixture
def token(home: Home) -> JoinToken:
    return JoinTokens(home.join_tokens).make("f" * 64, NOW_S + 60, 1, NOW_S)


def joined(home: Home, token: JoinToken) -> tuple[str, ...]:
    return JoinTokens(home.join_tokens).listed()[token.token_id].workers


def asked(worker_id: str = "m2") -> JoinRequest:
    return JoinRequest(worker_id=worker_id, digest="0" * 64)


def test_one_machine_too_many_is_refused_also_where_no_port_is_looked_at(home: Home) -> None:
    calls = JoinCalls(home, "127.0.0.1")

    async def look() -> list[JoinFound | BaseException]:
        found = await asyncio.gather(*(calls.check(NO_PORT) for _ in range(MOST_LOOKS + 1)), return_exceptions=True)
        return [*found, await calls.check(NO_PORT)]

    *found, last, after = asyncio.run(look())
    assert all(isinstance(one, JoinFound) for one in (*found, after))
    assert isinstance(last, TooMuch)
    assert_names(last, f"{MOST_LOOKS} machines", "try again")


def test_a_machine_is_refused_before_anything_is_done_for_it(home: Home) -> None:
    calls = JoinCalls(home, "127.0.0.1")

    async def look(port: int) -> None:
        closed = JoinCheck(worker_id="m2", host="127.0.0.1", port=1, greeting="x" * 20)
        found = await asyncio.gather(*(calls.check(closed) for _ in range(MOST_LOOKS)))
        assert all(one.port for one in found), "a port is open here for each of them"
        with pytest.raises(TooMuch):
            await calls.check(JoinCheck(worker_id="m2", host="127.0.0.1", port=port, greeting="x" * 20))

    with socket.create_server(("127.0.0.1", 0)) as listening:
        asyncio.run(look(listening.getsockname()[1]))
        listening.setblocking(False)
        with pytest.raises(BlockingIOError):
            listening.accept()


def test_a_look_that_fails_counts_no_longer(home: Home) -> None:
    calls = JoinCalls(home, "192.0.2.1")  # no address of this machine
    closed = JoinCheck(worker_id="m2", host="127.0.0.1", port=1, greeting="x" * 20)

    async def look() -> None:
        for _ in range(MOST_LOOKS + 1):
            with pytest.raises(Unavailable):
                await calls.check(closed)

    asyncio.run(look())


def test_an_identity_that_cannot_be_stored_uses_up_no_token(home: Home, token: JoinToken) -> None:
    calls = JoinCalls(home, "127.0.0.1")
    home.agent_tokens.write_text("no folder")
    with pytest.raises(NotStored, match="m2"):
        asyncio.run(calls.join(token.bearer, asked(), NOW_S))
    assert joined(home, token) == ()
    home.agent_tokens.unlink()
    asyncio.run(calls.join(token.bearer, asked(), NOW_S))
    assert joined(home, token) == ("m2",)


def test_a_use_that_cannot_be_stored_leaves_no_identity(home: Home, token: JoinToken) -> None:
    (home.join_tokens / "lock").mkdir()
    with pytest.raises(NotStored, match="m2"):
        asyncio.run(JoinCalls(home, "127.0.0.1").join(token.bearer, asked(), NOW_S))
    assert not (home.agent_tokens / "m2").exists()


def test_of_two_workers_that_join_with_the_same_last_use_one_has_an_identity(home: Home, token: JoinToken) -> None:
    calls = JoinCalls(home, "127.0.0.1")

    async def join() -> list[BaseException | None]:
        both = (calls.join(token.bearer, asked(name), NOW_S) for name in ("m2", "m3"))
        return await asyncio.gather(*both, return_exceptions=True)

    first, second = asyncio.run(join())
    assert first is None
    assert isinstance(second, Denied)
    assert [file.name for file in home.agent_tokens.iterdir()] == ["m2"]


def test_a_name_that_does_not_resolve_here_is_distinguished_from_an_unreachable_address(home: Home) -> None:
    async def look(host: str) -> tuple[bool, bool]:
        found = await JoinCalls(home, "127.0.0.1").check(JoinCheck(worker_id="m2", host=host, port=1, greeting="x" * 20))
        return found.resolves, found.reached

    assert asyncio.run(look("no.such.name.invalid")) == (False, False)
    assert asyncio.run(look("127.0.0.1")) == (True, False)
