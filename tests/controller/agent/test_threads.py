"""The agent's threads go on, whatever their work raises, and a thread that hangs is named."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from controller.agent import threads
from controller.agent.threads import Beat, Threads
from controller.machine.back_off import BackOff
from tests.fakes.refusals import assert_names

PATIENCE_S = 10.0


class Rig:
    def __init__(self) -> None:
        self.now_s = 100.0
        self.stop, self.noted = threading.Event(), threading.Semaphore(0)
        self.notes: list[str] = []
        self.threads = Threads(self.stop, self.note, lambda: self.now_s)

    def note(self, text: str) -> None:
        self.notes.append(text)
        self.noted.release()

    def wait(self, beat: Beat) -> None:
        """Go on with work in silence."""
        self.stop.wait(60)

    def await_notes(self, count: int) -> None:
        for _ in range(count):
            assert self.noted.acquire(timeout=60)


@pytest.fixture
def rig(monkeypatch: pytest.MonkeyPatch) -> Iterator[Rig]:
    monkeypatch.setattr(threads, "BACK_OFF", BackOff(first_s=0.0, most_s=30.0))
    rig = Rig()
    yield rig
    rig.stop.set()


@pytest.mark.parametrize("kind", [KeyError, SystemExit])
def test_an_error_of_a_thread_is_reported_and_counted_and_its_work_begins_again(rig: Rig, kind: type[BaseException]) -> None:
    def work(beat: Beat) -> None:
        raise kind("no one thought of this")

    rig.threads.add("starts", work, patience_s=PATIENCE_S)
    rig.await_notes(3)
    assert_names(rig.notes[2], "starts", "failure 3", kind.__name__, "no one thought of this")


def test_pauses_grow_to_their_limit_and_start_over_after_a_long_life() -> None:
    now_s, lives = 0.0, 0
    pauses: list[float | None] = []

    class Stop(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            if len(pauses) == 9:
                self.set()
            return self.is_set()

    def work(beat: Beat) -> None:
        nonlocal now_s, lives
        lives += 1
        now_s += threads.BACK_OFF.most_s + 1 if lives == 8 else 0.0
        raise KeyError

    all_threads = Threads(Stop(), lambda _: None, lambda: now_s)
    all_threads.add("starts", work, patience_s=PATIENCE_S)
    assert all_threads._all[0].thread is not None
    all_threads._all[0].thread.join(60)
    assert pauses == [1, 2, 4, 8, 16, 30, 30, 1, 2]


def test_patience_counts_from_when_the_work_was_begun_again(rig: Rig) -> None:
    begun = threading.Event()

    def work(beat: Beat) -> None:
        if not rig.notes:
            rig.now_s += PATIENCE_S + 1
            raise KeyError
        begun.set()
        rig.stop.wait(60)

    rig.threads.add("stops", work, patience_s=PATIENCE_S)
    assert begun.wait(60)
    assert rig.threads.check() == []


def test_work_that_returns_too_early_is_begun_again(rig: Rig) -> None:
    rig.threads.add("link", lambda _: None, patience_s=PATIENCE_S)
    rig.await_notes(2)
    assert_names(rig.notes[1], "link", "failure 2")


def test_every_thread_that_hangs_is_named(rig: Rig) -> None:
    beaten, again = threading.Event(), threading.Event()

    def work(beat: Beat) -> None:
        assert again.wait(60)
        beat()
        beaten.set()
        rig.stop.wait(60)

    rig.threads.add("stops", work, patience_s=PATIENCE_S)
    rig.threads.add("starts", rig.wait, patience_s=PATIENCE_S)
    rig.now_s += PATIENCE_S
    assert rig.threads.check() == []
    rig.now_s += 1
    assert rig.threads.check() == ["stops", "starts"]
    again.set()
    assert beaten.wait(60)
    assert rig.threads.check() == ["starts"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_thread_that_ended_all_the_same_is_named(rig: Rig, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_text: str) -> None:
        raise MemoryError

    monkeypatch.setattr(rig.threads, "_note", fails)
    rig.threads.add("starts", lambda _: None, patience_s=PATIENCE_S)
    thread = rig.threads._all[0].thread
    assert thread is not None
    thread.join(60)
    assert rig.threads.check() == ["starts"]
    rig.stop.set()
    assert rig.threads.check() == []
