"""The experiments, one module each, and the interface of all of them for the harness.

A scenario is pure: from its settings and the recorded data it names the steps, the jobs that a step submits, the conditions
that hold, and the content of the report. The harness (`experiments.harness.experiment`) runs the steps and keeps the results.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import msgspec

from experiments.baselines.admission import Play
from experiments.harness.recorded import Condition, Data, Goal, Order
from experiments.harness.reserved import CoreCourse
from experiments.scenarios.beside import BesideAnother
from experiments.scenarios.contend import Contend
from experiments.scenarios.fig4 import Fig4
from experiments.scenarios.half import Half
from experiments.scenarios.homes import Homes
from experiments.scenarios.laws import Laws
from experiments.scenarios.mixed import Mixed
from experiments.scenarios.overhead import Overhead
from experiments.scenarios.placement import Placement
from experiments.scenarios.placing import PlacingSpeed
from experiments.scenarios.preemption import Preemption
from experiments.scenarios.scale import Scale
from experiments.scenarios.scan import Scan
from experiments.scenarios.spillover import Spillover
from experiments.scenarios.streams import Streams
from experiments.scenarios.table4 import Table4
from experiments.scenarios.waiting import Waiting
from experiments.scenarios.whatif import WhatIf
from experiments.scenarios.zoo import Zoo
from stage_model.errors import BadInput


class Scenario(Protocol):
    """`steps` in the order in which they run."""

    def steps(self) -> list[str]: ...

    def conditions(self, data: Data) -> list[Condition]: ...

    def tables(self, data: Data) -> str:
        """Return the tables as Markdown; every row says its n."""
        ...

    def pictures(self, data: Data) -> dict[str, list[str]]:
        """Return names of pictures, and the applications that each shows: several over one time axis, one in detail."""
        ...


@runtime_checkable
class Ambitious(Protocol):
    """A scenario that shows how near the project's goals are."""

    def goals(self, data: Data) -> list[Goal]:
        """Return the goals as recorded so far; none where nothing was recorded."""
        ...


class Real(Scenario, Protocol):
    """A scenario whose steps run on a cluster; `orders` may look at the steps before."""

    def orders(self, step: str, data: Data) -> list[Order]: ...


@runtime_checkable
class Simulated(Scenario, Protocol):
    """A scenario whose steps run in the simulator, with no cluster; each yields rows of plain values."""

    def simulate(self, step: str) -> list[dict[str, Any]]: ...


@runtime_checkable
class Measured(Scenario, Protocol):
    """A scenario whose steps measure the product's own code, processes and containers, without Spark; each yields rows of
    plain values and may use `folder`, which is empty before and removed afterwards."""

    def measure(self, step: str, folder: Path) -> list[dict[str, Any]]: ...


@runtime_checkable
class Scheduled(Scenario, Protocol):
    """A scenario whose steps run streams of jobs, each under one scheduler: Sparkpace's, or one for stock Spark."""

    def play(self, step: str, data: Data) -> Play: ...


@runtime_checkable
class Distributions(Protocol):
    """A scenario with pictures of distributions: by picture's name, seconds of every curve; infinite is "did not end"."""

    def distributions(self, data: Data) -> dict[str, dict[str, list[float]]]: ...


@runtime_checkable
class Reserving(Protocol):
    """A scenario with pictures of the cores that executors reserve over time: by picture's name, the course of every row."""

    def courses(self, data: Data) -> dict[str, dict[str, CoreCourse]]: ...


AnyScenario = Real | Simulated | Measured | Scheduled
SCENARIOS: dict[str, Callable[..., AnyScenario]] = {
    "beside": BesideAnother,
    "contend": Contend,
    "fig4": Fig4,
    "half": Half,
    "homes": Homes,
    "laws": Laws,
    "mixed": Mixed,
    "overhead": Overhead,
    "placement": Placement,
    "placing": PlacingSpeed,
    "preemption": Preemption,
    "scale": Scale,
    "scan": Scan,
    "spillover": Spillover,
    "streams": Streams,
    "table4": Table4,
    "waiting": Waiting,
    "whatif": WhatIf,
    "zoo": Zoo,
}


def make_scenario(name: str, settings: Mapping[str, Any], seed: int, source: Path) -> AnyScenario:
    """Return the scenario of that name. Raise `BadInput`, naming `source`, for an unknown scenario or a setting that is
    unknown or of the wrong kind."""
    if name not in SCENARIOS:
        raise BadInput(f"{source} names scenario {name!r}; there are: {', '.join(SCENARIOS)}")
    try:
        made: AnyScenario = msgspec.convert({**settings, "seed": seed}, type=SCENARIOS[name])
    except msgspec.ValidationError as problem:
        raise BadInput(f"{source} has a setting that scenario {name} cannot use: {problem}") from problem
    return made
