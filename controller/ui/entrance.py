"""Access to the live page: one-time links, the sessions that they begin, and the checks of a request. Pure.

A browser sends cookies of 127.0.0.1 to every port there, and a job's Spark UI may listen on one. So all pages lie below a
path that cannot be guessed, and the cookie is only for that path. Not covered: HTTP itself (`server`).
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from stage_model.errors import BadInput, Denied

LINK_S = 300.0
"""Time after which an unused link is no longer good."""
SESSION_S = 12 * 3600.0
MOST_SESSIONS = 100
"""Most sessions; the oldest goes when there are more."""
COOKIE = "sparkpace"


class Entrance:
    """The page's links and sessions. The proxy listens on `port`; `mint` gives words that no one can guess. Times are
    monotonic seconds. Only hashes of links and sessions are kept."""

    def __init__(self, port: int, mint: Callable[[], str]) -> None:
        self.hosts = (f"127.0.0.1:{port}", f"localhost:{port}")
        self.path = f"/{mint()}/"
        self._mint = mint
        self._link, self._link_ends_s = "", 0.0
        self._sessions: dict[str, float] = {}
        """End of each session, by its hash."""

    def new_link(self, now_s: float) -> str:
        """Make a URL that lets one browser in, within `LINK_S`. The link before is no longer good."""
        once = self._mint()
        self._link, self._link_ends_s = _hashed(once), now_s + LINK_S
        return f"http://{self.hosts[0]}{self.path}enter?once={once}"

    def is_stale(self, once: str, now_s: float) -> bool:
        """Return True if `once` is of the last link, and the link was not used in time."""
        return bool(self._link) and _hashed(once) == self._link and now_s >= self._link_ends_s

    def enter(self, once: str, now_s: float) -> str:
        """Begin a session; return its cookie's value. Raise `Denied`."""
        if not self._link or _hashed(once) != self._link or now_s >= self._link_ends_s:
            raise Denied("this link was used before or is too old; open the last one that `sparkpace ui` has printed")
        self._link = ""
        session = self._mint()
        self._sessions[_hashed(session)] = now_s + SESSION_S
        while len(self._sessions) > MOST_SESSIONS:
            del self._sessions[next(iter(self._sessions))]
        return session

    def check_session(self, cookie: str | None, now_s: float) -> None:
        """Raise `Denied` unless the cookie is of a session that goes on."""
        if cookie is None or now_s >= self._sessions.get(_hashed(cookie), 0.0):
            raise Denied("there is no session here; open the link that `sparkpace ui` has printed")

    def check_sender(self, headers: Mapping[str, str], *, changes: bool) -> None:
        """Check that the call is not from a page of another origin, and that a call that `changes` something names its
        origin. `headers` have names in lower case. Raise `Denied`."""
        host, origin = headers.get("host", ""), headers.get("origin")
        if host not in self.hosts:
            raise Denied(f"the page was asked for as {host!r:.80}; open it as {' or '.join(self.hosts)}")
        if (origin is None and changes) or (origin is not None and origin != f"http://{host}"):
            raise Denied(f"the call comes from {origin!r:.80}, not from the page itself, http://{host}")
        if headers.get("sec-fetch-site", "none") not in ("none", "same-origin"):
            raise Denied("the call comes from another page; open this one by its link")


def check_size(headers: Mapping[str, str], most: int) -> None:
    """Check the size of a body. Raise `BadInput`."""
    length = headers.get("content-length", "")
    if not length.isascii() or not length.isdigit() or int(length) > most:
        raise BadInput(f"the body has {length!r:.20} bytes; announce a length of 0 to {most}")


def _hashed(word: str) -> str:
    """Return the word's hash. Hashes are compared, so the time taken reveals nothing of the word."""
    return hashlib.sha256(word.encode()).hexdigest()
