"""Reading of the progress file that an executor writes. It comes from a container, so it is hostile input.

It is opened without following links, and must be a regular file of the executor's user, at most `progress.MAX_BYTES` and
`progress.MAX_STAGES`, of the schema, for that executor; counters may not be negative. Anything else is no progress at all,
with the reason. Claimed progress is bounded further at its use: by tasks (`stage_model.live`) and by container CPU
(`accounting`).
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

import msgspec

from stage_model.decoding import UNREADABLE
from stage_model.progress import MAX_BYTES, Progress, what_is_wrong

NAME = "progress.json"
_decoder = msgspec.json.Decoder(Progress)


class ProgressRefused(Exception):
    """The file is there but cannot be believed; the message says why."""


def read_progress(directory: Path, executor_id: str, uid: int) -> Progress | None:
    """Return the executor's progress, None when there is no file yet. Raise `ProgressRefused`."""
    try:
        descriptor = os.open(f"{directory}/{NAME}", os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ProgressRefused(f"progress file of executor {executor_id} cannot be opened: {error.strerror}") from error
    try:
        info = os.fstat(descriptor)
        if not stat.S_ISREG(info.st_mode):
            raise ProgressRefused(f"progress file of executor {executor_id} is not a regular file")
        if info.st_uid != uid:
            raise ProgressRefused(f"progress file of executor {executor_id} belongs to uid {info.st_uid}, not {uid}")
        if info.st_size > MAX_BYTES:
            raise ProgressRefused(f"progress file of executor {executor_id} has {info.st_size} bytes, over {MAX_BYTES}")
        data = os.read(descriptor, MAX_BYTES)
    finally:
        os.close(descriptor)
    try:
        progress = _decoder.decode(data)
    except UNREADABLE as error:
        raise ProgressRefused(f"progress file of executor {executor_id} does not fit its schema: {error}") from error
    if wrong := what_is_wrong(progress, executor_id):
        raise ProgressRefused(f"progress file of executor {executor_id} {wrong}")
    return progress
