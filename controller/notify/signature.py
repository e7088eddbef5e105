"""The header by which a receiver knows that a notification is the cluster's own, and how old it is. Pure."""

from __future__ import annotations

import hashlib
import hmac

HEADER = "Sparkpace-Signature"


def signature(secret: str, body: bytes, epoch_s: float) -> str:
    """`t=SECONDS,v1=HEX`: HMAC-SHA256 of the seconds since the epoch, a full stop and the body."""
    when = int(epoch_s)
    signed = hmac.new(secret.encode(), b"%d." % when + body, hashlib.sha256)
    return f"t={when},v1={signed.hexdigest()}"
