"""Relief of a machine under pressure, worked out by hand; properties of any course: `tests/properties/test_relief.py`."""

from __future__ import annotations

import pytest

from controller.agent.core.relief import (
    CALM_S,
    EVICT_S,
    MIB,
    STEP_S,
    Gives,
    Machine,
    Relief,
    ReliefStep,
    Resident,
    Room,
    relief_steps,
)

LEAST = 300 * MIB
SHORT = Machine(memory=Room(180 * MIB, LEAST))
SCARCE = Machine(memory=Room(310 * MIB, LEAST))
ENOUGH = Machine(memory=Room(500 * MIB, LEAST))
FULL = Machine(memory=Room(500 * MIB, LEAST), disk=Room(10 * MIB, 1024 * MIB))
RESIDENTS = {"low": Resident(0), "lower": Resident(-1), "high": Resident(100), "also high": Resident(100)}
MEMORY, CORES = Gives.MEMORY, Gives.CORES


def course(*looks: tuple[float, Machine], residents: dict[str, Resident] = RESIDENTS) -> Relief:
    """Return the relief after these looks at their times."""
    relief = Relief()
    for now_s, machine in looks:
        relief = relief.after(machine, residents, now_s)
    return relief


def under_pressure(until_s: int, machine: Machine = SHORT, residents: dict[str, Resident] = RESIDENTS) -> Relief:
    """Return the relief after a look each second from 0 on."""
    return course(*((float(second), machine) for second in range(until_s + 1)), residents=residents)


def test_the_lowest_priority_gives_memory_then_cores_then_the_next_and_the_highest_gives_nothing() -> None:
    order = [ReliefStep(MEMORY, -1), ReliefStep(CORES, -1), ReliefStep(MEMORY, 0), ReliefStep(CORES, 0)]
    assert relief_steps(RESIDENTS) == order
    for taken in range(1, 5):
        assert list(under_pressure(round((taken - 1) * STEP_S)).taken) == order[:taken]
    assert list(under_pressure(1000).taken) == order


def test_relief_names_the_applications_that_give() -> None:
    relief = under_pressure(round(2 * STEP_S))
    given = {gives: relief.givers(gives, RESIDENTS) for gives in Gives}
    assert given == {MEMORY: {"lower", "low"}, CORES: {"lower"}, Gives.EXECUTORS: frozenset()}


def test_a_watched_application_gives_nothing_and_one_of_others_gives_only_cores() -> None:
    residents = {"watched": Resident(0, paced=False), "theirs": Resident(0, started=False), "high": Resident(9, evicts=True)}
    relief = under_pressure(1000, residents=residents)
    assert relief.taken == (ReliefStep(CORES, 0),)
    assert relief.givers(CORES, residents) == {"theirs"}
    # an application with the same priority, whose executors Sparkpace started, gives memory, and no other does
    residents["ours"] = Resident(0)
    relief = under_pressure(1000, residents=residents)
    assert relief.givers(MEMORY, residents) == relief.givers(Gives.EXECUTORS, residents) == {"ours"}


def test_executors_end_one_application_after_the_other_once_nothing_else_is_left() -> None:
    residents = {"a": Resident(0), "b": Resident(0), "high": Resident(100, evicts=True)}
    squeezed_s = round(STEP_S)
    for until_s, ended in (
        (squeezed_s + round(EVICT_S) - 1, set[str]()),
        (squeezed_s + round(EVICT_S), {"a"}),
        (squeezed_s + round(2 * EVICT_S), {"a", "b"}),
    ):
        assert under_pressure(until_s, residents=residents).givers(Gives.EXECUTORS, residents) == ended


def test_a_pressure_that_comes_again_ends_no_executor_at_once() -> None:
    residents = {"low": Resident(0), "high": Resident(100, evicts=True)}
    squeezed = under_pressure(round(STEP_S), residents=residents)
    again_s = STEP_S + 10 * EVICT_S
    later = squeezed.after(SCARCE, residents, again_s - 1).after(SHORT, residents, again_s)
    assert len(later.taken) == 2
    assert len(later.after(SHORT, residents, again_s + EVICT_S).taken) == 3


def test_only_an_application_with_evict_ends_others_and_only_those_of_lower_priority() -> None:
    residents = {"low": Resident(0), "middle": Resident(50, evicts=True), "next": Resident(60), "high": Resident(100)}
    assert [step.application_id for step in relief_steps(residents) if step.gives is Gives.EXECUTORS] == ["low"]
    assert all(step.gives is not Gives.EXECUTORS for step in relief_steps(RESIDENTS))


def test_steps_are_taken_back_one_by_one_the_last_first_once_there_was_room_for_a_while() -> None:
    relief, now_s = under_pressure(round(STEP_S)), STEP_S
    assert len(relief.taken) == 2
    for left in (1, 0):
        assert len(relief.after(ENOUGH, RESIDENTS, now_s + CALM_S - 1).taken) == left + 1
        now_s += CALM_S
        relief = relief.after(ENOUGH, RESIDENTS, now_s)
        assert list(relief.taken) == relief_steps(RESIDENTS)[:left]
    assert relief.why
    assert relief.after(ENOUGH, RESIDENTS, now_s + CALM_S).why == ""


def test_a_little_more_than_the_least_takes_nothing_and_gives_nothing_back() -> None:
    relief = under_pressure(round(STEP_S))
    for now_s in range(10, 500):
        relief = relief.after(SCARCE, RESIDENTS, float(now_s))
        assert len(relief.taken) == 2
    assert course((0.0, SCARCE)).taken == ()


def test_a_short_disk_takes_only_cores() -> None:
    assert under_pressure(1000, FULL).taken == (ReliefStep(CORES, -1), ReliefStep(CORES, 0))


def test_a_newcomer_of_lower_priority_gives_first() -> None:
    residents = {"low": Resident(0), "high": Resident(100)}
    relief = under_pressure(1000, residents=residents)
    with_another = residents | {"lower": Resident(-1)}
    later = relief.after(SHORT, with_another, 1001.0)
    assert later.taken == (ReliefStep(MEMORY, -1), ReliefStep(MEMORY, 0), ReliefStep(CORES, 0))


@pytest.mark.parametrize(
    ("room", "said"),
    [
        (Room(180 * MIB, LEAST), "this machine has 180 MiB of free memory"),
        (Room(400 * MIB, LEAST, 0.23), "all that runs on this machine waits for memory 23% of the time"),
        (Room(400 * MIB, LEAST, 0.05), ""),
        # an executor that waits within a limit of its own, on a machine with memory left
        (Room(900 * MIB, LEAST, 0.9), ""),
        (Room(300 * MIB, LEAST), ""),
    ],
)
def test_what_counts_as_a_shortage_of_memory(room: Room, said: str) -> None:
    assert Machine(memory=room).shortage == said
    assert Machine(memory=room, disk=Room(2.0, 1.0)).shortage == said


def test_a_short_disk_is_named_and_nothing_known_is_no_shortage() -> None:
    assert FULL.shortage == "the disk of the local directory has 10 MiB free"
    assert (Machine().shortage, Machine().ample) == ("", True)


def test_of_much_memory_a_bounded_margin_is_enough() -> None:
    assert Room(10_513 * MIB, 10_000 * MIB).ample
    assert not Room(10_500 * MIB, 10_000 * MIB).ample
    assert not Room(374 * MIB, LEAST).ample
    assert Room(376 * MIB, LEAST).ample
