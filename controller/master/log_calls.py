"""Calls for logs of executors, which people read and the agents of their workers have: a call waits until the agent's next
report has the log."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping

import msgspec

from controller.master.core.application_record import ID
from controller.master.core.executor_state import ExecutorRecord
from controller.master.core.logs import Logs
from controller.master.outside import Outside
from controller.runtime.base import ExecutorKey
from controller.wire.command import ExecutorLog, ExecutorPlaces
from controller.wire.worker import LogTail
from stage_model.decoding import UNREADABLE
from stage_model.errors import BadInput

log = logging.getLogger("sparkpace.master")

ANSWER_S = 8.0
"""Time within which an agent's report has the log; a command waits for 10 s. An agent that is not cut off takes a second."""

Files = Mapping[str, LogTail]


class LogCalls:
    """The calls. Each raises `BadInput` for an application or an executor that is not known."""

    def __init__(self, core: Logs, outside: Outside) -> None:
        self.core, self.outside = core, outside
        self._readers: dict[tuple[str, str], list[asyncio.Future[Files]]] = {}
        """Calls that wait, by worker and executor."""

    def places(self, application_id: str) -> ExecutorPlaces:
        """Return where an application's executors are, or were."""
        return ExecutorPlaces(executors=self.core.places(self._records(application_id)))

    async def read(
        self, application_id: str, executor_id: str, clock: Callable[[], float], within_s: float = ANSWER_S
    ) -> ExecutorLog:
        """Return the ends of an executor's log. Raise `Unavailable` where its agent cannot send it, or does not in time."""
        place = self.core.place(application_id, executor_id, self._records(application_id))
        key = ExecutorKey(application_id, executor_id)
        reader: asyncio.Future[Files] = asyncio.get_running_loop().create_future()
        readers = self._readers.setdefault((place.worker_id, key.text), [])
        readers.append(reader)
        try:
            with self.outside.changing(clock()):
                self.core.want(key, place)
            return ExecutorLog(files=dict(await asyncio.wait_for(reader, within_s)))
        except TimeoutError:
            reason = f"the agent of worker {place.worker_id} has not sent it within {within_s:g} s"
            raise self.core.unread(place, reason) from None
        finally:
            readers.remove(reader)
            if not readers:
                self._readers.pop((place.worker_id, key.text), None)
                with self.outside.changing(clock()):
                    self.core.unwant(key, place.worker_id)

    def take(self, worker_id: str, logs: Mapping[str, Files]) -> None:
        """Hand the logs that a worker's report has to the calls that wait for them; others are left out."""
        for text, files in logs.items():
            for reader in self._readers.get((worker_id, text), ()):
                if not reader.done():
                    reader.set_result(files)
                self.core.unwant(ExecutorKey.parse(text), worker_id)

    def _records(self, application_id: str) -> list[ExecutorRecord]:
        """Return the records of the executors that an application has or had, also if an earlier life of the master has seen
        its end. Raise `BadInput` for an application that is not known here."""
        application = self.outside.registry.applications.get(application_id)
        if application is not None:
            return [executor.record for executor in application.executors.values()]
        if not ID.fullmatch(application_id) or application_id not in self.outside.registry.past:
            raise BadInput(
                f"no application {application_id!r:.80} is known here; `sparkpace ps` and the folder `runs` have the ids"
            )
        found = []
        for executor_id, data in self.outside.store.executors(application_id):
            try:
                found.append(msgspec.json.decode(data, type=ExecutorRecord))
            except (*UNREADABLE, TypeError) as error:
                log.warning("executor %s of %s cannot be read (%s), nor is its log found", executor_id, application_id, error)
        return found
