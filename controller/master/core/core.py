"""The core of the master, put together. Its shell feeds in what drivers, agents and people say, and the time; `follow_up`
returns the effects, which the shell carries out (`controller.master.outside`).

    admit   admission: whether an application is taken in; pipelines: deadlines of jobs that have one end together;
            submissions: which drivers that wait for other jobs may start
    place   lifecycle: each application's executors, its driver's death; placing: on which workers there is room; silence:
            workers that do not report, and the executors that are lost with them
    host    hosting: drivers that agents run, and that are started again
    plan    agents: what each worker should be like, with the plans of its applications (`planning`)
    record  records: the records of runs that have ended
    logs    logs: logs of executors that people read, which the agents of their workers send

Everything is level-triggered: a repeated message changes nothing, a lost one comes again. A part that changes something notes
it (`changes`); no part acts on the outside.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from controller.asks.user_limits import UserLimits
from controller.master.core.admission import Admission
from controller.master.core.agents import Agents
from controller.master.core.commands import Commands
from controller.master.core.drivers import Drivers
from controller.master.core.effects import Effect
from controller.master.core.hosting import Hosting
from controller.master.core.lifecycle import Lifecycle
from controller.master.core.logs import Logs
from controller.master.core.pipelines import Pipelines
from controller.master.core.placing import Placing
from controller.master.core.registry import MasterLife, Registry
from controller.master.core.silence import Silence
from controller.master.core.submissions import Submissions
from placement.fleet import Fleet
from placement.policies import Draw
from placement.scores import Weights


@dataclass(frozen=True, slots=True)
class ClusterOptions:
    """Options of a cluster. `law` and `placement` are those of applications that name none, `memory` divides a worker's
    off-heap memory. A worker without a report for `lost_after_s` is lost. `users` has the limits of users. `observe`: every
    application is only watched."""

    law: str = "forecast"
    memory: str = "equal"
    placement: str = "spread"
    weights: Weights = field(default_factory=Weights)
    lost_after_s: float = 30.0
    users: tuple[UserLimits, ...] = ()
    observe: bool = False


class Core:
    """All that the master decides. `draw` gives placement numbers in [0, 1), run folders are in `runs`."""

    def __init__(self, life: MasterLife, options: ClusterOptions, draw: Draw, runs: str) -> None:
        self.registry = Registry(life, options.users)
        self.workers, self.applications = self.registry.workers, self.registry.applications
        self.placing = Placing(self.registry, Fleet(weights=options.weights, draw=draw), options.placement)
        self.lifecycle = Lifecycle(self.registry, self.placing)
        self.silence = Silence(self.registry, options.lost_after_s)
        self.pipelines, self.submissions = Pipelines(self.registry), Submissions(self.registry)
        self.admission = Admission(self.registry, self.placing, self.pipelines, options.law, observe=options.observe)
        self.drivers = Drivers(self.registry)
        self.hosting = Hosting(self.lifecycle)
        self.agents = Agents(self.registry, self.lifecycle, self.hosting, options.memory)
        self.logs = Logs(self.registry, self.lifecycle)
        self.commands = Commands(self.registry, self.placing, self.submissions, self.hosting, runs)

    def follow_up(self, now_s: float) -> list[Effect]:
        """Follow up all changes by now; return the effects."""
        return self.lifecycle.follow_up(now_s)

    def take_effects(self) -> list[Effect]:
        """Return the effects noted by now, before the changes are followed up."""
        return self.registry.changes.take_effects()
