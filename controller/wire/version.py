"""Which versions of the wire this release speaks; every HTTP request and answer names them in the header `HEADER`.

Two peers understand each other if one version is spoken by both. The bridge has the same rule in `MasterClient.java`.
"""

from __future__ import annotations

import re

from stage_model.errors import OtherVersion

HEADER = "Sparkpace-Wire"
OLDEST, NEWEST = 1, 2
"""When the wire changes so that a peer of before would be misled or fail, NEWEST counts up; OLDEST stays one behind."""
SPOKEN = f"{OLDEST}-{NEWEST}"
UNNAMED = "1-1"
"""What a message without the header is written in: the first release named no version."""
_RANGE = re.compile(r"([0-9]{1,4})-([0-9]{1,4})")


def check_header(named: str | None, sender: str, reader: str) -> None:
    """Raises `OtherVersion` if a message whose header says `named` (None: it has none) is not for this release. `sender` and
    `reader` are what a person calls the two sides."""
    found = _RANGE.fullmatch(UNNAMED if named is None else named)
    if found is None:
        raise OtherVersion(
            f"{sender} names its wire version as {named!r:.40}; accepted: the oldest and the newest, as {SPOKEN!r}"
        )
    oldest, newest = int(found[1]), int(found[2])
    if oldest > NEWEST or newest < OLDEST:
        behind = reader if oldest > NEWEST else sender
        raise OtherVersion(f"{sender} speaks wire version {found[0]}, {reader} {SPOKEN}; upgrade {behind}")
