"""The weights of the scores, as people write them."""

from __future__ import annotations

import pytest

from placement.scores import Weights, parse_weights
from stage_model.errors import BadInput


@pytest.mark.parametrize("text", ["data", "data=-1", "date=1", "cpu=0.5,gpu=0.6", "cpu=2", "data=nan", "data=1,data=2"])
def test_weights_that_cannot_be_are_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--placement-weights"):
        parse_weights(text)


def test_cpu_and_gpu_say_each_other() -> None:
    assert parse_weights("gpu=0.25") == Weights(cpu=0.75, gpu=0.25)
    assert parse_weights("") == Weights()
