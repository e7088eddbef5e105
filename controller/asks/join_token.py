"""The token with which a machine joins a cluster: `sparkpace join-token` prints it, `sparkpace join` takes it."""

from __future__ import annotations

import re
from typing import NamedTuple

from stage_model.errors import BadInput

TOKEN_ID = re.compile(r"[0-9a-f]{8}")
"""Form of a join token's id, by which it is listed and revoked, and which is no secret."""
_FORM = re.compile(r"([0-9a-f]{8})\.([A-Za-z0-9_-]{43})\.([0-9a-f]{64})")


class JoinToken(NamedTuple):
    """A join token. `fingerprint` is that of the CA of the cluster (`controller.machine.tls`): a server with another
    fingerprint never sees the `secret`."""

    token_id: str
    secret: str
    fingerprint: str

    @property
    def text(self) -> str:
        """The token as people hand it on."""
        return ".".join(self)

    @property
    def bearer(self) -> str:
        """The part that the master is shown."""
        return f"{self.token_id}.{self.secret}"


def parse_join_token(text: str) -> JoinToken:
    """Return the token. Raise `BadInput`, without the text: it may be nearly right."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise BadInput(
            "the join token is not as `sparkpace join-token` prints one: it was cut off or changed; give all of it"
        )
    return JoinToken(*found.groups())
