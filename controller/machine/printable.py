"""Text that strangers choose, made fit for a log line, a label or a message."""

from __future__ import annotations


def printable(text: str, most: int) -> str:
    """Return the first `most` characters at most; those that cannot be printed become `?`."""
    return "".join(c if c.isprintable() else "?" for c in text[:most])
