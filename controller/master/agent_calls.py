"""Agents' calls: a report goes into the core (`core.agents`), the answer comes out once its effects are carried out."""

from __future__ import annotations

from controller.master.core import agents
from controller.master.outside import Outside
from controller.wire.worker import Desired, WorkerReply, WorkerSync


class AgentCalls:
    def __init__(self, core: agents.Agents, outside: Outside) -> None:
        self.core, self.outside = core, outside

    def sync(self, worker_id: str, sync: WorkerSync, now_s: float) -> WorkerReply:
        """Take an agent's report in; the reply holds the desired state of its worker. Raise `Denied` for a report of another
        worker than the one whose agent sent it."""
        with self.outside.changing(now_s):
            self.core.take(worker_id, sync, now_s)
        return self.core.reply(worker_id, now_s)

    def desired(self, worker_id: str, now_s: float) -> Desired:
        """Return the desired state of a worker at this time."""
        return self.core.desired(worker_id, now_s)
