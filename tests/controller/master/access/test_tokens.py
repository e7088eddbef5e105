"""Tokens of other clusters, and hashes of the tokens of joined workers. What each token may do, `test_api` shows."""

from __future__ import annotations

import pytest

from controller.home import HASHED
from controller.master.access.tokens import Gatekeeper, digest, mint
from stage_model.errors import Denied

GATE = Gatekeeper("the admin", "a user", {"w1": "of w1", "w2": "of w2"}.get)


def test_of_a_worker_that_has_joined_only_the_hash_is_kept_which_is_no_token() -> None:
    kept = HASHED + digest("of m2")
    gate = Gatekeeper("the admin", "a user", {"m2": kept}.get)
    gate.worker("of m2", "m2")
    for token in (kept, digest("of m2"), "of w1"):
        with pytest.raises(Denied, match="m2"):
            gate.worker(token, "m2")


@pytest.mark.parametrize("token", ["", "wrong", "the admi", "the admin ", "пароль"])
def test_anything_else_is_denied_without_being_quoted(token: str) -> None:
    for check in (
        GATE.admin,
        GATE.submit,
        lambda t: GATE.worker(t, "w3"),
        lambda t: GATE.application(t, None),
        lambda t: GATE.application(t, digest("own")),
    ):
        with pytest.raises(Denied) as problem:
            check(token)
        assert not token or token not in str(problem.value).split()


def test_minted_tokens_differ_and_are_long() -> None:
    minted = {mint() for _ in range(50)}
    assert len(minted) == 50
    assert min(map(len, minted)) >= 43
