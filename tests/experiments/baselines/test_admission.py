"""Streams of jobs under the schedulers of Figs. 5 to 7: the times of submission, the jobs that lose executors, and the
end."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from experiments.baselines.admission import LONG, SCHEDULERS, SHORT, SIZES, UNITS, Action, End, Play, Resize, Stream, Submit
from experiments.harness.recorded import Order


def shorts(*at_s: float) -> tuple[Order, ...]:
    return tuple(Order(f"s-{number}", ("s.py",), delay_s=time_s) for number, time_s in enumerate(at_s))


def a_play(scheduler: str, *at_s: float, **fields: Any) -> Play:
    plain = Play(scheduler, shorts(*at_s), (Order("l", ("l.py",)),), window_s=100, count_longs=1, drain_s=50)
    return replace(plain, **fields)


@dataclass
class Cluster:
    """A made-up cluster: every job asks at once and gets its first executor at once, unless it is in `starving`."""

    stream: Stream
    starving: set[str] = field(default_factory=set)
    ended: set[str] = field(default_factory=set)
    here: set[str] = field(default_factory=set)
    sizes: dict[str, int] = field(default_factory=dict)

    def at(self, now_s: float, *ended: str) -> list[Action]:
        """Act until nothing more happens; `ended`: jobs that end now."""
        self.ended |= set(ended)
        found: list[Action] = []
        for _ in range(3):
            asking = self.here - self.ended
            for action in self.stream.act(now_s, asking, asking - self.starving, self.ended):
                found.append(action)
                if isinstance(action, Submit):
                    self.here.add(action.order.job)
                    self.sizes[action.order.job] = SIZES[action.kind]
                elif isinstance(action, Resize):
                    self.sizes[action.job] = action.executors
                elif isinstance(action, End):
                    self.ended.add(action.job)
        return found

    def is_over(self) -> bool:
        return self.stream.over

    def held(self) -> int:
        return sum(size for job, size in self.sizes.items() if job not in self.ended)


def submitted(actions: list[Action]) -> list[str]:
    return [action.order.job for action in actions if isinstance(action, Submit)]


def start(play: Play) -> Cluster:
    return Cluster(Stream(play))


def test_fifo_submits_all_that_come_and_one_more_long_job_whenever_the_last_began() -> None:
    cluster = start(a_play("fifo", 5, 5, 5, 5, 5))
    cluster.starving = {"l-1"}
    # the first begins at once, so the second comes; it waits in the cluster, so no third
    assert submitted(cluster.at(0)) == ["l-0", "l-1"]
    assert submitted(cluster.at(5)) == ["s-0", "s-1", "s-2", "s-3", "s-4"]
    cluster.starving = set()
    cluster.starving = {"l-2"}
    assert submitted(cluster.at(6)) == ["l-2"]


def test_reserve_keeps_each_kind_to_its_whole_jobs() -> None:
    # 40% of 4 workers are 1.6: one short job of one worker; 60% are 2.4: one long job of two
    cluster = start(a_play("reserve", 1, 2, 3))
    assert submitted(cluster.at(0)) == ["l-0"]
    assert submitted(cluster.at(3)) == ["s-0"]
    assert submitted(cluster.at(10, "s-0")) == ["s-1"]
    assert submitted(cluster.at(11, "l-0")) == ["l-1"]
    assert cluster.held() == 3


def test_kill_takes_an_executor_for_the_third_short_job_and_gives_it_back() -> None:
    cluster = start(a_play("kill", 1, 2, 3, 4))
    [first] = cluster.at(0)
    assert first == Submit(Order("l-0", ("l.py",)), LONG, resizable=True)
    assert submitted(cluster.at(2)) == ["s-0", "s-1"]
    # 80% of 4 workers are 3.2: three short jobs, for which one of the long one's two workers is needed
    assert cluster.at(4) == [Submit(shorts(1, 2, 3)[2], SHORT), Resize("l-0", 1)]
    assert cluster.held() == UNITS
    # the fourth takes the place of the first, so the long job's executor stays away
    assert submitted(cluster.at(20, "s-0")) == ["s-3"]
    assert cluster.sizes["l-0"] == 1
    assert cluster.at(30, "s-1") == [Resize("l-0", 2)]


def test_an_executor_is_taken_only_once_the_short_job_asks_for_it() -> None:
    stream = Stream(a_play("kill", 1, 1, 1))
    assert len(stream.act(1, [], [], [])) == 4
    assert stream.act(2, ["l-0", "s-0", "s-1"], [], []) == []
    assert stream.act(3, ["l-0", "s-0", "s-1", "s-2"], [], []) == [Resize("l-0", 1)]


@pytest.mark.parametrize("scheduler", ["sparkpace", "suspend"])
def test_only_the_second_long_job_waits(scheduler: str) -> None:
    cluster = start(a_play(scheduler, 1, 1, 1, 1, 1, 1))
    assert submitted(cluster.at(1)) == [*(f"s-{n}" for n in range(6)), "l-0"]
    assert submitted(cluster.at(2, "l-0")) == ["l-1"]


def test_load_goes_on_until_the_long_jobs_that_count_have_ended() -> None:
    cluster = start(a_play("sparkpace", 1, 99, 101, 130))
    cluster.at(0)
    cluster.at(1)
    cluster.at(99, "s-0")
    assert submitted(cluster.at(120)) == ["s-2"]
    assert not cluster.is_over()
    # it closes: the short job that counts is awaited, the later ones and the next long job are ended after it
    assert submitted(cluster.at(125, "l-0")) == []
    assert not cluster.is_over()
    assert submitted(cluster.at(131)) == []
    assert {action.job for action in cluster.at(140, "s-1") if isinstance(action, End)} == {"s-2"}
    assert cluster.is_over()
    states = {name: (job.counted, job.state) for name, job in cluster.stream.jobs.items()}
    assert states == {
        "s-0": (True, "ended"),
        "s-1": (True, "ended"),
        "s-2": (False, "given up"),
        "l-0": (True, "ended"),
        "l-1": (False, "given up"),
    }


def test_what_waits_too_long_is_given_up() -> None:
    cluster = start(a_play("reserve", 1, 2, 3))
    cluster.at(0)
    cluster.at(3)
    cluster.at(100, "l-0")
    assert cluster.stream.closed_s == 100
    cluster.at(149)
    assert not cluster.is_over()
    assert cluster.at(150) == [End("s-0")]
    assert cluster.is_over()
    assert [cluster.stream.jobs[f"s-{n}"].state for n in range(3)] == ["given up"] * 3


def test_a_stream_ends_even_if_its_long_job_starves() -> None:
    cluster = start(a_play("sparkpace", 1, most_s=400.0))
    cluster.at(0)
    cluster.at(1)
    assert cluster.at(399, "s-0") == []
    assert cluster.at(400) == [End("l-0")]
    assert cluster.is_over()
    assert cluster.stream.jobs["l-0"].state == "given up"


def test_a_single_long_job_has_no_follower() -> None:
    cluster = start(a_play("kill", 1, endless=False))
    cluster.at(1)
    assert submitted(cluster.at(50, "l-0")) == []
    cluster.at(60, "s-0")
    cluster.at(101)
    assert cluster.is_over()


@given(
    scheduler=st.sampled_from(
        [name for name, what in SCHEDULERS.items() if what.cluster == "standalone" and what.queues.keys() >= SIZES.keys()]
    ),
    gaps=st.lists(st.floats(0, 20), min_size=1, max_size=12),
    ends=st.lists(st.integers(0, 20), max_size=40),
)
def test_queues_never_hold_more_than_the_cluster_and_all_short_jobs_come_to_run(
    scheduler: str, gaps: list[float], ends: list[int]
) -> None:
    times = [sum(gaps[: number + 1]) for number in range(len(gaps))]
    cluster = start(a_play(scheduler, *times, window_s=1000.0))
    for number in range(200):
        # one of the running jobs ends, and every other time the short job that has run longest
        living = sorted(cluster.here - cluster.ended)
        oldest = [name for name in cluster.sizes if name[0] == "s" and name not in cluster.ended][:1]
        which = [living[ends[number % len(ends)] % len(living)]] if ends and living else []
        cluster.at(2.0 * number, *(oldest if number % 2 else which))
        assert cluster.held() <= UNITS
        assert min(cluster.sizes.values()) >= 0
    assert {f"s-{number}" for number in range(len(times))} <= cluster.here
