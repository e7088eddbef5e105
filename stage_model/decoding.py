"""What decoding other people's JSON raises, in one place: whoever reads what he did not write handles all of it."""

from __future__ import annotations

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Of `msgspec.json.decode` and its decoders: no JSON or not of the type, no UTF-8, nested deeper than Python's stack."""
