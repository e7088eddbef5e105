"""Paths that a user wants executors to see: `--mount PATH[:ro|:rw]` and its form as a Spark setting.

This module takes only what the text says; whether a worker allows the path is its agent's to decide.
"""

from __future__ import annotations

import os
from pathlib import Path, PurePath

from controller.wire.worker import Mount
from stage_model.errors import BadInput
from stage_model.units import comma_separated

MOST_MOUNTS = 64
"""Largest number of mounts: each is looked for before an executor starts, one executor after the other."""


def _parse_mount(text: str, working_dir: PurePath, option: str) -> Mount:
    """Parse PATH, PATH:ro or PATH:rw; a relative path starts at `working_dir`. Read-only unless said. Raise `BadInput`."""
    path, colon, mode = text.rpartition(":")
    if not colon:
        path, mode = text, "ro"
    if mode not in ("ro", "rw") or not path or ":" in path:
        raise BadInput(f"{option} {text!r} is not usable; give PATH, PATH:ro or PATH:rw, PATH without , or :")
    absolute = os.path.normpath(working_dir / path)
    try:
        exists = Path(absolute).exists()
    except OSError:  # too long a name, or below what this user may not look into
        exists = False
    if not exists:
        raise BadInput(f"{option} {text!r} does not exist; give an existing file or directory")
    return Mount(path=absolute, writable=mode == "rw", asked=True)


def parse_mounts(text: str, working_dir: PurePath, option: str = "spark.pace.mounts") -> tuple[Mount, ...]:
    """Parse the comma-separated paths, as a Spark setting carries it. Raise `BadInput`."""
    parts = comma_separated(text)
    if len(parts) > MOST_MOUNTS:
        raise BadInput(f"{option} names {len(parts)} paths; accepted: {MOST_MOUNTS} at most")
    return tuple(_parse_mount(part, working_dir, option) for part in parts)


def format_mounts(mounts: tuple[Mount, ...]) -> str:
    """Return the form that `parse_mounts` reads."""
    return ",".join(f"{mount.path}:{'rw' if mount.writable else 'ro'}" for mount in mounts)
