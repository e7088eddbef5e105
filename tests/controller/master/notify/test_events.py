"""Events that follow from two looks, worked out by hand; the rule of risk is the alert's."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import msgspec

from controller.master.notify.events import (
    AT_RISK_FOR_S,
    AT_RISK_S,
    LONGEST_NAME,
    LONGEST_REASON,
    EventWatch,
    HookEvent,
    JobLook,
    Risk,
    body,
    in_words,
    refused_event,
    with_risk,
)
from controller.wire.states import Outcome

RISK = Risk(
    late_since_s=20.0, lateness="it was squeezed by etl", squeezed_by=("etl",), waits_for="w2 has no memory for it",
    demanded_cores=2.0, granted_cores=0.5, priority=50,
)  # fmt: skip
ROOT = Path(__file__).parents[4]
RULES = ROOT / "deploy" / "prometheus" / "rules.yml"
PAGE = ROOT / "docs" / "notify.md"


def look(forecast_end_s: float | None = None, *, outcome: Outcome | None = None, **changed: Any) -> JobLook:
    plain = JobLook("app-1", "nightly", 50.0, 90.0, forecast_end_s, outcome)
    return plain._replace(**changed)


def reported(watch: EventWatch, now_s: float, *looks: JobLook) -> list[str]:
    return [event.event for event in watch.events(looks, now_s)]


def test_the_rule_of_risk_is_the_one_of_the_alert() -> None:
    rule = RULES.read_text().partition("SparkpaceDeadlineAtRisk")[2].partition("- alert")[0]
    [past] = re.findall(r"deadline_timestamp_seconds > ([\d.]+)\)", rule)
    [long] = re.findall(r"for: (\d+)s", rule)
    assert (float(past), float(long)) == (AT_RISK_S, AT_RISK_FOR_S)


def test_a_deadline_is_at_risk_once_the_forecast_was_past_it_for_long_enough() -> None:
    watch = EventWatch()
    assert reported(watch, 0.0, look(92.0)) == []
    assert reported(watch, 29.9, look(92.0)) == []
    [event] = watch.events([look(92.5)], 30.0)
    assert (event.event, event.application_id, event.deadline_s, event.forecast_end_s) == (
        "deadline_at_risk", "app-1", 90.0, 92.5,
    )  # fmt: skip
    assert "2.5 s" in (event.reason or "")
    assert event.late_s == 2.5
    assert reported(watch, 31.0, look(95.0)) == [], "once"


def test_who_is_in_time_again_may_be_at_risk_again() -> None:
    watch = EventWatch()
    reported(watch, 0.0, look(92.0))
    assert reported(watch, 30.0, look(92.0)) == ["deadline_at_risk"]
    assert reported(watch, 31.0, look(90.9)) == []
    assert reported(watch, 32.0, look(92.0)) == []
    assert reported(watch, 61.9, look(92.0)) == []
    assert reported(watch, 62.0, look(92.0)) == ["deadline_at_risk"]


def test_within_the_second_that_is_left_to_rounding_without_a_deadline_or_a_forecast_nothing_is_at_risk() -> None:
    for calm in (look(91.0), look(None), look(99.0, deadline_s=None)):
        watch = EventWatch()
        assert reported(watch, 0.0, calm) + reported(watch, 100.0, calm) == []


def test_times_have_three_digits() -> None:
    watch = EventWatch()
    late = look(92.123456, elapsed_s=50.123456, deadline_s=90.123456)
    watch.events([late], 0.0)
    [event] = watch.events([late], 30.0)
    assert (event.elapsed_s, event.deadline_s, event.forecast_end_s) == (50.123, 90.123, 92.123)
    assert refused_event("nightly", "no", 90.123456).deadline_s == 90.123


def test_an_end_is_an_event_once_with_its_outcome() -> None:
    watch = EventWatch()
    watch.events([look()], 0.0)
    over = look(outcome=Outcome.SUCCEEDED, elapsed_s=81.0, error_pct=-10.0)
    [event] = watch.events([over], 1.0)
    assert (event.event, event.outcome, event.elapsed_s, event.error_pct) == ("application_ended", "succeeded", 81.0, -10.0)
    assert event.reason is None, "it ended by itself"
    assert (event.late_s, event.command) == (None, None), "nothing is to be done"
    assert in_words(event) == "nightly (app-1) has ended: succeeded, 10.0% early"
    assert reported(watch, 2.0, over) == []


def test_an_end_that_someone_should_look_at_has_the_command_for_it() -> None:
    watch = EventWatch()
    watch.events([], 0.0)
    failed = look(outcome=Outcome.FAILED, reason="its driver ended with exit code 1")
    late = look(
        outcome=Outcome.SUCCEEDED, application_id="app-2", elapsed_s=99.0, error_pct=10.0, lateness="it was squeezed by etl",
        squeezed_by=("etl",),
    )  # fmt: skip
    killed = look(outcome=Outcome.KILLED, application_id="app-3", reason="it was killed")
    of_failed, of_late, of_killed = watch.events([failed, late, killed], 1.0)
    assert (of_failed.command, of_failed.late_s) == ("sparkpace logs app-1", None)
    assert (of_late.command, of_late.late_s, of_late.squeezed_by) == ("sparkpace report app-2", 9.0, ("etl",))
    assert of_killed.command is None
    [of_attached] = watch.events([failed._replace(application_id="app-4", attached=True)], 2.0)
    assert of_attached.command == "sparkpace report app-4", "its logs are its cluster's"
    for said in ("nightly (app-2)", "10.0% late", "Why: it was squeezed by etl", "sparkpace report app-2"):
        assert said in in_words(of_late)


def at_risk() -> HookEvent:
    watch = EventWatch()
    watch.events([look(92.5)], 0.0)
    [event] = watch.events([look(92.5)], 30.0)
    return event


def test_the_text_of_a_deadline_at_risk_says_which_how_late_since_when_why_and_what_to_do() -> None:
    event = with_risk(at_risk(), RISK)
    assert (event.late_since_s, event.lateness, event.squeezed_by) == (20.0, RISK.lateness, ("etl",))
    assert (event.waits_for, event.command) == (RISK.waits_for, "sparkpace set app-1 --priority high")
    said = in_words(event)
    for part in ("nightly (app-1)", "2.5s after its deadline of 1m30s", "since 20s", RISK.lateness, RISK.waits_for, "0.50"):
        assert part in said
    assert said.endswith(": sparkpace set app-1 --priority high"), "the command can be copied"


def test_a_higher_priority_is_advised_only_where_one_is_left_and_others_have_the_cores() -> None:
    taken = {"priority": 50, "highest_priority": 50}
    others: list[dict[str, Any]] = [{"priority": 100}, {"granted_cores": 2.0}, {"granted_cores": 1.96}, taken]
    for changed in others:
        assert with_risk(at_risk(), RISK._replace(**changed)).command == "sparkpace explain app-1"
    for highest, advised in ((100, "high"), (50, "normal"), (60, "60")):
        risk = RISK._replace(priority=0, highest_priority=highest)
        assert with_risk(at_risk(), risk).command == f"sparkpace set app-1 --priority {advised}"


def test_what_is_not_known_is_left_out_of_the_text() -> None:
    unknown = RISK._replace(late_since_s=None, lateness="", squeezed_by=(), waits_for="")
    event = with_risk(at_risk(), unknown)
    assert (event.lateness, event.waits_for, event.squeezed_by) == (None, None, ())
    assert "None" not in in_words(event)
    assert in_words(at_risk()) == "nightly (app-1) is expected to end 2.5s after its deadline of 1m30s"


def test_what_strangers_choose_is_cut_and_printable() -> None:
    event = refused_event("a\x1b[2J\n" + "x" * 5000, "no \x00" + "y" * 5000)
    assert event.reason is not None
    assert (event.name[:7], len(event.name)) == ("a?[2J?x", LONGEST_NAME)
    assert (event.reason[:5], len(event.reason)) == ("no ?y", LONGEST_REASON)
    # and no markup of a chat
    assert in_words(refused_event("<!channel>", "a & b")) == "?!channel? was refused: a ? b"


def test_the_body_has_its_own_id_and_the_clusters() -> None:
    said = msgspec.json.decode(body(refused_event("nightly", "no"), notification_id="n1", epoch_s=1.23456, cluster_id="c1"))
    assert said == {
        "id": "n1", "time": 1.235, "cluster_id": "c1", "event": "submission_refused", "name": "nightly", "reason": "no",
        "text": "nightly was refused: no", "application_id": None, "elapsed_s": None, "deadline_s": None,
        "forecast_end_s": None, "late_s": None, "late_since_s": None, "outcome": None, "error_pct": None, "lateness": None,
        "squeezed_by": [], "waits_for": None, "advice": None, "command": None, "expected_by": None,
    }  # fmt: skip


def test_the_page_shows_what_is_sent_and_its_relay_takes_fields_of_it() -> None:
    example, relay = re.findall(r"```json\n(.+?)```", PAGE.read_text(), re.DOTALL)
    shown = msgspec.json.decode(example)
    known = {"id", "time", "cluster_id", "text"}
    event = msgspec.convert({key: value for key, value in shown.items() if key not in known}, HookEvent)
    sent = body(event, notification_id=shown["id"], epoch_s=shown["time"], cluster_id=shown["cluster_id"])
    assert msgspec.json.decode(sent) == shown
    [hook] = msgspec.json.decode(relay)
    taken = {one["name"] for one in hook["pass-arguments-to-command"]}
    assert taken == {"event", "text"}
    assert taken <= shown.keys()
