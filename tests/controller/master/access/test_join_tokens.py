"""Join tokens in the master's home: their limits, and that only a hash of them is kept."""

from __future__ import annotations

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controller.master.access.join_tokens import KEPT_S, JoinLimits, JoinTokens, why_refused
from stage_model.errors import BadInput, Denied

NOW_S = 1e9


@pytest.fixture
def tokens(tmp_path: Path) -> JoinTokens:
    return JoinTokens(tmp_path / "join-tokens")


@given(st.integers(1, 5), st.integers(0, 8), st.floats(-1e6, 1e6))
def test_a_token_is_good_for_its_time_and_its_number_of_workers(uses: int, joined: int, left_s: float) -> None:
    kept = JoinLimits(digest="", until_s=NOW_S + left_s, uses=uses, workers=tuple(f"m{n}" for n in range(joined)))
    assert (why_refused(kept, NOW_S) == "") == (NOW_S + left_s > NOW_S and joined < uses)


def test_workers_join_until_the_token_is_used_up(tokens: JoinTokens) -> None:
    token = tokens.make("f" * 64, NOW_S + 60, 2, NOW_S)
    for name in ("m1", "m2"):
        assert tokens.check(token.bearer, NOW_S) == token.token_id
        assert tokens.use(token.bearer, NOW_S, name) == token.token_id
    said = r"2 worker\(s\), and m1, m2 joined.*sparkpace join-token"
    with pytest.raises(Denied, match=said):
        tokens.check(token.bearer, NOW_S)
    with pytest.raises(Denied, match=said):
        tokens.use(token.bearer, NOW_S, "m3")
    assert tokens.listed()[token.token_id].workers == ("m1", "m2")


def test_an_expired_token_says_so_for_a_day_and_then_goes(tokens: JoinTokens) -> None:
    token = tokens.make("f" * 64, NOW_S + 60, 1, NOW_S)
    with pytest.raises(Denied, match=f"{token.token_id}.*: it expired 1m.* ago"):
        tokens.check(token.bearer, NOW_S + 120)
    tokens.make("f" * 64, NOW_S, 1, NOW_S + KEPT_S)
    assert token.token_id in tokens.listed()
    tokens.make("f" * 64, NOW_S + 2 * KEPT_S, 1, NOW_S + 61 + KEPT_S)
    assert token.token_id not in tokens.listed()


def test_several_tokens_are_made_at_once_while_old_ones_go(tokens: JoinTokens) -> None:
    for _ in range(100):
        tokens.make("f" * 64, NOW_S, 1, NOW_S)
    later_s = NOW_S + 2 * KEPT_S
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: tokens.make("f" * 64, later_s, 1, later_s), range(8)))
    assert set(tokens.listed()) == {one.token_id for one in made}


def test_a_revoked_token_is_refused_and_others_stay(tokens: JoinTokens) -> None:
    one, other = (tokens.make("f" * 64, NOW_S + 60, 1, NOW_S) for _ in range(2))
    tokens.revoke(one.token_id)
    with pytest.raises(Denied, match="revoked"):
        tokens.check(one.bearer, NOW_S)
    tokens.check(other.bearer, NOW_S)
    for unknown in (one.token_id, "", "lock", "../ca.key"):
        with pytest.raises(BadInput, match=other.token_id):
            tokens.revoke(unknown)


def test_a_wrong_secret_is_refused_without_being_quoted(tokens: JoinTokens) -> None:
    token = tokens.make("f" * 64, NOW_S + 60, 1, NOW_S)
    for bearer in (
        "",
        token.token_id,
        f"{token.token_id}.",
        f"{token.token_id}.wrong-secret",
        f"00000000.{token.secret}",
        ".",
    ):
        with pytest.raises(Denied, match="not valid here") as refused:
            tokens.check(bearer, NOW_S)
        assert token.secret not in str(refused.value)
        assert "wrong-secret" not in str(refused.value)


def test_only_a_hash_is_kept_and_only_for_us_to_read(tokens: JoinTokens, tmp_path: Path) -> None:
    token = tokens.make("f" * 64, NOW_S + 60, 1, NOW_S)
    tokens.use(token.bearer, NOW_S, "m1")
    files = [file for file in (tmp_path / "join-tokens").iterdir() if file.is_file()]
    assert files
    for file in files:
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert token.secret.encode() not in file.read_bytes()
    assert stat.S_IMODE((tmp_path / "join-tokens").stat().st_mode) == 0o700


def test_a_damaged_file_is_no_token(tokens: JoinTokens, tmp_path: Path) -> None:
    token = tokens.make("f" * 64, NOW_S + 60, 1, NOW_S)
    (tmp_path / "join-tokens" / token.token_id).write_bytes(b"{")
    assert tokens.listed() == {}
    with pytest.raises(Denied):
        tokens.check(token.bearer, NOW_S)
