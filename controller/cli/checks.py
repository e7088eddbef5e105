"""Checks of the values that the services' commands are given; each refusal names option, value and what would be accepted."""

from __future__ import annotations

import ipaddress
import math
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from controller.asks.receiver import ACCEPTED, Receiver, parse_receiver
from controller.home import WORKER_ID
from controller.machine.files import read_plain
from stage_model.errors import BadInput
from stage_model.settings import LONGEST_PERIOD_S, SHORTEST_PERIOD_S
from stage_model.units import parse_duration, parse_memory_mb

LEAST_TMP_MB = 16
"""Smallest /tmp: a JVM unpacks some MB of libraries there."""
LEAST_MB = 512
"""Smallest memory of a worker: an executor of Spark hardly starts in less."""
_NAME = re.compile(r"[A-Za-z0-9]([A-Za-z0-9.-]{0,252}[A-Za-z0-9])?")
SHORTEST_LOST_S, LONGEST_LOST_S = 15.0, 86_400.0
"""Bounds of `--lost-after`: an agent that died reports again within a few seconds, and people learn of a silence
after 10 s."""


def check_address(host: str, option: str = "--host") -> str:
    """Check an address or name under which other machines reach a worker's executors, or the master. Raise `BadInput`."""
    # a word of only digits would be an address, and a resolver takes "10.1" for one
    if not _NAME.fullmatch(host) or not host.strip("0123456789."):
        try:
            ipaddress.ip_address(host)
        except ValueError:
            raise BadInput(f"{option} {host[:80]!r} is not an address; give an IP address or a host's name") from None
    return host


def _least_memory(what: str, least_mb: int, text: str, *, option: str) -> int:
    """Return the MiB of an amount of memory that is enough. Raise `BadInput`."""
    memory_mb = parse_memory_mb(text, option=option)
    if memory_mb < least_mb:
        raise BadInput(f"{option} {text} is too little for {what}; it must be {least_mb}m or more")
    return memory_mb


parse_worker_memory = partial(_least_memory, "a worker", LEAST_MB)
parse_tmp_limit = partial(_least_memory, "a JVM", LEAST_TMP_MB)


def check_namespace(name: str, *, option: str) -> str:
    """Check a namespace of Kubernetes. Raise `BadInput`."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name):
        raise BadInput(f"{option} {name[:80]!r} is not a namespace; give a name as Kubernetes has them, such as spark-jobs")
    return name


def duration_within(text: str, option: str, least_s: float, most_s: float, accepted: str) -> float:
    """Return the seconds of a duration within these bounds, which `accepted` describes. Raise `BadInput`."""
    try:
        seconds = parse_duration(text, option=option)
    except BadInput:
        seconds = math.nan
    if not least_s <= seconds <= most_s:
        raise BadInput(f"{option} {text[:80]!r} cannot be taken; accepted: {accepted}")
    return seconds


parse_period = partial(duration_within, least_s=SHORTEST_PERIOD_S, most_s=LONGEST_PERIOD_S, accepted="200ms to 60s")
parse_lost_after = partial(
    duration_within,
    least_s=SHORTEST_LOST_S,
    most_s=LONGEST_LOST_S,
    accepted="15s to 1d, longer than an agent takes to restart",
)


def parse_worker_id(text: str, *, option: str = "--worker-id") -> str:
    if not WORKER_ID.fullmatch(text):
        raise BadInput(f"{option} {text!r} is not usable; it must be 1 to 63 of a-z, 0-9, '.', '_', '-'")
    return text


def checked_folders(given: Sequence[Path], *, option: str) -> tuple[Path, ...]:
    """Return the paths as absolute ones. Raise `BadInput` for a path that is no directory."""
    absolute = tuple(path.expanduser().absolute() for path in given)
    for path in absolute:
        if not path.is_dir():
            raise BadInput(f"{option} {path} is not a directory; name an existing directory")
    return absolute


def parse_notify(given: str) -> Receiver:
    """Parse a web hook's URL, or @FILE with one in it: a URL may be a secret, and users who may list processes see arguments.
    Raise `BadInput`."""
    if not given.startswith("@"):
        return parse_receiver(given)
    if given == "@":
        raise BadInput(f"--notify @ names no file; give @FILE with {ACCEPTED} in it")
    path = Path(given[1:])
    content = read_plain(path, what="the file of --notify", largest=1 << 20, follow=True, safe=True)
    if content is None:
        raise BadInput(f"--notify {given[:200]}: there is no file {path}; give @FILE with {ACCEPTED} in it")
    if path.stat().st_mode & 0o077:
        raise BadInput(f"the file of --notify {path} may be read by others; run chmod 600 on it")
    if not content.strip():
        raise BadInput(f"the file of --notify {path} is empty; write {ACCEPTED} into it")
    return parse_receiver(content.decode("ascii", errors="replace").strip(), str(path))


def absolute_notify(given: str) -> str:
    """Return the value as another process takes it, which may have another working directory."""
    return f"@{Path(given[1:]).absolute()}" if given.startswith("@") else given
