"""Watch of events in whatever order: an end is reported once, and a deadline at risk only after it was late for long
enough."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from controller.master.notify.events import AT_RISK_FOR_S, AT_RISK_S, EventWatch, JobLook
from controller.wire.states import Outcome

DEADLINE_S = 100.0
forecasts = st.one_of(st.none(), st.sampled_from((90.0, DEADLINE_S + AT_RISK_S, DEADLINE_S + AT_RISK_S + 0.1, 200.0)))
states = st.tuples(st.sampled_from(("missing", "running", "ended")), forecasts)
looks = st.lists(st.tuples(st.floats(0.1, 20.0), states, states), max_size=40)


def seen(name: str, state: str, forecast_end_s: float | None) -> list[JobLook]:
    outcome = Outcome.SUCCEEDED if state == "ended" else None
    return [] if state == "missing" else [JobLook(name, name, 1.0, DEADLINE_S, forecast_end_s, outcome)]


@given(looks)
def test_what_is_told_has_happened(course: list[tuple[float, tuple[str, float | None], tuple[str, float | None]]]) -> None:
    watch, now_s = EventWatch(), 0.0
    over, late_since = set[str](), dict[str, float]()
    told, at_risk_s = Counter[str](), dict[str, float]()
    for number, (seconds, *both) in enumerate(course):
        now_s += seconds
        # no application comes back from its end
        states = {name: ("ended" if name in over else state, end) for name, (state, end) in zip("ab", both, strict=True)}
        events = watch.events([look for name, (state, end) in states.items() for look in seen(name, state, end)], now_s)
        for name, (state, end) in states.items():
            late = state == "running" and end is not None and end - DEADLINE_S > AT_RISK_S
            late_since = {**late_since, name: late_since.get(name, now_s)} if late else _without(late_since, name)
            if state == "ended":
                told[name] += number == 0  # before the first look: of an earlier life
                over.add(name)
        for event in events:
            name = event.name
            if event.event == "application_ended":
                assert name in over
                told[name] += 1
            else:
                assert now_s - late_since[name] >= AT_RISK_FOR_S
                assert now_s - at_risk_s.get(name, -AT_RISK_FOR_S) >= AT_RISK_FOR_S
                at_risk_s[name] = now_s
    assert told == Counter(dict.fromkeys(over, 1))


def _without(values: dict[str, float], name: str) -> dict[str, float]:
    return {key: value for key, value in values.items() if key != name}
