"""The workers that start executors as the folder `placement` sees them, with their executors.

A worker's state is made again when something on it has changed (`Changes.dirty_workers`), and only when an application is to
be placed."""

from __future__ import annotations

from collections.abc import Mapping

from controller.master.core import needs
from controller.master.core.application import Application
from controller.master.core.executor_state import Executor
from controller.master.core.guard import guarded
from controller.master.core.needs import planned_peak
from controller.master.core.registry import Registry
from controller.runtime.base import ExecutorKey
from controller.wire.driver import Registration
from controller.wire.worker import WorkerInfo
from master_memory.split import Need
from placement.fleet import Fleet
from placement.resources import SCALE, ResourceSet
from placement.topology import Topology
from placement.worker import Occupant, WorkerState


class WorkerStates:
    """The states of the workers in the `fleet`: `take_offers`, then `occupy` bring them up to date."""

    def __init__(self, registry: Registry, fleet: Fleet) -> None:
        self.registry, self.fleet = registry, fleet
        self.topology, self._located = Topology(), False
        self.offers: Mapping[str, WorkerInfo] = {}
        """Offers of the workers of which the fleet was made."""
        self.needs: dict[str, list[Need]] = {}
        """The executors' needs of memory, by worker."""

    def locate_by(self, topology: Topology) -> None:
        """Take another topology: every worker is looked up in it."""
        self.topology, self._located = topology, False

    def take_offers(self, now_s: float) -> bool:
        """Take in which workers there are; return True if one has come, has gone, offers something else, or may be located
        elsewhere."""
        offers, located = self.registry.workers.starting(now_s), self._located
        if offers is self.offers and located:
            return False
        gone = [name for name in self.offers if name not in offers]
        new = [info for name, info in offers.items() if not located or self.offers.get(name) is not info]
        self.offers, self._located = offers, True
        if gone or new:
            self.fleet.change(gone, [self._state(info) for info in new])
            self.registry.changes.dirty_workers.update(info.worker_id for info in new)
        return bool(gone or new or not located)

    def occupy(self, now_s: float) -> None:
        """Take in the executors on workers on which something has changed."""
        dirty = self.registry.changes.dirty_workers & self.offers.keys()
        self.registry.changes.dirty_workers -= dirty
        for worker_id in dirty:
            worker = self.fleet.get(worker_id)
            assert worker is not None
            worker.pressed = self.registry.workers.by_id[worker_id].relief_steps > 0
            there = [placed for placed in self.registry.on(worker_id) if not placed[1].cleaned]
            worker.occupy(self._occupant(application, executor, now_s) for application, executor in there)
            self.needs[worker_id] = needs.needs(there)

    def host_of(self, driver: Registration) -> str:
        """Return the host that a driver runs on, as workers there call it. The driver may have an address of its own for
        executors; where workers of its machine have several addresses, its own comes first."""
        there = [info.host for info in self.offers.values() if info.boot_id == driver.boot_id]
        return driver.host if driver.host in there or not there else there[0]

    def _state(self, info: WorkerInfo) -> WorkerState:
        return WorkerState(
            info.worker_id,
            cores=info.cores,
            memory_mb=info.memory_mb,
            host=info.host,
            labels=info.labels,
            pieces=ResourceSet({name: count * SCALE for name, count in info.resources.items()}),
            location=self.topology.locate(info.host),
            images=info.images,
        )

    def _occupant(self, application: Application, executor: Executor, now_s: float) -> Occupant:
        """Return an executor as an occupant. An executor that is being ended holds its pieces and ports to its last moment,
        but no longer counts for memory and cores."""
        options, counts, spec = application.options.placement, needs.counts(application, executor), executor.record.spec
        assert spec is not None, "executors that are adopted are on workers that nothing is placed on"
        cores = float(spec.slots)
        with guarded(application, "planning its cores"):
            cores = planned_peak(application, self.registry.workers, now_s, spec.slots)
        return Occupant(
            key=ExecutorKey(application.id, executor.record.executor_id).text,
            application_id=application.id,
            priority=application.priority(),
            cores=cores if counts else 0.0,
            least_mb=spec.memory_mb + (spec.off_heap_floor_mb or 0) if counts else 0,
            held=executor.record.held,
            ports=options.ports,
            group=own_group(application),
            apart=options.apart,
            ending=not counts,
            stays=application.options.observe,
            shares=application.options.deadline_s is None,
        )


def own_group(application: Application) -> str:
    """Return the name from which other applications may want to be apart: the group that the application names, else its own
    name."""
    return application.options.placement.group or application.name
