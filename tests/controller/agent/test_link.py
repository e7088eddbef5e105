"""Who may give orders to a worker."""

from __future__ import annotations

import pytest

from controller.agent.link import Gate, Refused
from controller.messages import Desired


def orders(cluster_id: str = "mine", generation: int = 3) -> Desired:
    return Desired(cluster_id=cluster_id, generation=generation, version=1)


def test_orders_of_a_foreign_cluster_are_refused() -> None:
    gate = Gate("mine")
    with pytest.raises(Refused, match="cluster foreign refused; this agent belongs to mine"):
        gate.check(orders("foreign", 99))
    # and leave no trace
    gate.check(orders(generation=1))


def test_orders_of_an_older_generation_are_refused() -> None:
    gate = Gate("mine")
    gate.check(orders(generation=3))
    with pytest.raises(Refused, match="generation 2 refused; 3 was seen"):
        gate.check(orders(generation=2))
    gate.check(orders(generation=3))
    gate.check(orders(generation=4))


def test_an_agent_without_a_cluster_joins_the_first_that_answers() -> None:
    gate = Gate()
    gate.check(orders("mine"))
    with pytest.raises(Refused):
        gate.check(orders("foreign"))
