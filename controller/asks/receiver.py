"""The receiver of notifications: the URL that the operator has chosen, checked. Only the operator can choose a receiver."""

from __future__ import annotations

import urllib.parse
from typing import NamedTuple

from controller.machine.addresses import is_loopback
from stage_model.errors import BadInput

LONGEST_URL = 2000
ACCEPTED = "https://HOST[:PORT]/PATH, or http:// on this machine's loopback"


class Receiver(NamedTuple):
    """A receiver. `shown` is the URL without its path, which may be secret: it is for a log."""

    url: str
    shown: str


def parse_receiver(url: str, file: str | None = None) -> Receiver:
    """Read a URL. Raise `BadInput` if it is no URL, has a user's name or a fragment, or would go over a network unencrypted.
    For a URL from a `file` the error names only the file, because the URL may be secret."""
    option = "--notify" if file is None else f"what the file of --notify {file} holds"
    shown = f"--notify {url[:80]!r}" if file is None else option
    if len(url) > LONGEST_URL or not url.isascii() or not url.isprintable() or " " in url:
        raise BadInput(f"{shown} is too long or has characters that no URL has; accepted: {ACCEPTED}")
    try:
        parts = urllib.parse.urlsplit(url)
        host, port = parts.hostname or "", parts.port
        host.encode("idna")  # as a resolver is asked: a label of 64 letters is too long
    except ValueError as error:
        raise BadInput(f"{shown} is not a URL ({error}); accepted: {ACCEPTED}") from error
    if parts.scheme not in ("http", "https") or not host or port == 0:
        raise BadInput(f"{shown} is not the URL of a web hook; accepted: {ACCEPTED}")
    if "@" in parts.netloc or parts.fragment:
        raise BadInput(f"{option} has a user's name or a fragment, which are not sent; accepted: {ACCEPTED}")
    if parts.scheme == "http" and not is_loopback(host):
        raise BadInput(f"{shown} would send notifications unencrypted over a network; accepted: {ACCEPTED}")
    return Receiver(url, f"{parts.scheme}://{parts.netloc}")
