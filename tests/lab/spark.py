"""Real Spark in the lab: a cluster with its master on machine a and workers on b and c, and jobs whose driver runs on b.

All of it belongs to an ordinary user: for a driver on another host than the master's, a user's own token has to vouch, which
root cannot have.
"""

from __future__ import annotations

import hashlib
import json
import re
import shlex
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from tests.integration.local_cluster import QUICK_JVM, conf_words, eventually
from tests.lab.machines import INSIDE, MACHINES, THIRD, Home, act

FIRST, SECOND = MACHINES
WORKERS = {"lab-b": SECOND, "lab-c": THIRD}
DRIVER = SECOND.as_user()
PATH = "/home/ann/sparkpace-lab"
URL = f"https://{FIRST.address}:7070"
SPARK = ("JAVA_HOME=/usr/lib/jvm/java-17-openjdk-amd64", "SPARK_HOME=/opt/pyspark/pyspark")
SIZE = ("--runtime", "process", "--cores", "0.7", "--memory", "1000m")
"""Workers of less than 1 GiB: with more, agents would try to make a class archive, which takes a machine of the lab longer
than the 2 minutes that they wait."""
STARTED = "Starting executor ID"
"""Words in the log of an executor that the driver has taken."""
LOST_AFTER = "45s"
"""The default of 30 s would leave no time for a slow look during a cut of 25 s."""
NAME, ROUNDS, THOUSANDS, GROUPS = "hashes", 8, 500, 5
OUT, ERR, CODE, HOLD = (f"/home/ann/lab-job.{name}" for name in ("out", "err", "code", "hold"))
JOB_S = 1200.0
"""Longest time of a job and of what a machine does meanwhile: a guard against what hangs, not a verdict."""
SHARE = 0.15
"""Share of the deadline at which the law is to end a job: neither a machine that is much slower than it was nor a fault that
holds the job up makes a run late."""
CONF = {
    "spark.pace.law.forecast.alpha": SHARE,
    "spark.executor.instances": len(WORKERS),
    "spark.executor.memory": "512m",
    "spark.executor.pyspark.memory": "32m",
    "spark.executor.extraJavaOptions": QUICK_JVM,
    "spark.driver.memory": "512m",
    "spark.driver.extraJavaOptions": QUICK_JVM,
    "spark.ui.enabled": "false",
}


@dataclass(frozen=True, slots=True)
class Ended:
    """A job that has ended well: its answers, one of each round, the summary of its run, and the words on its terminal."""

    answers: list[Any]
    summary: dict[str, Any]
    said: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """The cluster. All its processes are services, so they come back with the power of their machine."""

    home: Home
    others: dict[str, Home]
    """Homes of the workers that have joined, by their ids."""

    def silence(self, worker: str) -> str:
        """Return what is said of a worker's silence."""
        return self.home.workers()[worker]

    def reports(self, worker: str) -> bool:
        return self.home.workers().get(worker) == ""

    def await_master(self) -> None:
        """Wait until a master that has started again answers."""
        eventually(lambda: self.home.machine.run(self.home.command("ps")).returncode == 0, "the master's answer", JOB_S)

    def await_reports(self) -> None:
        for worker in self.others:
            eventually(partial(self.reports, worker), f"a report of {worker}", JOB_S)

    def restart_agent(self, worker: str) -> None:
        other = self.others[worker]
        other.machine.out(f"{other.manager} restart sparkpace-agent-{worker}")

    def applications(self) -> dict[str, dict[str, Any]]:
        """Return the applications that the master lists, by their ids."""
        listed = self.home.machine.json(self.home.command("ps", "--output", "json"))
        return {one["application_id"]: one for one in listed}

    def runs(self) -> set[str]:
        """Return the applications that the master has taken in: a look at its folders is cheaper than a command."""
        return set(self.home.machine.out(f"ls {PATH}/runs").split())

    def submit(self, *options: str, held: bool = False) -> Job:
        """Start a job, which begins its work once each worker has an executor. If `held`, each further round waits for
        `Job.go_on`, or for `Job.finish`."""
        driver = Home(DRIVER, PATH, (*SPARK, f"SPARKPACE_MASTER={URL}"))
        job = (f"{INSIDE}/hashes.py", str(ROUNDS), str(THOUSANDS), str(GROUPS), HOLD)
        words = driver.command("submit", "--name", NAME, *conf_words(CONF), *options, *job)
        before = self.runs()
        holds = " ".join(f"{HOLD}.{number}" for number in range(ROUNDS if held else 1))
        shell = shlex.quote(f"{words} >{OUT} 2>{ERR}; echo $? >{CODE}")
        DRIVER.run("systemctl --user stop lab-job")  # a test that has failed may have left it
        DRIVER.out(
            f"rm -f {OUT} {ERR} {CODE} {HOLD}.*; touch {holds}; systemd-run --user -q --collect --unit=lab-job sh -c {shell}"
        )

        def registered() -> str | None:
            assert not DRIVER.text(CODE), f"the job has ended:\n{DRIVER.text(ERR)[-6000:]}"
            return next(iter(self.runs() - before), None)

        made = Job(self, eventually(registered, "a registered application", JOB_S))
        for worker in WORKERS:
            eventually(partial(made.saying, worker, STARTED), f"an executor on {worker}", JOB_S)
        made.go_on()
        return made


