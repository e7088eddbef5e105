"""Courses as viewers get them, from samples made here."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st
from msgspec import structs

from controller.ui.course_points import MOST_POINTS, MOST_QUOTAS, CourseNews, CoursePoint, CoursePoints
from controller.wire.course import Course, StageCourse
from controller.wire.worker import OrderedQuota, Sample
from tests.fakes.cluster import sample


def one(executor: str, time_s: float, **changed: object) -> Sample:
    return sample("", executor, time_s, **changed)


class Viewer:
    """A viewer that keeps what it receives, as the page does."""

    def __init__(self, points: CoursePoints) -> None:
        self.news = points.news()
        self.points: list[CoursePoint] = []
        self.quotas: list[OrderedQuota] = []
        self.stages: dict[tuple[int, int], StageCourse] = {}

    def look(self) -> CourseNews:
        news = next(self.news)
        self.points[news.first :] = news.points
        self.quotas += news.quotas
        self.stages |= {(stage.stage, stage.attempt): stage for stage in news.stages}
        return news


def test_executors_of_a_second_are_summed_and_the_furthest_tells_of_progress() -> None:
    points = CoursePoints("a")
    points.take(
        Course(
            samples=(
                one("1", 1.2, quota=0.5, usage=None, progress=0.4, set_point=0.5, stage=3),
                one("2", 1.4, quota=0.7, usage=0.6, progress=0.45, set_point=0.5, stage=3, debt_core_s=2.0),
            )
        )
    )
    viewer = Viewer(points)
    viewer.look()
    assert viewer.points == [CoursePoint(1.0, 3, 0.5, 0.45, 2.0, 1.2, 0.6, 2.0)]


def test_the_last_points_may_change_and_the_others_do_not() -> None:
    points = CoursePoints("a")
    viewer = Viewer(points)
    points.take(Course(samples=tuple(one("1", float(second), quota=1.0) for second in range(10))))
    viewer.look()
    points.take(Course(samples=tuple(one("2", float(second), quota=0.5) for second in range(10))))
    news = viewer.look()
    # 9 is the newest, so those up to 3 are older than 5 s: a report about them now comes too late
    assert news.first == 4
    assert [point.granted for point in viewer.points] == [1.0] * 4 + [1.5] * 6


def test_an_executor_that_is_silent_no_longer_counts() -> None:
    points = CoursePoints("a")
    points.take(Course(samples=(one("1", 0.0), one("2", 0.0), *(one("2", float(second)) for second in range(1, 9)))))
    viewer = Viewer(points)
    viewer.look()
    assert [point.granted for point in viewer.points] == [2.0] * 6 + [1.0] * 3


def test_a_long_run_is_shown_in_longer_steps_and_whole() -> None:
    points = CoursePoints("a")
    viewer = Viewer(points)
    last = MOST_POINTS + 100
    for second in range(last + 1):
        points.take(Course(samples=(one("1", float(second), quota=2.0),)))
        if second % 500 == 0:
            viewer.look()
    viewer.look()
    assert len(viewer.points) <= MOST_POINTS
    steps = {later.time_s - earlier.time_s for earlier, later in zip(viewer.points, viewer.points[1:], strict=False)}
    assert steps == {2.0}
    assert (viewer.points[0].time_s, viewer.points[-1].time_s) == (0.0, float(last))
    assert {point.granted for point in viewer.points} == {2.0}


def test_quotas_are_sent_once_and_the_last_ones_to_a_late_viewer() -> None:
    points = CoursePoints("a")
    viewer = Viewer(points)
    quotas = [
        OrderedQuota(time_s=float(n), executor_id="1", before=None, cores=1.0, reason="r") for n in range(MOST_QUOTAS + 5)
    ]
    for begin in range(0, len(quotas), 100):
        points.take(Course(quotas=tuple(quotas[begin : begin + 100])))
        viewer.look()
    viewer.look()
    assert viewer.quotas == quotas
    late = Viewer(points)
    late.look()
    assert late.quotas == quotas[-MOST_QUOTAS:]


def test_a_stage_is_sent_when_it_changes() -> None:
    points, begun = CoursePoints("a"), StageCourse(stage=1, attempt=0, name="n", start_s=1.0, end_s=None, tasks=4)
    viewer = Viewer(points)
    points.take(Course(stages=(begun,)))
    assert list(viewer.look().stages) == [begun]
    points.take(Course(stages=(begun,)))
    assert list(viewer.look().stages) == []
    over = structs.replace(begun, end_s=5.0)
    points.take(Course(stages=(over,)))
    assert list(viewer.look().stages) == [over]
    assert points.since_s == 5.0


@given(
    st.lists(st.lists(st.tuples(st.sampled_from("123"), st.floats(0, 40)), max_size=8), max_size=8),
    st.lists(st.booleans(), min_size=8, max_size=8),
)
def test_who_looks_often_and_who_looks_once_see_the_same(batches: list[list[tuple[str, float]]], looks: list[bool]) -> None:
    points = CoursePoints("a")
    often = Viewer(points)
    for batch, look in zip(batches, looks, strict=False):
        points.take(Course(samples=tuple(one(executor, time_s) for executor, time_s in batch)))
        if look:
            often.look()
    often.look()
    once = Viewer(points)
    once.look()
    assert often.points == once.points
    times = [point.time_s for point in once.points]
    assert times == sorted(set(times))
    assert set(times) <= {float(math.floor(time_s)) for batch in batches for _, time_s in batch}
