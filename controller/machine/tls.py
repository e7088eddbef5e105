"""The address of a master, and the CA by which it must prove itself: no CA is trusted but that in the cluster's home.

The CA is made by `controller.machine.authority`; `controller.machine.http` connects. The bridge has its own end
(`Pinned.java`).
"""

from __future__ import annotations

import hashlib
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


def pinning(ca: Path) -> ssl.SSLContext:
    """Return a TLS context that trusts the CA in the file `ca` and no other. Raise `Unavailable` for a file that cannot be
    used."""
    try:
        return _context(ca, ca.stat().st_mtime_ns)
    except FileNotFoundError:
        raise Unavailable(
            f"there is no CA file {ca}; the first `sparkpace up` makes it, other machines need a copy"
        ) from None
    except OSError as error:  # an error of ssl is one
        raise Unavailable(f"the CA file {ca} cannot be used ({error}); it must be a certificate in PEM") from error


def certificate_in(ca: Path) -> bytes:
    """Return the certificate in the file `ca`, in DER: a text in PEM may hold more than one. Raise `OSError`, and
    `ValueError` for another file."""
    return ssl.PEM_cert_to_DER_cert(ca.read_text())


def fingerprint(certificate: bytes) -> str:
    """Return the SHA-256 of a certificate in DER, in hexadecimal digits."""
    return hashlib.sha256(certificate).hexdigest()


@lru_cache(maxsize=8)
def _context(ca: Path, _changed_ns: int) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(ca)
    return context
