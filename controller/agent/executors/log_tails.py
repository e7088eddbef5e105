"""The ends of executors' logs that people read by way of the master.

Only names come from outside: they are checked, and the path is this worker's own. An executor may write into the folder of
its log, so a file counts only if it is a plain one; a link would lead to a file of another user.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

from controller.agent.site import Site
from controller.machine.files import read_tail
from controller.runtime.base import ExecutorKey
from controller.wire.limits import LOG_BYTES, LOGS
from controller.wire.worker import LogTail
from stage_model.errors import BadInput

FILES = ("stdout", "stderr")
KEY = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}/[0-9]{1,10}", re.ASCII)
"""Form of the "APPLICATION/EXECUTOR" of an executor that a worker has started."""
LONGEST_PROBLEM = 500


def log_tails(wanted: Iterable[str], site: Site) -> dict[str, dict[str, LogTail]]:
    """Return the ends of the wanted logs, `LOGS` of them at most: none for an executor that has printed nothing here,
    and none for a text that names no executor."""
    found = dict[str, dict[str, LogTail]]()
    for text in islice(wanted, LOGS):
        found[text] = _tails(site.log_dir(ExecutorKey.parse(text))) if KEY.fullmatch(text) else {}
    return found


def _tails(folder: Path) -> dict[str, LogTail]:
    tails = {name: _tail(folder / name) for name in FILES}
    return {name: tail for name, tail in tails.items() if tail is not None}


def _tail(path: Path) -> LogTail | None:
    try:
        found = read_tail(path, LOG_BYTES)
    except BadInput as error:
        return LogTail(problem=str(error)[:LONGEST_PROBLEM])
    return None if found is None else LogTail(content=found[0], size=found[1])
