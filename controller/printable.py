"""Text that strangers choose, made fit for a log line, a label or a message."""

from __future__ import annotations


def printable(text: str, most: int) -> str:
    """At most the first `most` characters; what cannot be printed becomes `?`."""
    return "".join(c if c.isprintable() else "?" for c in text[:most])
