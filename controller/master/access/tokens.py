"""Rights of bearer tokens: admin, submit, a user's own, one application's own token, one worker's, or that of metrics
(docs/protocol.md). Only hashes are kept."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable

from controller.home import HASHED, User
from stage_model.errors import Denied


def digest(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def digest_of_kept(kept: str) -> str:
    """Return the hash of a token by the content of its file: the token itself or, of a worker that has joined, its hash."""
    return kept.removeprefix(HASHED) if kept.startswith(HASHED) else digest(kept)


def mint() -> str:
    return secrets.token_urlsafe(32)


class Gatekeeper:
    """The check of bearer tokens against the scope a call needs. Admin may do all that people and drivers may, but speaks for
    no worker: its token has no business on a worker's machine. `worker_token` gives the content of the file of the worker's
    agent, `user_of` the user whose own token it is, `metrics_token` the token that reads metrics and nothing else; None where
    none exists. A user's own token is for all that the submit token is for."""

    def __init__(
        self,
        admin: str,
        submit: str,
        worker_token: Callable[[str], str | None],
        user_of: Callable[[str], User | None] = lambda _: None,
        metrics_token: Callable[[], str | None] = lambda: None,
    ) -> None:
        self._metrics_token = metrics_token
        self._admin, self._submit, self._worker_token, self._user_of = digest(admin), digest(submit), worker_token, user_of

    def admin(self, token: str) -> None:
        self._check(token, (self._admin,), "admin")

    def submit(self, token: str) -> None:
        own = () if self.user(token) is None else (digest(token),)
        self._check(token, (self._admin, self._submit, *own), "submit")

    def user(self, token: str) -> User | None:
        """Return the user whose own token it is; None for any other. Files are read only for a token that is not known by
        itself."""
        known = [hmac.compare_digest(digest(token), one) for one in (self._admin, self._submit)]
        return None if any(known) else self._user_of(token)

    def application(self, token: str, token_hash: str | None) -> None:
        """Accept the application's own token, or the admin's."""
        self._check(token, (self._admin, token_hash or ""), "that application's")

    def worker(self, token: str, worker_id: str) -> None:
        """Accept the token of that worker's agent."""
        own = self._worker_token(worker_id)
        self._check(token, ("" if own is None else digest_of_kept(own),), f"{worker_id} agent's")

    def metrics(self, token: str) -> None:
        """Accept the token that reads metrics, or the admin's."""
        own = self._metrics_token()
        self._check(token, (self._admin, "" if own is None else digest(own)), "metrics")

    def _check(self, token: str, accepted: tuple[str, ...], scope: str) -> None:
        given = digest(token)
        # every hash is compared, so the time taken reveals nothing
        if sum(hmac.compare_digest(given, hash_) for hash_ in accepted) == 0:
            what = "no token was given" if not token else "the token given is not valid here"
            raise Denied(f"{what}; give the {scope} token of this cluster")
