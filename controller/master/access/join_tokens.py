"""Join tokens as the master's home keeps them: one file for each, with the hash of its secret and its limits.

`sparkpace join-token` makes, lists and removes the files, the master uses them; a lock keeps a use and a removal apart. As
long as its file is there, a token is good within its limits. Times are seconds of the wall clock since the epoch.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from pathlib import Path

import msgspec
from msgspec import structs

from controller.asks.join_token import TOKEN_ID, JoinToken
from controller.machine.files import locked, write_whole
from controller.master.access.tokens import digest, mint
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput, Denied
from stage_model.units import format_duration

LOCK_S = 10.0
REMEDY = "make another by `sparkpace join-token` on the master's machine"
KEPT_S = 86400.0
"""Time for which an expired token stays listed, so that whoever uses it learns that it has expired."""


class JoinLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of a join token. `workers` are those that have joined with it, `uses` is the most that may, and `digest` is
    the hash of its secret."""

    digest: str
    until_s: float
    uses: int
    workers: tuple[str, ...] = ()


def why_refused(kept: JoinLimits, now_s: float) -> str:
    """Return why a token, whose secret was right, is not good for another worker; empty if it is."""
    if now_s >= kept.until_s:
        return f"it expired {format_duration(now_s - kept.until_s)} ago"
    if len(kept.workers) >= kept.uses:
        return f"it was good for {kept.uses} worker(s), and {', '.join(kept.workers)} joined with it"
    return ""


class JoinTokens:
    """The join tokens in `folder`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def make(self, fingerprint: str, until_s: float, uses: int, now_s: float) -> JoinToken:
        """Make a token; only its hash is kept. Tokens that have expired long ago are removed. Raise `OSError`."""
        self._folder.mkdir(mode=0o700, exist_ok=True)
        made = JoinToken(secrets.token_hex(4), mint(), fingerprint)
        self._write(made.token_id, JoinLimits(digest=digest(made.secret), until_s=until_s, uses=uses))
        for token_id, kept in self.listed().items():
            if now_s - kept.until_s > KEPT_S:
                (self._folder / token_id).unlink(missing_ok=True)  # another call may be making a token, too
        return made

    def listed(self) -> Mapping[str, JoinLimits]:
        files = sorted(self._folder.glob("*")) if self._folder.is_dir() else []
        found = {file.name: self._read(file.name) for file in files if TOKEN_ID.fullmatch(file.name)}
        return {token_id: kept for token_id, kept in found.items() if kept is not None}

    def revoke(self, token_id: str) -> None:
        """Remove a token. Raise `BadInput` for an id that no token has, `OSError`, and `RuntimeFailed` as `locked` does."""
        if not TOKEN_ID.fullmatch(token_id) or self._read(token_id) is None:
            known = ", ".join(self.listed())
            accepted = f"accepted: {known}" if known else "no join token is left to remove"
            raise BadInput(f"no join token has the id {token_id[:80]!r}; {accepted}")
        with locked(self._folder / "lock", LOCK_S):
            (self._folder / token_id).unlink(missing_ok=True)

    def check(self, bearer: str, now_s: float) -> str:
        """Return the id of the token that a call has brought. Raise `Denied` unless it is good for another worker."""
        return self._find_good(bearer, now_s)[0]

    def _find_good(self, bearer: str, now_s: float) -> tuple[str, JoinLimits]:
        """Return the id and the limits of the token that a call has brought. Raise as `check` does."""
        token_id, _, secret = bearer.partition(".")
        kept = self._read(token_id) if TOKEN_ID.fullmatch(token_id) else None
        # a token that is not known takes as long as one whose secret is wrong
        if not hmac.compare_digest(digest(secret), kept.digest if kept is not None else digest("")) or kept is None:
            raise Denied(f"the join token given is not valid here, or was revoked; {REMEDY}")
        if why := why_refused(kept, now_s):
            raise Denied(f"join token {token_id} is not good any more: {why}; {REMEDY}")
        return token_id, kept

    def use(self, bearer: str, now_s: float, worker_id: str) -> str:
        """Note that the worker joins with the token; return the token's id. Raise as `check` and `locked` do, and
        `OSError`."""
        with locked(self._folder / "lock", LOCK_S):
            token_id, kept = self._find_good(bearer, now_s)
            self._write(token_id, structs.replace(kept, workers=(*kept.workers, worker_id)))
        return token_id

    def _read(self, token_id: str) -> JoinLimits | None:
        try:
            return msgspec.json.decode((self._folder / token_id).read_bytes(), type=JoinLimits)
        except (OSError, *UNREADABLE):
            return None

    def _write(self, token_id: str, kept: JoinLimits) -> None:
        write_whole(self._folder / token_id, msgspec.json.encode(kept) + b"\n")
