"""The version of the wire; every HTTP request and answer of Sparkpace names it in the header `HEADER`.

Two peers understand each other if they name the same version. The bridge has the same rule in `MasterClient.java`.
"""

from __future__ import annotations

from stage_model.errors import OtherVersion

HEADER = "Sparkpace-Wire"
SPOKEN = "1"
"""The number grows when the wire changes so that a peer of the release before would be misled or fail."""


def check_header(named: str | None, sender: str, reader: str) -> None:
    """Raises `OtherVersion` if a message whose header says `named` is not for this release. A message without the header
    (None) is accepted: a person with curl sends none. `sender` and `reader` are what a person calls the two sides."""
    if named not in (None, SPOKEN):
        raise OtherVersion(
            f"{sender} speaks wire version {named!r:.40}, {reader} {SPOKEN!r}; install the same release of Sparkpace for both"
        )
