"""The version of the wire; every HTTP request and answer of Sparkpace names it in the header `HEADER`.

Two peers understand each other if they name the same version. The bridge has the same rule in `MasterClient.java`.
"""

from __future__ import annotations

from stage_model.errors import OtherVersion

HEADER = "Sparkpace-Wire"
SPOKEN = "1"
"""Version number, which grows with a change of the wire that would mislead a peer of the release before or make it fail."""


def check_header(named: str | None, sender: str, reader: str) -> None:
    """Raise `OtherVersion` if a message with the header `named` is not for this release. A message without the header (None)
    is accepted: a person with curl sends none. `sender` and `reader` are the names of the two sides for people."""
    if named not in (None, SPOKEN):
        raise OtherVersion(
            f"{sender} speaks wire version {named!r:.40}, {reader} {SPOKEN!r}; install the same release of Sparkpace for both"
        )
