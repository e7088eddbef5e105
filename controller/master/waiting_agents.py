"""Agents that wait for the master's change notices."""

from __future__ import annotations

import asyncio
from collections.abc import Collection
from contextlib import suppress


class WaitingAgents:
    """The agents that wait for a newer version of their desired state, and their wake-up."""

    def __init__(self) -> None:
        self._events: dict[str, asyncio.Event] = {}

    def wake(self, worker_ids: Collection[str]) -> None:
        for worker_id in worker_ids:
            event = self._events.pop(worker_id, None)
            if event:
                event.set()

    def wake_all(self) -> None:
        self.wake(list(self._events))

    async def wait(self, worker_id: str, timeout_s: float) -> None:
        event = self._events.setdefault(worker_id, asyncio.Event())
        with suppress(TimeoutError):
            await asyncio.wait_for(event.wait(), timeout_s)
