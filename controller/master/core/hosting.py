"""Hosted drivers: each gets a worker that runs it, is started again where it is supervised, and is given up with its worker.

A driver that is placed is listed in the desired state of its worker until the worker's agent has reported that it has ended.
The agent's reports show what runs: a start that the master no longer wants has to end. Each start has a submission id of its
own, so what an earlier start still says is never taken for the next one's.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime
from itertools import islice

import msgspec

from controller.master.core.application import Application
from controller.master.core.arrival import check_texts
from controller.master.core.effects import StoreMeta
from controller.master.core.hosted_driver import PREFIX, HostedDriver
from controller.master.core.lifecycle import SILENCE_S, Lifecycle
from controller.master.core.workers import STALE_S
from controller.wire.hosting import DriverState, HostedReport, HostedSpec, HostedView, HostRequest
from controller.wire.limits import DRIVERS, DRIVERS_OF_A_USER
from controller.wire.states import Outcome
from controller.wire.worker import WorkerInfo
from stage_model.errors import BadInput, TooMuch
from stage_model.nearest import nearest_names

MOST_BYTES = 16 << 20
"""Most bytes of all drivers together, because they are stored as a whole. One has 256 KiB at most."""
STARTED_NEXT = 8
"""Most drivers that an agent, which starts one after the other, is given at a time."""
KEPT = 200
"""Drivers that have ended and are still shown, the last ones."""
TO_START = "start one with `sparkpace up --host-drivers`, or `--host-drivers` of `agent` and `join`"


class Hosting:
    """All hosted drivers, in the order in which they were submitted."""

    def __init__(self, lifecycle: Lifecycle) -> None:
        self.registry, self._wake = lifecycle.registry, lifecycle.wake
        self.drivers: dict[str, HostedDriver] = {}
        self._reported: dict[str, tuple[HostedReport, ...]] = {}
        """The last report of each worker on its drivers."""
        self._begun_s: dict[str, float] = {}
        self._due_s: dict[str, float] = {}

    def restore(self, drivers: Iterable[HostedDriver]) -> None:
        """Take in what an earlier life of the master had stored."""
        self.drivers = {driver.driver_id: driver for driver in drivers}

    # ------------------------------------------------------------------ people

    def made(self, asked: HostRequest, now_s: float, wall_s: float) -> HostedDriver:
        """Return the driver that a user asks for, whom somebody vouches for; it counts once it is stored (`add`). Raise
        `BadInput` for words that no command line carries, and where no worker hosts drivers of that user; `TooMuch` where too
        many drivers run."""
        check_texts((asked.words, asked.working_dir, asked.needs), asked.environment)
        workers = self.registry.workers
        there = workers.fresh(now_s).values() if workers.all_heard(now_s) else workers.known(now_s)
        if not any(_hosts(info, asked.uid) for info in there):
            raise BadInput(f"no worker here hosts drivers of uid {asked.uid}; {TO_START}, or leave --deploy-mode cluster out")
        live = [driver.uid for driver in self.drivers.values() if not driver.final]
        if len(live) >= DRIVERS or live.count(asked.uid) >= DRIVERS_OF_A_USER:
            raise TooMuch(f"{len(live)} hosted drivers run or wait here, too many for another; retry when one has ended")
        if len(msgspec.json.encode((list(self.drivers.values()), asked))) > MOST_BYTES:
            raise TooMuch("the hosted drivers here have too long command lines in all; retry when one has ended")
        last = int(next(reversed(self.drivers)).rpartition("-")[2]) if self.drivers else -1
        at = datetime.fromtimestamp(wall_s, UTC).strftime("%Y%m%d%H%M%S")
        return HostedDriver(
            driver_id=f"{PREFIX}{at}-{(last + 1) % 10_000:04}",
            name=asked.name,
            words=asked.words,
            environment=dict(asked.environment),
            working_dir=asked.working_dir,
            needs=asked.needs,
            uid=asked.uid,
            gid=asked.gid,
            supervise=asked.supervise,
        )

    def add(self, driver: HostedDriver, now_s: float) -> HostedView:
        """Take in a driver that is stored; it gets a worker at once."""
        self.drivers[driver.driver_id] = driver
        self.registry.changes.log(f"{driver.driver_id} was submitted: {driver.name}, uid {driver.uid}")
        self._place(driver, now_s)
        return driver.view()

    def view(self, driver_id: str) -> HostedView:
        """Return what people see of a driver. Raise `BadInput` for an unknown one."""
        return self._known(driver_id).view()

    def views(self) -> tuple[HostedView, ...]:
        return tuple(driver.view() for driver in self.drivers.values())

    def kill(self, driver_id: str) -> bool:
        """Have a driver end for good; return False if it has ended already. Raise `BadInput` for an unknown one."""
        driver = self._known(driver_id)
        if driver.final:
            return False
        self._kill(driver)
        return True

    def kill_with(self, application: Application) -> None:
        """Have the driver of an application that is killed end for good, if it is hosted."""
        driver = self._of(application.options.submission)
        if driver is not None and driver.submission == application.options.submission and not driver.final:
            self._kill(driver)

    def _kill(self, driver: HostedDriver) -> None:
        driver.killed = True
        if driver.worker_id:
            self._wake([driver.worker_id])
        else:
            driver.end(DriverState.KILLED, "it was killed")
        self._save()

    def _known(self, driver_id: str) -> HostedDriver:
        driver = self.drivers.get(driver_id)
        if driver is None:
            near = nearest_names(driver_id, self.drivers)
            raise BadInput(f"no driver {driver_id[:80]!r} was submitted here, or it was forgotten since it ended; {near}")
        return driver

    # ------------------------------------------------------------------ drivers

    def driver_ended(self, submission: str, exit_code: int) -> None:
        """Keep the exit code that the driver of a submission ends with, for the case that its agent does not see it."""
        driver = self._of(submission)
        if driver is not None and driver.submission == submission and not driver.final:
            driver.own_code = exit_code
            self._save()

    def check_submission(self, submission: str | None) -> None:
        """Raise `BadInput` for the submission id of a start that was given up, or has ended: it gets no application."""
        driver = self._of(submission)
        if driver is not None and (driver.final or driver.killed or driver.submission != submission or not driver.worker_id):
            raise BadInput(f"this start of {driver.driver_id} was given up, so its application is not taken in; end it")

    def _of(self, submission: str | None) -> HostedDriver | None:
        """Return the driver that has, or had, a start with that submission id."""
        return self.drivers.get(PREFIX + (submission or "").rpartition("-")[0])

    # ------------------------------------------------------------------ agents

    def take(self, worker_id: str, reports: tuple[HostedReport, ...], now_s: float) -> None:
        """Take in what the agent of a worker says of the drivers there, of which it names all."""
        self._reported[worker_id] = reports
        by_submission = {report.submission: report for report in reports}
        for driver in self._on(worker_id):
            report = by_submission.get(driver.submission)
            if report is None:
                if driver.state is DriverState.RUNNING or driver.killed:
                    self._ended(driver, None, now_s)
            elif report.refused:
                self._refused(driver, report.refused, now_s)
            elif report.ended:
                self._ended(driver, report.exit_code, now_s)
            else:
                self._begun_s.setdefault(driver.driver_id, now_s)  # a master that has started again has not seen its begin
                if driver.state is not DriverState.RUNNING:
                    driver.state = DriverState.RUNNING
                    self._note(driver)

    def specs(self, worker_id: str) -> tuple[HostedSpec, ...]:
        """Return the drivers that are to be started next on a worker."""
        there = (one for one in self._on(worker_id) if not one.killed and one.state is not DriverState.RUNNING)
        return tuple(driver.spec() for driver in islice(there, STARTED_NEXT))

    def here(self, worker_id: str) -> tuple[str, ...]:
        """Return the starts of drivers on a worker whose ends are not known yet."""
        return tuple(driver.submission for driver in self._on(worker_id))

    def stops(self, worker_id: str) -> tuple[str, ...]:
        """Return the starts of drivers that run on a worker and are to end. An unknown driver is left: it may be all that is
        left of a job after the master has lost its memory."""
        wanted = {driver.submission for driver in self._on(worker_id) if not driver.killed}
        running = (report.submission for report in self._reported.get(worker_id, ()) if not report.ended)
        return tuple(one for one in running if one not in wanted and self._of(one) is not None)

    def _on(self, worker_id: str) -> list[HostedDriver]:
        return [driver for driver in self.drivers.values() if driver.worker_id == worker_id and not driver.final]

    # ------------------------------------------------------------------ what only time brings about

    def look(self, now_s: float) -> None:
        """Look, once in each pass, for lost workers and for drivers that can be started now."""
        for driver in list(self.drivers.values()):
            if driver.worker_id and not driver.final and self._is_gone(driver, now_s):
                self._give_up(driver, now_s)
            if not driver.worker_id and not driver.final:
                self._place(driver, now_s)
        self._reported = {name: said for name, said in self._reported.items() if name in self.registry.workers.by_id}
        over = [driver.driver_id for driver in self.drivers.values() if driver.final]
        for driver_id in over:
            self._begun_s.pop(driver_id, None)
        for driver_id in over[:-KEPT]:
            del self.drivers[driver_id]

    def _is_gone(self, driver: HostedDriver, now_s: float) -> bool:
        """Return True if a driver's worker is lost and the driver itself has been silent, too."""
        workers = self.registry.workers
        if driver.worker_id not in workers.by_id and now_s - self.registry.life.begun_s < SILENCE_S:
            return False
        heard = (application.heard_s for application in self._applications(driver))
        return workers.is_lost(driver.worker_id) and all(now_s - heard_s >= STALE_S for heard_s in heard)

    def _give_up(self, driver: HostedDriver, now_s: float) -> None:
        """Count a driver as gone, with its applications: what it says from now on is refused."""
        for application in self._applications(driver):
            self.registry.end(application, now_s, Outcome.DRIVER_DIED)
        why = f"its worker {driver.worker_id} is lost"
        if driver.killed:
            driver.end(DriverState.KILLED, why)
        else:
            self._wait(driver, driver.failed(why, self._ran_s(driver, now_s), DriverState.ERROR), now_s)
        self._note(driver)

    def _applications(self, driver: HostedDriver) -> list[Application]:
        there = self.registry.applications.values()
        return [one for one in there if one.options.submission == driver.submission and not one.ended]

    def _place(self, driver: HostedDriver, now_s: float) -> None:
        """Give a driver that waits the worker that hosts the fewest drivers, if there is one."""
        if now_s < self._due_s.get(driver.driver_id, now_s):
            return
        workers = self.registry.workers.fresh(now_s)
        hosts = {name: info for name, info in workers.items() if _hosts(info, driver.uid)}
        if not hosts:
            driver.reason = driver.reason or "it waits for a worker that hosts drivers"
            return
        busy = Counter(one.worker_id for one in self.drivers.values() if not one.final)
        worker_id = min(hosts, key=lambda name: (busy[name], name))
        driver.start_on(worker_id, hosts[worker_id].host)
        self._wake([worker_id])
        self._save()

    def _refused(self, driver: HostedDriver, why: str, now_s: float) -> None:
        """Take in that a worker has not started a driver. A supervised driver that has run is tried again: a file system may
        be missing for a while."""
        if driver.supervise and driver.attempt > 1 and not driver.killed:
            self._wait(driver, driver.failed(why, self._ran_s(driver, now_s), DriverState.ERROR), now_s)
        else:
            driver.refused = True
            driver.end(DriverState.KILLED if driver.killed else DriverState.ERROR, why)
        self._note(driver)

    def _ended(self, driver: HostedDriver, code: int | None, now_s: float) -> None:
        self._wait(driver, driver.ended(code, self._ran_s(driver, now_s)), now_s)
        self._note(driver)

    def _ran_s(self, driver: HostedDriver, now_s: float) -> float:
        return now_s - self._begun_s.pop(driver.driver_id, now_s)

    def _wait(self, driver: HostedDriver, wait_s: float | None, now_s: float) -> None:
        self._due_s.pop(driver.driver_id, None)
        if wait_s is not None:
            self._due_s[driver.driver_id] = now_s + wait_s

    def _note(self, driver: HostedDriver) -> None:
        why = f" ({driver.reason})" if driver.reason else ""
        self.registry.changes.log(f"{driver.driver_id}: {driver.state}{why}")
        self._save()

    def _save(self) -> None:
        self.registry.changes.effect(StoreMeta("drivers"))


def _hosts(worker: WorkerInfo, uid: int) -> bool:
    """Return True if a worker hosts drivers of a user: an agent that is not root starts programs only as itself."""
    return worker.hosts_for in (0, uid)
