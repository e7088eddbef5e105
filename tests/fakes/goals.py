"""The goal of a stage as the next plan would fix it."""

from __future__ import annotations

from controller.master.core import goals
from controller.master.core.application import Application
from controller.master.core.capacity import Capacity
from controller.master.core.remaining import Remaining


def fix_goal(application: Application, stage: int, most: Capacity, now_s: float) -> None:
    goals.await_goal(application, (stage, 0), now_s)
    remaining = Remaining.of(application)
    if remaining is not None:
        goals.set_goals(remaining, application.targets(), most)
