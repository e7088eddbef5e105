"""`sparkpace logs` where executors run on workers of other homes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from msgspec import structs

from controller.agent.link import Link, OrderFilter
from controller.home import Home
from controller.master.core.workers import STALE_S
from controller.runs.run_folder import write_summary
from controller.runtime.base import ExecutorKey
from controller.wire.driver import ExecutorWish
from controller.wire.limits import LOG_BYTES
from controller.wire.worker import WorkerSync
from tests.fakes.cluster import report
from tests.fakes.commands import assert_refused, run, write_cluster
from tests.fakes.refusals import assert_names
from tests.fakes.served import ServedMaster, threaded
from tests.fakes.worker import FakeWorker, spark_in

HERE = "of this machine\n"


class Far:
    """A worker m2 on another machine, with its agent, which is linked to the master."""

    def __init__(self, folder: Path, master: ServedMaster) -> None:
        self.worker = FakeWorker(folder, worker_id="m2")
        master.home.make_agent_token("m2")
        orders, token = OrderFilter(master.cluster.state.identity.cluster_id), master.home.agent_token("m2")
        self.link = Link(master.url, master.home.ca_file, lambda: token, "m2", orders, lambda: None)

    def report(self) -> WorkerSync:
        """Have a period, and report."""
        said = self.worker.tick(0.0)
        self.link.post(said)
        self.link._sync()
        for answer in self.link.take():
            self.worker.agent.receive(answer.reply.desired, self.worker.now_s)
        return said

    @contextmanager
    def reporting(self) -> Iterator[None]:
        """Let the agent report on a thread, until the block ends."""
        over = threading.Event()

        def go_on() -> None:
            while not over.wait(0.01):
                self.report()

        thread = threading.Thread(target=go_on)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


class Both:
    """A master's home with worker w1, and worker m2 elsewhere; a job has an executor on each of them."""

    def __init__(self, place: Path, master: ServedMaster) -> None:
        self.master, self.cluster, self.home = master, master.cluster, master.home
        self.home.agent("w1").mkdir(parents=True)
        self.far = Far(place / "m2", master)
        self.cluster.worker("w1", logs={})
        self.far.report()
        self.job = self.cluster.register(wanted={"0": ExecutorWish(count=2)}, **spark_in(place))
        executors = self.cluster.state.applications[self.job].executors
        placed = {executor.record.worker_id: name for name, executor in executors.items()}
        self.near, self.there = placed["w1"], placed["m2"]
        for _ in range(3):
            self.cluster.worker("w1", report(self.job, self.near), logs={})
            self.far.report()
        self.here = self.home.runs / self.job / "executors" / self.near
        self.here.mkdir(parents=True)
        (self.here / "stderr").write_text(HERE)

    @property
    def folder(self) -> Path:
        return self.far.worker.site.log_dir(ExecutorKey(self.job, self.there))


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Both]:
    master = ServedMaster(tmp_path / "home")
    monkeypatch.setenv("SPARKPACE_HOME", str(master.home.path))
    write_cluster(master.home, url=master.url)
    with closing(master.cluster.state), threaded(master.server, master.listening):
        made = Both(tmp_path, master)
        with closing(made.far.link._reports):
            yield made


def test_the_log_of_an_executor_elsewhere_is_read_by_its_agent(both: Both) -> None:
    (both.folder / "stdout").write_text("of another machine\n")
    (both.folder / "stderr").write_bytes(b"x" * (LOG_BYTES + 1024))
    with both.far.reporting():
        shown = run("logs", both.job, both.there)
        everything = run("logs", both.job)
    head, tail = f"==> {both.there}/stdout <==\nof another machine\n", f"==> {both.there}/stderr <==\n" + "x" * LOG_BYTES
    assert (shown.exit_code, shown.stdout) == (0, head + tail)
    assert_names(shown.stderr, f"{both.there}/stderr is the last 256 KiB of 257 KiB", both.folder / "stderr", "127.0.0.1")
    assert everything.exit_code == 0
    assert everything.stdout == f"{head}{tail}==> {both.near}/stderr <==\n{HERE}"


def test_only_logs_of_this_machine_are_followed_which_is_said(both: Both) -> None:
    (both.folder / "stdout").write_text("of another machine\n")
    with both.far.reporting():
        shown = run("logs", both.job, both.there, "--follow")
    assert (shown.exit_code, shown.stdout) == (0, f"==> {both.there}/stdout <==\nof another machine\n")
    assert "not followed" in shown.stderr


def test_an_executor_that_has_printed_nothing_yet(both: Both) -> None:
    with both.far.reporting():
        assert_refused(run("logs", both.job, both.there), 2, f"executor {both.there}", "worker m2")


def test_a_host_that_is_cut_off_or_older_is_named_with_the_place_and_the_rest_is_shown(both: Both) -> None:
    older = structs.replace(both.far.report(), logs=None)
    both.cluster.state.agents.sync("m2", older, both.cluster.now_s)
    assert_refused(run("logs", both.job, both.there), 69, "worker m2", "earlier release", both.folder, "127.0.0.1")
    for _ in range(int(STALE_S) + 1):
        both.cluster.worker("w1", report(both.job, both.near), logs={})
        both.cluster.tick(1.0)
    assert_refused(run("logs", both.job, both.there), 69, "worker m2 has not reported", both.folder)
    shown = run("logs", both.job)
    assert (shown.exit_code, shown.stdout) == (0, f"==> {both.near}/stderr <==\n{HERE}")
    assert "worker m2 has not reported" in shown.stderr


def test_an_unknown_executor_is_named_with_those_of_all_machines(both: Both) -> None:
    assert_refused(run("logs", both.job, "77"), 2, "'77'", both.near, both.there)


def test_without_a_master_the_logs_of_this_machine_are_shown_and_a_line_says_what_is_missing(both: Both) -> None:
    write_cluster(both.home)  # whose master does not answer
    shown = run("logs", both.job)
    assert (shown.exit_code, shown.stdout) == (0, HERE)
    assert_names(shown.stderr, "other machines are not shown", "no Sparkpace master answers")
    write_summary(both.home.runs / both.job, {"app_id": both.job, "workers": ["w1"]})
    shown = run("logs", both.job)
    assert (shown.stdout, shown.stderr) == (HERE, ""), "it ran nowhere else"


def test_in_the_home_of_its_worker_a_log_needs_no_master(both: Both, tmp_path: Path) -> None:
    (both.folder / "stdout").write_text("of another machine\n")
    far = Home(tmp_path / "m2")
    assert far.runs == both.far.worker.site.run_root
    assert run("logs", both.job, "--home", str(far.path)).stdout == "of another machine\n"
