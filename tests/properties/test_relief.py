"""Relief of a machine keeps the order of priorities and is taken back wholly, however shortages and applications change."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from controller.agent.core.relief import CALM_S, Gives, Machine, Relief, Resident, Room, relief_steps

residents = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.builds(
        Resident, priority=st.sampled_from([-1, 0, 50, 100]), evicts=st.booleans(), paced=st.booleans(), started=st.booleans()
    ),
)
rooms = st.none() | st.builds(Room, free=st.floats(0, 10), least=st.just(5.0), waiting=st.floats(0, 1))
machines = st.builds(Machine, memory=rooms, disk=rooms)
looks = st.lists(st.tuples(st.floats(0, 40), machines, residents), min_size=1, max_size=40)


@given(looks)
def test_the_lowest_give_first_and_all_is_given_back(course: list[tuple[float, Machine, dict[str, Resident]]]) -> None:
    relief, now_s = Relief(), 0.0
    for elapsed_s, machine, here in course:
        now_s += elapsed_s
        before, relief = relief, relief.after(machine, here, now_s)
        order = relief_steps(here)
        kept = [step for step in order if step in before.taken]
        assert abs(len(relief.taken) - len(kept)) <= 1, "one step at a time"
        assert list(relief.taken) == [step for step in order if step in relief.taken]
        new = set(relief.taken) - set(kept)
        assert not new or machine.shortage
        if machine.memory is not None and machine.memory.short and new:
            # of memory all before it have given; a shortage of the disk may have passed some over
            assert set(order[: order.index(next(iter(new)))]) <= set(relief.taken)
        highest = max((one.priority for one in here.values()), default=0)
        for gives in Gives:
            for name in relief.givers(gives, here):
                assert here[name].paced, "watched ones are untouched"
                assert here[name].started or gives is Gives.CORES
                assert here[name].priority < highest
                assert gives is not Gives.EXECUTORS or any(
                    one.evicts and one.priority > here[name].priority for one in here.values()
                ), "no one is ended without the option"
    for _ in range(len(relief.taken) + 2):
        now_s += CALM_S + 1
        relief = relief.after(Machine(), here, now_s)
    assert (relief.taken, relief.why) == ((), "")
