"""What a stage takes by the model, whatever a profile claims."""

from __future__ import annotations

import pytest

from stage_model.forecast.fixed import modelled_s


@pytest.mark.parametrize("cores", [0.0, 5e-324, 1e-300])
def test_a_run_without_cores_explains_nothing(cores: float) -> None:
    """The least float there is, halved, is nothing: a division by it ended a plan."""
    assert modelled_s(tasks=4, work_core_s=10.0, cv=0.0, cores=cores, most_cores=cores, slots=2) == 0.0


def test_even_tasks_share_the_cores() -> None:
    assert modelled_s(tasks=4, work_core_s=10.0, cv=0.0, cores=2.0, most_cores=2.0, slots=2) == pytest.approx(5.0)
