"""Connections to the master, which must prove itself first: no CA is trusted but that in the cluster's home.

The CA is made by `controller.machine.authority`; commands and agents use this module. The bridge has its own
end (`Pinned.java`).
"""

from __future__ import annotations

import http.client
import ssl
import urllib.parse
from functools import lru_cache
from pathlib import Path

from stage_model.errors import BadInput, Unavailable


def address_of(url: str) -> tuple[str, int]:
    """Return host and port of a master's URL. Raise `BadInput`."""
    accepted = "it must look like https://127.0.0.1:7070"
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname, parts.port
    except ValueError as error:  # a port out of range, a bracket that is not closed
        raise BadInput(f"master URL {url[:200]!r} is not usable ({error}); {accepted}") from error
    if parts.scheme != "https" or not host or port == 0:
        raise BadInput(f"master URL {url[:200]!r} is not usable; {accepted}")
    return host, port or 443


def connect_master(url: str, ca: Path, timeout_s: float) -> http.client.HTTPSConnection:
    """Connect to the master at `url`, which has proved itself once this returns: only then may a token be sent.

    Raise `OSError` when nothing answers, `Unavailable` when another server does or `ca` cannot be used."""
    connection = http.client.HTTPSConnection(*address_of(url), timeout=timeout_s, context=_pinning(ca))
    try:
        connection.connect()
    except (ssl.SSLEOFError, ssl.SSLZeroReturnError):
        raise  # it hung up, as a dying server does
    except ssl.SSLError as error:
        why = getattr(error, "verify_message", "") or error.reason or error
        raise Unavailable(
            f"what answers at {url} is not the master of the CA in {ca} ({why}); no request was sent to it"
        ) from error
    return connection


def _pinning(ca: Path) -> ssl.SSLContext:
    try:
        return _context(ca, ca.stat().st_mtime_ns)
    except FileNotFoundError:
        raise Unavailable(
            f"there is no CA file {ca}; the first `sparkpace up` makes it, other machines need a copy"
        ) from None
    except OSError as error:  # an error of ssl is one
        raise Unavailable(f"the CA file {ca} cannot be used ({error}); it must be a certificate in PEM") from error


@lru_cache(maxsize=8)
def _context(ca: Path, _changed_ns: int) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(ca)
    return context
