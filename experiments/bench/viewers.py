"""The cost of the live page's viewers and a Prometheus for the master: its CPU with many running applications, with these
programs and without them.

Real: a master process, `sparkpace ui` processes, HTTP between all, server-sent events. Made up: drivers (they register and
say nothing more, like between two stages) and agents (each reports, every second, all its executors with a sample of each).

    python -m experiments.bench.viewers --out out/viewers [--applications 200] [--viewers 5] [--seconds 60]
"""

from __future__ import annotations

import argparse
import http.client
import json
import subprocess
import threading
import time
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec
import psutil

from controller.client import MasterClient
from controller.home import MASTER_VARIABLE, Home, make_token
from controller.machine.proc import boot_id
from controller.machine.waiting import wait_until
from controller.start import ours
from controller.wire.driver import ExecutorWish, Registered
from controller.wire.states import ExecutorState
from controller.wire.worker import ExecutorReport, OrderedQuota, Sample, WorkerInfo, WorkerReply, WorkerSync
from experiments.bench.overhead.kept_connection import KeptConnection
from experiments.bench.overhead.made_up import registration
from experiments.harness.live_cluster import Sparkpace, end_processes, free_port
from stage_model.errors import Unavailable

WORKERS = 4
PERIOD_S, SCRAPE_S, START_S = 1.0, 15.0, 60.0
MEMORY_MB = 1 << 20
QUOTA_EVERY = 10
"""Periods of which one changes an executor's quota."""
LINK = "Open this within 5 minutes: "


class Phase(msgspec.Struct, frozen=True, kw_only=True):
    """The master's CPU while `viewers` viewers looked. `events` came to all viewers together, at least one a second each if
    no viewer was held up."""

    pages: int
    viewers: int
    scrapes: int
    seconds: float
    cpu_s: float
    events: int

    @property
    def share(self) -> float:
        """The share of a core."""
        return self.cpu_s / self.seconds


