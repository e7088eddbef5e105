"""Background work: the newest job of each key, one at a time, again until it succeeds. A clock that the test moves."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from queue import SimpleQueue

import pytest

from controller.runtime.docker.chores import BACK_OFF, KNOCKING, Chores, NoAnswer, NotYet


class Engine:
    """An engine that answers, refuses or fails as `error` says; `done` is what it was asked to do, `knocks` how often it was
    asked whether it is there."""

    def __init__(self) -> None:
        self.now = 0.0
        self.error: Exception | None = None
        self.done: list[str] = []
        self.tried: list[str] = []
        self.knocks = 0
        self.chores = Chores(self.knock, threads=0, clock=lambda: self.now)

    def knock(self) -> None:
        self.knocks += 1
        if isinstance(self.error, NoAnswer):
            raise self.error

    def job(self, name: str) -> Callable[[], None]:
        def work() -> None:
            self.tried.append(name)
            if self.error is not None:
                raise self.error
            self.done.append(name)

        return work

    def ask(self, key: str, name: str | None = None, delay_s: float = 0.0) -> None:
        self.chores.ask(key, self.job(name or key), delay_s=delay_s)

    def turns(self) -> None:
        while self.chores.turn():
            pass


@pytest.fixture
def engine() -> Engine:
    return Engine()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ended_is_seen() -> None:
    ended: SimpleQueue[threading.Thread] = SimpleQueue()

    def end() -> None:
        ended.put(threading.current_thread())
        raise SystemExit

    chores = Chores(lambda: None, threads=2)
    alive_before = chores.alive
    chores.ask("end", end)
    ended.get(timeout=60).join(60)
    assert (alive_before, chores.alive) == (True, False), "although another one lives"
    chores.close(lambda: None)


def test_of_a_key_only_the_newest_job_is_done(engine: Engine) -> None:
    for name in ("old", "older", "newest"):
        engine.ask("a", name)
    engine.ask("b")
    engine.turns()
    assert engine.done == ["newest", "b"]


def test_what_is_asked_for_while_it_is_under_way_is_done_once_more(engine: Engine) -> None:
    def asking() -> None:
        engine.done.append("first")
        engine.ask("a", "second")
        assert not engine.chores.turn()  # never twice at once

    engine.chores.ask("a", asking)
    engine.turns()
    assert engine.done == ["first", "second"]


def test_a_delayed_job_waits_for_its_time_unless_it_is_wanted_at_once(engine: Engine) -> None:
    engine.ask("a", delay_s=5.0)
    engine.ask("b", delay_s=5.0)
    engine.ask("b")
    engine.turns()
    assert engine.done == ["b"]
    engine.now = 5.0
    engine.turns()
    assert engine.done == ["b", "a"]


def test_a_refused_job_is_tried_again_with_back_off_and_keeps_no_other_waiting(engine: Engine) -> None:
    engine.error = NotYet("no")
    engine.ask("a")
    engine.turns()
    engine.error = None
    engine.ask("b")
    engine.ask("a", "newest")  # asking again does not shorten its back-off
    engine.turns()
    assert engine.done == ["b"]
    engine.now += BACK_OFF.first_s
    engine.turns()
    assert engine.done == ["b", "newest"]
    assert not engine.chores.away


def test_the_back_off_grows_to_its_limit_and_starts_over_after_a_success(engine: Engine) -> None:
    engine.error = NotYet("no")
    engine.ask("a")
    times: list[float] = []
    while len(times) < 12:
        if engine.chores.turn():
            times.append(engine.now)
        engine.now += 0.125
    waits = [after - before for before, after in itertools.pairwise(times)]
    assert waits[0] == BACK_OFF.first_s
    assert waits == sorted(waits)
    assert waits[-1] == BACK_OFF.most_s
    engine.error = None
    engine.now += BACK_OFF.most_s
    engine.turns()
    engine.error = NotYet("no")
    engine.ask("a")
    engine.turns()
    engine.error = None
    engine.now += BACK_OFF.first_s
    engine.turns()
    assert engine.done == ["a", "a"]


def test_without_an_answer_only_knocks_are_sent_and_then_everything(engine: Engine) -> None:
    engine.error = NoAnswer("silence")
    for key in ("a", "b", "c"):
        engine.ask(key)
    engine.turns()
    assert (engine.tried, engine.chores.away) == (["a"], True)
    for _ in range(100):
        engine.ask("b", "newest b")
        engine.turns()
        engine.now += 0.5
    assert engine.tried == ["a"]
    assert 50 / KNOCKING.most_s <= engine.knocks < 100
    engine.error = None
    engine.now += KNOCKING.most_s
    engine.turns()
    assert sorted(engine.done) == ["a", "c", "newest b"]
    assert not engine.chores.away


def test_threads_outlive_unforeseen_errors(caplog: pytest.LogCaptureFixture) -> None:
    chores = Chores(lambda: None, threads=2)
    over = threading.Event()
    tries: list[int] = []

    def job() -> None:
        tries.append(1)
        if len(tries) < 3:
            raise ZeroDivisionError("surprise")
        over.set()

    chores.ask("a", job)
    assert over.wait(30)
    assert chores.alive
    assert caplog.text.count("failed in an unforeseen way") == 2
    assert chores.settle(30)
    chores.close(lambda: None)


def test_closing_waits_for_no_job_and_lets_go_when_the_jobs_under_way_have_ended() -> None:
    chores = Chores(lambda: None, threads=2)
    begun, release, gone = threading.Event(), threading.Event(), threading.Event()

    def hanging() -> None:
        begun.set()
        release.wait()

    chores.ask("a", hanging)
    chores.ask("b", lambda: None)
    assert begun.wait(30)
    assert not chores.settle(0.0)
    chores.close(gone.set)
    assert not gone.is_set()
    release.set()
    assert gone.wait(30)
    chores.ask("c", lambda: pytest.fail("after the end nothing is begun"))
