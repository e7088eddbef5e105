"""The effects of the master's decisions, as plain data. The core notes them in `Changes`; its shell carries them out
(`controller.master.outside`)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["info", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Log:
    """A line for the master's log, with the traceback of `error` if there is one."""

    level: Level
    line: str
    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Wake:
    """A wake-up: the desired states of these workers have changed, so their agents should look again at once."""

    worker_ids: frozenset[str]


Effect = Log | Wake
