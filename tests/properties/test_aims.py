"""Deadlines of any application: late means open, and a further aim never lowers the demand."""

from __future__ import annotations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from controller.agent.core.decide import decide_demand, live_stages
from controller.master.core import planning
from controller.master.core.application import Application
from stage_model.laws import LAWS
from stage_model.laws.base import Decision, LawState
from stage_model.laws.forecast import outlook
from stage_model.plan import ApplicationPlan
from stage_model.settings import QuotaSettings
from tests.fakes.random_runs import Properties, Story, stories

foreseeing = pytest.mark.parametrize("law", [name for name, law in LAWS.items() if law.foresees])
helds = st.none() | st.floats(0, 2)


def plan_of(story: Story, application: Application, law: str) -> ApplicationPlan:
    application.record.options = type(application.options)(deadline_s=story.deadline_s, law=law)
    return planning.application_plan(application, "w0", story.most, story.now_s)


def decided(story: Story, plan: ApplicationPlan, held: float | None) -> Decision:
    return decide_demand(plan, story.seen, LawState(held), dt_s=1.0, quota=QuotaSettings())


def usable(story: Story, plan: ApplicationPlan) -> float:
    """Return the cores that the executor's runnable tasks can use."""
    running = sum(own.running for own in story.seen.stages.values())
    waiting = sum(stage.waiting for stage in live_stages(plan, story.seen))
    return min(plan.cores, min(story.seen.slots, running + waiting) * plan.speed_limit)


def soonest_end_s(story: Story, plan: ApplicationPlan) -> float:
    """Return the seconds from now to the end with all cores, by what is known."""
    seen = outlook(live_stages(plan, story.seen), plan, 0.0)
    return plan.pace * seen.forecast.time_s(plan.cores)


def own_properties(story: Story) -> tuple[Properties, ...]:
    return tuple(job.properties for job in story.jobs)


@foreseeing
@settings(deadline=None, max_examples=60)
@given(stories(), helds)
def test_late_means_open(law: str, story: Story, held: float | None) -> None:
    """The agent opens the quota whatever it takes the work left to be, and whatever deadlines its jobs have."""
    alone = plan_of(story, story.with_properties(*({} for _ in story.jobs)), law)
    plan = plan_of(story, story.with_properties(*own_properties(story)), law)
    late = alone.left_s is not None and soonest_end_s(story, alone) > alone.left_s
    assume(late or any(aim.left_s < 0 for aim in plan.aims) or (plan.left_s or 0.0) < 0)
    assert decided(story, plan, held).demand >= usable(story, plan) - 1e-9


@foreseeing
@settings(deadline=None, max_examples=60)
@given(stories(), helds)
def test_jobs_never_lower_what_the_applications_deadline_asks_for(law: str, story: Story, held: float | None) -> None:
    assume(story.deadline_s is not None)
    alone = decided(story, plan_of(story, story.with_properties(*({} for _ in story.jobs)), law), held)
    got = decided(story, plan_of(story, story.with_properties(*own_properties(story)), law), held)
    assert got.demand >= alone.demand - 1e-9


@foreseeing
@settings(deadline=None, max_examples=60)
@given(stories(), helds, st.data())
def test_a_further_aim_never_lowers_the_demand(law: str, story: Story, held: float | None, data: st.DataObject) -> None:
    application = story.with_properties(*own_properties(story))
    actions = application.actions.under_way()
    assume(len(actions) + (story.deadline_s is not None) > 1 and actions)
    but = data.draw(st.sampled_from(actions)).jobs
    without = [{} if job.number in but else job.properties for job in story.jobs]
    fewer = plan_of(story, story.with_properties(*without), law)
    got = decided(story, plan_of(story, application, law), held)
    assert got.demand >= decided(story, fewer, held).demand - 1e-9
