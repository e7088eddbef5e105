"""The base of all messages.

Everything is level-triggered: a message gives a wanted or an observed state, never a step, so it may be lost or repeated.
Between processes a deadline travels as seconds left at sending (docs/concepts.md, The clock). See docs/protocol.md.
"""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """The base of messages, which ignores unknown fields, so that a field can be added without a new version of the wire."""
