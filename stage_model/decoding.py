"""Errors of decoding JSON from other programs, in one place: code that reads such JSON handles all of them."""

from __future__ import annotations

import msgspec

UNREADABLE = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""Errors of `msgspec.json.decode` and its decoders: no JSON or not of the type, no UTF-8, nested deeper than Python's
stack."""
