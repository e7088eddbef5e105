"""The decision of `up` on a home where a cluster was started before: start what is missing, or refuse. Pure.

A service lives if it holds a lock of the home (`controller.locks`), however it was started.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from controller.home import Cluster
from controller.locks import Holder
from controller.machine.process import Process
from stage_model.errors import BadInput


@dataclass(frozen=True, slots=True)
class FoundAgent:
    """The two processes of a worker's agent; None for a process that has ended."""

    supervisor: Holder | None = None
    child: Holder | None = None


@dataclass(frozen=True, slots=True)
class Found:
    """Services of a home that live; `agents` has every worker of which a process lives."""

    master: Holder | None = None
    agents: Mapping[str, FoundAgent] = field(default_factory=dict)

    def agent(self, worker_id: str) -> FoundAgent:
        return self.agents.get(worker_id, FoundAgent())

    def names(self) -> list[str]:
        """Return the names of the services for people."""
        return [*(["the master"] if self.master else []), *(f"the agent of {name}" for name in self.agents)]

    def missing(self, recorded: Cluster) -> list[str]:
        """Return the names of the services of the recorded cluster that do not live, for people."""
        agents = [agent.worker_id for agent in recorded.agents if self.agent(agent.worker_id).supervisor is None]
        return [*([] if self.master else ["the master"]), *(f"the agent of {name}" for name in agents)]

    def holders(self) -> list[tuple[str, Holder]]:
        """Return every process with a name for people, in the order in which they are to end: agents before the master,
        supervisors before their children, which they would bring back."""
        supervisors = [(f"the agent of {name}", agent.supervisor) for name, agent in self.agents.items()]
        children = [(f"the agent's child of {name}", agent.child) for name, agent in self.agents.items()]
        found = [*supervisors, *children, ("the master", self.master)]
        return [(name, holder) for name, holder in found if holder is not None]

    def processes(self, *, master: bool) -> tuple[Process, ...]:
        """Return the processes that can be signalled from here: of the master, or of agents."""
        return tuple(holder.process for name, holder in self.holders() if holder.process and (name == "the master") == master)


@dataclass(frozen=True, slots=True)
class Healing:
    """Services to heal: `master` and `agents` are to be started, agents in `restarting` have a supervisor that is about to
    start their child, and agents in `living` have both processes."""

    master: bool
    agents: tuple[str, ...]
    restarting: tuple[str, ...]
    living: tuple[str, ...]

    @property
    def needed(self) -> bool:
        return self.master or bool(self.agents or self.restarting)


def decide_healing(recorded: Cluster | None, found: Found, given: Mapping[str, Any]) -> Healing | None:
    """Return what is to be started of the recorded cluster; None for a new one with the options given.

    `given` are the options of this call of `up`, by name, without options that were left out. Raise `BadInput` for options
    that the cluster could get only after its services have ended."""
    if recorded is None:
        if found.names():
            raise BadInput(
                f"{' and '.join(found.names())} of this home run, which `sparkpace up` did not start; end them with "
                f"`sparkpace down`, or name another --home"
            )
        return None
    lives = bool(found.names())
    if given and not lives:
        return None
    if others := differing(recorded, given):
        raise BadInput(
            f"a cluster of this home already runs at {recorded.url}, started with another {' and '.join(others)}; end it "
            f"with `sparkpace down` first, give its options or none to start what is missing of it, or name another --home"
        )
    agents = {agent.worker_id: found.agent(agent.worker_id) for agent in recorded.agents}
    healing = Healing(
        master=found.master is None,
        agents=tuple(name for name, agent in agents.items() if agent.supervisor is None),
        restarting=tuple(name for name, agent in agents.items() if agent.supervisor and agent.child is None),
        living=tuple(name for name, agent in agents.items() if agent.supervisor and agent.child),
    )
    words = {agent.worker_id: agent.words for agent in recorded.agents}
    if (healing.master and not recorded.master_words) or not all(words[name] for name in healing.agents):
        raise BadInput(
            f"cluster.json of the cluster at {recorded.url} does not say how its services were started; end it with "
            f"`sparkpace down` and start a new one"
        )
    return healing


def differing(recorded: Cluster, given: Mapping[str, Any]) -> Sequence[str]:
    """Return the given options, as --name, whose values differ from the running cluster's. The values that 0 and `auto`
    became at its start count as the same, too."""
    became = {"port": recorded.port, "runtime": recorded.runtime}
    return [
        f"--{name}"
        for name, value in given.items()
        if value != recorded.options.get(name) and (name not in became or value != became[name])
    ]
