"""Text that strangers choose, made fit for a log line, a label or a message."""

from __future__ import annotations


def printable(text: str, most: int) -> str:
    """Return the first `most` characters at most; a character that cannot be printed becomes `?`."""
    return "".join(c if c.isprintable() else "?" for c in text[:most])