class MadeUpAgents:
    """All workers' agents on one thread; every executor that a worker should have runs there."""

    def __init__(self, home: Home, url: str, cluster_id: str, applications: int) -> None:
        self._home, self._cluster_id = home, cluster_id
        self._cores = float(-(-applications // WORKERS))
        self._there: dict[str, tuple[tuple[str, str], ...]] = {f"w{n + 1}": () for n in range(WORKERS)}
        self._connections = {worker_id: KeptConnection(url, home.ca_file) for worker_id in self._there}
        self._samples = dict.fromkeys(self._there, 0)
        self._begun_s, self._period = time.monotonic(), 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        for worker_id in self._there:
            home.make_agent_token(worker_id)
            self._report(worker_id)

    @contextmanager
    def reporting(self) -> Iterator[None]:
        self._thread.start()
        try:
            yield
        finally:
            died = not self._thread.is_alive()
            self._over.set()
            self._thread.join()
            for connection in self._connections.values():
                connection.close()
        if died:
            raise SystemExit("the made-up agents stopped reporting before the end, so nothing was measured")

    def _run(self) -> None:
        while not self._over.is_set():
            begun_s, self._period = time.monotonic(), self._period + 1
            for number, worker_id in enumerate(self._there, 1):
                self._report(worker_id)
                self._over.wait(max(0.0, begun_s + number * PERIOD_S / WORKERS - time.monotonic()))

    def _report(self, worker_id: str) -> None:
        """Post what an agent posts each period."""
        now_s = time.monotonic() - self._begun_s
        there = self._there[worker_id]
        sync = WorkerSync(
            instance=f"{worker_id}-life",
            cluster_id=self._cluster_id,
            generation=1,
            worker=WorkerInfo(
                worker_id=worker_id,
                host="127.0.0.1",
                cores=self._cores,
                memory_mb=MEMORY_MB,
                runtime="docker",
                pid=1,
                boot_id=boot_id(),
            ),
            executors=tuple(self._executor(*one) for one in there),
            sample_seq=self._samples[worker_id],
            samples=tuple(self._sample(*one, now_s) for one in there),
        )
        self._samples[worker_id] += len(there)
        token = self._home.agent_token(worker_id)
        reply = self._connections[worker_id].post(f"/v1/workers/{worker_id}/sync", token, sync, WorkerReply)
        self._there[worker_id] = tuple((one.application_id, one.executor_id) for one in reply.desired.executors)

    def _executor(self, application_id: str, executor_id: str) -> ExecutorReport:
        return ExecutorReport(
            application_id=application_id,
            executor_id=executor_id,
            state=ExecutorState.RUNNING,
            quota_cores=0.5,
            demand_cores=0.6,
            memory_bytes=1 << 30,
            memory_limit_mb=1408,
            log_dir=f"/runs/{application_id}/executors/{executor_id}",
        )

    def _sample(self, application_id: str, executor_id: str, now_s: float) -> Sample:
        reason = "forecast: 0.50 cores for the application"
        ordered = (OrderedQuota(time_s=now_s, before=0.5, cores=0.5, reason=reason),)
        return Sample(
            application_id=application_id,
            executor_id=executor_id,
            time_s=now_s,
            stage=0,
            set_point=0.5,
            progress=0.5,
            demand=0.6,
            grant=0.5,
            quota=0.5,
            usage=0.49,
            cpu_core_s=0.49 * now_s,
            forecast_end_s=3000.0,
            ordered=ordered if self._period % QUOTA_EVERY == 0 else (),
        )


class Viewer:
    """A browser's connection: signed in by the page's link of that number, with news of the cluster and of one
    application."""

    def __init__(self, links: Path, number: int, application_id: str) -> None:
        link = urllib.parse.urlsplit(_link(links, number))
        self._connection = http.client.HTTPConnection(link.netloc, timeout=START_S)
        self._connection.request("GET", f"{link.path}?{link.query}")
        entered = self._connection.getresponse()
        entered.read()
        cookie = str(entered.getheader("set-cookie")).partition(";")[0]
        page = str(entered.getheader("location"))
        self._connection.request("GET", f"{page}events?past=1&application={application_id}", headers={"Cookie": cookie})
        self._answer = self._connection.getresponse()
        if self._answer.status != 200:
            raise SystemExit(f"the page answered with status {self._answer.status}")
        self.events = 0
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        with suppress(OSError, http.client.HTTPException):  # the page has ended
            for line in self._answer:
                self.events += line.startswith(b"event: cluster")

    def wait(self) -> None:
        """Wait until the page has ended."""
        self._thread.join()
        self._connection.close()


def _link(links: Path, number: int) -> str:
    """Return the page's link of that number: a link that is used makes the page print the next one."""
    found: list[str] = []

    def printed() -> bool:
        found[:] = [line.removeprefix(LINK) for line in links.read_text().splitlines() if line.startswith(LINK)]
        return len(found) > number

    if not wait_until(printed, START_S):
        raise SystemExit(f"`sparkpace ui` has printed no link; see {links}")
    return found[number]


class Scraper:
    """A Prometheus that scrapes the master."""

    def __init__(self, home: Home, url: str) -> None:
        self._token = make_token(home.metrics_token_file).read_text().strip()
        self._url, self._ca, self.scrapes = url, home.ca_file, 0
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._over.is_set():
            connection = KeptConnection(self._url, self._ca)  # the master closes a connection that was quiet for this long
            connection.get("/metrics", self._token)
            connection.close()
            self.scrapes += 1
            self._over.wait(SCRAPE_S)

    def end(self) -> None:
        died = not self._thread.is_alive()
        self._over.set()
        self._thread.join()
        if died:
            raise SystemExit("the scrapes stopped before the end, so nothing was measured")


def measured(
    sparkpace: Sparkpace,
    master: psutil.Process,
    url: str,
    jobs: list[str],
    *,
    pages: int,
    viewers: int,
    scraped: bool,
    seconds: float,
) -> Phase:
    """Measure the master while `viewers` viewers, spread over `pages`, watch an application each; each page is another
    `sparkpace ui`."""
    processes, links, watching = list[subprocess.Popen[bytes]](), list[Path](), list[Viewer]()
    scraper = Scraper(sparkpace.home, url) if scraped else None
    try:
        for number in range(pages):
            links.append(sparkpace.cwd / f"page-{number}.log")
            processes.append(sparkpace.start(sparkpace.command(("ui", "--port", "0")), links[-1]))
        for number in range(viewers):
            watching.append(Viewer(links[number % pages], number // pages, jobs[number]))
        if not wait_until(lambda: all(one.events > 2 for one in watching), START_S):
            raise SystemExit("a viewer received nothing")
        events, scrapes = sum(one.events for one in watching), scraper.scrapes if scraper else 0
        before_s, begun_s = sum(master.cpu_times()[:2]), time.monotonic()
        time.sleep(seconds)
        return Phase(
            pages=pages,
            viewers=viewers,
            scrapes=(scraper.scrapes if scraper else 0) - scrapes,
            seconds=round(time.monotonic() - begun_s, 2),
            cpu_s=round(sum(master.cpu_times()[:2]) - before_s, 3),
            events=sum(one.events for one in watching) - events,
        )
    finally:
        if scraper is not None:
            scraper.end()
        end_processes(processes)
        for one in watching:
            one.wait()


@contextmanager
def running_master(home: Home, out: Path) -> Iterator[tuple[psutil.Process, str]]:
    """Start the master, and provide its process and URL once it answers."""
    port = free_port()
    url = f"https://127.0.0.1:{port}"
    with (out / "master.log").open("wb") as log:
        process = subprocess.Popen(
            ours("controller.cli.main", "master", "--home", str(home.path), "--port", str(port)), stdout=log, stderr=log
        )
    try:
        if not wait_until(lambda: _answers(home, url), START_S):
            raise SystemExit(f"the master does not answer; see {out / 'master.log'}")
        yield psutil.Process(process.pid), url
    finally:
        end_processes([process])


def _answers(home: Home, url: str) -> bool:
    with suppress(Unavailable):
        MasterClient(url, home.ca_file).health()
        return True
    return False


def registered(home: Home, url: str, applications: int) -> list[str]:
    connection = KeptConnection(url, home.ca_file)
    ids = []
    for number in range(applications):
        asked = registration(
            {"spark.pace.deadline": "1h", "spark.executor.memory": "512m"},
            1,
            name=f"job-{number}",
            instance=f"made-up-{number}",
            wanted={"0": ExecutorWish(count=1, cores=1)},
        )
        ids.append(connection.post("/v1/applications", home.submit_token(), asked, Registered).application_id)
    connection.close()
    return ids


def measure_viewers(out: Path, applications: int, viewers: int, seconds: float) -> list[Phase]:
    """Measure five phases: no viewer; all at one page; the same and a Prometheus; each at a page of their own; no viewer."""
    out.mkdir(parents=True, exist_ok=True)
    home = Home(out / "home")
    if home.path.exists():
        raise SystemExit(f"{home.path} is there already, and what is in it would be measured, too; name another --out")
    home.create()
    with running_master(home, out) as (master, url):
        client = MasterClient(url, home.ca_file, home.submit_token())
        agents = MadeUpAgents(home, url, client.health().cluster_id, applications)
        with agents.reporting():
            jobs = registered(home, url, applications)
            if not wait_until(lambda: all(view.executors for view in client.applications()), START_S):
                raise SystemExit("not all applications have an executor")
            sparkpace = Sparkpace(home, out, variables={MASTER_VARIABLE: url})
            return [
                measured(sparkpace, master, url, jobs, pages=pages, viewers=looking, scraped=scraped, seconds=seconds)
                for pages, looking, scraped in (
                    (0, 0, False),
                    (1, viewers, False),
                    (1, viewers, True),
                    (viewers, viewers, False),
                    (0, 0, False),
                )
            ]


def main() -> None:
    parser = argparse.ArgumentParser(description="What the live page's viewers and a Prometheus cost the master.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--applications", type=int, default=200)
    parser.add_argument("--viewers", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=60.0)
    given = parser.parse_args()
    phases = measure_viewers(given.out.resolve(), given.applications, given.viewers, given.seconds)
    rows = [{**msgspec.to_builtins(phase), "share_of_a_core": round(phase.share, 4)} for phase in phases]
    result = {"applications": given.applications, "workers": WORKERS, "phases": rows}
    (given.out / "viewers.json").write_text(json.dumps(result, indent=1) + "\n")
    for row in rows:
        print(json.dumps(row))


if __name__ == "__main__":
    main()
