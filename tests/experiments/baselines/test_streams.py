"""Settings of a job on a stock cluster: its executors, and their weight next to others' executors."""

from __future__ import annotations

from typing import Any

import pytest

from experiments.baselines.admission import Submit
from experiments.baselines.streams import Stock
from experiments.harness.recorded import Order


class StandInCluster:
    """A stand-in for a cluster, of which only a submit is asked here."""

    def __init__(self) -> None:
        self.submitted: list[dict[str, Any]] = []

    def core_s(self) -> float:
        return 0.0

    def submit(self, step: str, order: Order, **words: Any) -> None:
        self.submitted.append(words)


@pytest.mark.parametrize(
    ("executors", "weights"),
    [({"short": 1, "long": 2}, (1.0, 1.0)), ({"short": 2, "long": 4}, (0.5, 0.5)), ({"short": 1, "long": 4}, (1.0, 0.5))],
)
def test_all_executors_of_a_job_together_weigh_as_much_as_its_size(
    executors: dict[str, int], weights: tuple[float, float]
) -> None:
    cluster = StandInCluster()
    stock = Stock(cluster, executors)  # type: ignore[arg-type]
    for kind in ("short", "long"):
        stock.submit("test", Submit(Order(kind, ("app.py",)), kind))
    assert [one["weight"] for one in cluster.submitted] == list(weights)
    assert [one["executors"] for one in cluster.submitted] == list(executors.values())