@dataclass(frozen=True, slots=True)
class Job:
    """A job that runs, with its driver on machine b."""

    cluster: Cluster
    application: str

    def said(self) -> str:
        """Return the words on the job's terminal."""
        return DRIVER.text(ERR)

    def executors(self, worker: str) -> dict[str, int]:
        """Return the processes of the job's executors on a worker's machine, by their ids."""
        found = WORKERS[worker].run(f"pgrep -af '^[^ ]*/bin/java .*--app-id {self.application}'").stdout
        pairs = (re.match(r"(\d+) .* --executor-id (\S+)", line) for line in found.splitlines())
        return {one[2]: int(one[1]) for one in pairs if one}

    def tasks(self, worker: str) -> dict[str, int]:
        """Return how many tasks each executor has finished on a worker, by its id."""
        return self.saying(worker, "Finished task")

    def saying(self, worker: str, words: str) -> dict[str, int]:
        """Return how many lines with these words the log of each executor on a worker has, without those that have none."""
        logs = f"{PATH}/runs/{self.application}/executors"
        found = WORKERS[worker].run(f"cd {logs} && grep -c {shlex.quote(words)} */stderr /dev/null").stdout
        pairs = (line.rpartition("/stderr:") for line in found.splitlines() if "/stderr:" in line)
        return {name: int(count) for name, _, count in pairs if int(count)}

    def await_tasks(self) -> dict[str, int]:
        """Wait until an executor on each worker has finished a task, and return the executors' processes."""
        for worker in WORKERS:
            eventually(partial(self.tasks, worker), f"a task on {worker}", JOB_S)
        return self.all_executors()

    def all_executors(self) -> dict[str, int]:
        return {name: pid for worker in WORKERS for name, pid in self.executors(worker).items()}

    def quota(self, worker: str) -> str:
        """Return what the kernel holds as the quota of the executor on a worker."""
        machine, (pid,) = WORKERS[worker], self.executors(worker).values()
        return machine.text(f"{machine.group_of(pid)}/cpu.max")

    def forecast_end_s(self) -> float | None:
        found: float | None = self.cluster.applications()[self.application]["forecast_end_s"]
        return found

    def go_on(self) -> int:
        """Let the job begin the round that it waits for; return the round's number."""
        return int(DRIVER.out(f"file=$(ls {HOLD}.* | head -n 1) && rm $file && echo ${{file##*.}}"))

    def answers(self) -> list[Any]:
        return [json.loads(line) for line in DRIVER.text(OUT).splitlines()]

    def answer(self, number: int) -> Any:
        """Wait for the answer of a round."""
        return eventually(lambda: self.answers()[number:], f"the answer of round {number}", JOB_S)[0]

    def finish(self) -> Ended:
        """Let the job go on to its end, and check that it ends well."""
        DRIVER.out(f"rm -f {HOLD}.*")
        code = eventually(lambda: DRIVER.text(CODE), "the end of the job", JOB_S)
        assert code == "0", self.said()[-6000:]
        eventually(lambda: self.cluster.applications()[self.application]["finished"], "its record")
        summary = self.cluster.home.machine.json(self.cluster.home.command("report", self.application, "--output", "json"))
        return Ended(self.answers(), summary, self.said())


def right_answers() -> list[list[list[int]]]:
    """Work the job's answers out without Spark."""
    answers = []
    for number in range(ROUNDS):
        found = [[group, 0, 0] for group in range(GROUPS)]
        for one in range(number * THOUSANDS * 1000, (number + 1) * THOUSANDS * 1000):
            group = found[one % GROUPS]
            group[1] += 1
            group[2] += zlib.crc32(hashlib.sha1(str(one).encode(), usedforsecurity=False).hexdigest().encode())
        answers.append(found)
    return answers


@contextmanager
def spark_cluster() -> Iterator[Cluster]:
    """Keep a cluster up whose two workers have a Spark; machine c runs as long."""
    home = Home(FIRST.as_user(), PATH)
    cluster = Cluster(home, {worker: Home(machine.as_user(), PATH, SPARK) for worker, machine in WORKERS.items()})
    THIRD.power_off()
    act("start", THIRD.name, "fresh", timeout_s=JOB_S)
    try:
        act("source", THIRD.name, timeout_s=JOB_S)
        for machine in (FIRST, *WORKERS.values()):
            machine.out("loginctl enable-linger ann")  # its services start at boot
        # A master needs a worker on its own machine; none of the job's executors fits there.
        small = ("--worker", "cores=0.1 memory=512m", "--runtime", "process")
        home.sparkpace("up", *small, "--port", "7070", "--host", FIRST.address, "--lost-after", LOST_AFTER)
        home.run_services(("sparkpace-master.service", "sparkpace-agent-w1.service"))
        for worker, other in cluster.others.items():
            other.sparkpace("join", URL, "-", *SIZE, stdin=home.sparkpace("join-token"))
            other.run_services((f"sparkpace-agent-{worker}.service",))
        token = home.machine.out(f"cat {home.sparkpace('token', '--user', 'ann').strip()}")
        DRIVER.out(f"umask 077; cat >{PATH}/submit.token", stdin=token)
        for machine in (FIRST, *WORKERS.values()):
            machine.out("sync")  # what is not on its disk by now is lost with its power
        yield cluster
    finally:
        THIRD.power_off()
        cluster.others["lab-b"].end()
        home.end()
        for machine in (FIRST, SECOND):
            machine.run("loginctl disable-linger ann")
