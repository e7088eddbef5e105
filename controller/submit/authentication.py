"""Spark's own authentication in a driver's settings: a secret, and the file that it comes in.

Spark demands the secret in the driver's conf, before any code of Sparkpace runs (SecurityManager.initializeAuth). All users
can read a command line, so the secret comes in spark-submit's --properties-file. Executors get it by
`Registration.credentials`.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from controller.asks.properties import format_properties
from stage_model.errors import BadInput

ON, SECRET, ENCRYPTED = "spark.authenticate", "spark.authenticate.secret", "spark.network.crypto.enabled"


def authenticated(file: Mapping[str, str], conf: Mapping[str, str], *, encrypt: bool = False) -> dict[str, str]:
    """Return the settings of the user's `file` with authentication on, unless that file, or `conf` from the command line,
    turns it off. A secret in `file` stays. `encrypt`: also the traffic between Spark's processes. Raise `BadInput`."""
    said = {**file, **conf}
    if SECRET in conf:
        raise BadInput(
            f"{SECRET} cannot be given by --conf, where everybody on this machine reads it; leave it out, and submit makes "
            f"one, or put it into the file of --properties-file"
        )
    off = _says_no(said, ON)
    if encrypt and (off or _says_no(said, ENCRYPTED)):
        raise BadInput(f"--encrypt and {ON if off else ENCRYPTED}=false exclude each other; give one of the two")
    if off:
        return dict(file)
    ours = {ON: "true", SECRET: file.get(SECRET) or secrets.token_urlsafe(32)}
    return {**file, **ours, **({ENCRYPTED: "true"} if encrypt else {})}


@contextmanager
def in_memory(settings: Mapping[str, str]) -> Iterator[int]:
    """Provide the descriptor of a file (0600) of settings that lies on no disk and goes with the last process that has it
    open: not even SIGKILL leaves anything behind. A child that gets the descriptor reads `path_of` it, as often as it
    likes."""
    descriptor = os.memfd_create("spark.conf")
    try:
        os.fchmod(descriptor, 0o600)
        with os.fdopen(os.dup(descriptor), "w", encoding="utf-8") as file:
            file.write(format_properties(settings))
        yield descriptor
    finally:
        os.close(descriptor)


def path_of(descriptor: int) -> str:
    return f"/proc/self/fd/{descriptor}"


def _says_no(settings: Mapping[str, str], key: str) -> bool:
    return settings.get(key, "true").strip().lower() == "false"
