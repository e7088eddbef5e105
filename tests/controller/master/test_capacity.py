"""What workers can give, and with how many cores a stage begins. Expected numbers are derived beside each assert."""

from __future__ import annotations

from controller.master.capacity import Capacity, initial

TWO = Capacity(cores=4.0, slots=4, speed_limit=1.0, executors=2)


def test_a_stage_begins_with_its_work_over_its_deadline_shared_by_the_executors() -> None:
    # 120 core-seconds in 50 s: 2.4 cores, 1.2 for each of two executors, which is 24 quanta
    assert initial(120.0, 50.0, TWO) == 1.2


def test_a_stage_begins_with_no_more_than_its_slots() -> None:
    assert initial(120.0, 1.0, TWO) == 2.0


def test_a_stage_without_time_left_begins_with_all_slots() -> None:
    assert initial(120.0, 0.0, TWO) == initial(0.0, 0.0, TWO) == 2.0
