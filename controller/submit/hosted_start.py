"""Begin of a hosted driver, as its user: the files that it needs are looked at, then this process becomes `sparkpace submit`.

What is to be started comes as JSON on standard input. A sentence on standard output says why it cannot be; without one, the
output is closed, and the driver's own output goes where its errors go: into its log.
"""

from __future__ import annotations

import os
import socket
import sys

import msgspec

from controller.start import ours

REFUSED = 2


class HostedStart(msgspec.Struct, frozen=True, kw_only=True):
    """The words of `sparkpace submit`, its working directory, and the files that it must be able to read."""

    words: tuple[str, ...]
    folder: str
    needs: tuple[str, ...] = ()


def why_not_here(said: HostedStart) -> str:
    """Return a sentence on why the driver cannot start here as this user; empty if it can. Enter its working directory."""
    host, uid = socket.gethostname(), os.geteuid()
    try:
        os.chdir(said.folder)
    except OSError as error:
        why = f"{said.folder} cannot be entered on {host} by uid {uid} ({error.strerror})"
        return f"directory {why}; submit from a directory that both hosts have"
    for path in said.needs:
        if not os.access(path, os.R_OK):
            return f"{path} cannot be read on {host} by uid {uid}; put it at that path there, where this user may read it"
    return ""


def main() -> None:
    said = msgspec.json.decode(sys.stdin.buffer.read(), type=HostedStart)
    if problem := why_not_here(said):
        os.write(1, problem.encode(errors="replace"))
        sys.exit(REFUSED)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    command = ours("controller.cli.main", "submit", *said.words)
    os.execv(command[0], command)  # noqa: S606 - ourselves, no shell


if __name__ == "__main__":
    main()
