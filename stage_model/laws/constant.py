"""The law `constant`: the same cores from the first task to the end, as a yardstick for the others (docs/decisions/0006)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from stage_model.forecast.virtual_time import Forecast
from stage_model.laws.base import Decision, Law, View
from stage_model.settings import LAW_PREFIX, Topic, setting


@dataclass(frozen=True, slots=True)
class ConstantSettings(Topic):
    """The law `constant`."""

    PREFIX: ClassVar[str] = LAW_PREFIX + "constant."

    cores: float = setting(
        1.0, "cores", unit="cores of the application", least=0, open_least=True,
        reason="a yardstick has to be chosen; one core is the smallest stock Spark knows",
    )  # fmt: skip


def decide(view: View) -> Decision:
    """Return the same cores every time, shared equally by the executors, tasks or not."""
    cores = ConstantSettings.from_numbers(view.plan.settings).cores
    return Decision(min(float(view.slots), cores / view.plan.executors), view.state, "constant", planned=True)


def planned_cores(_forecast: Forecast, _deadline_s: float, most: float, constants: Mapping[str, float]) -> float:
    return min(ConstantSettings.from_numbers(constants).cores, most)


LAW = Law(decide, ConstantSettings, planned_cores, always=True)
