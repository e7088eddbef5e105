"""The base of all messages.

Everything is level-triggered: a message says what is wanted or what was seen, never a step, so it may be lost or repeated.
Between processes a deadline travels as seconds left at sending (docs/concepts.md, The clock). See docs/protocol.md.
"""

from __future__ import annotations

import msgspec


class Message(msgspec.Struct, frozen=True, kw_only=True):
    """Base: unknown fields are ignored, and told once (`controller.wire.reading`): an older peer understands a newer one."""
