"""Settings of an application about its pipeline: taken, or refused by name."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.asks.job_options import JobOptions, job_options
from controller.asks.pipeline_options import PipelineOptions
from stage_model.errors import BadInput

NOW = datetime(2030, 1, 31, 12, 0, tzinfo=UTC)


def read(**own: str) -> JobOptions:
    conf = {f"spark.pace.{key.replace('_', '.')}": value for key, value in own.items()}
    return job_options(conf, submitted=NOW, working_dir=Path("/"), default_law="forecast")


def test_an_end_counts_from_submission_like_a_deadline() -> None:
    assert read().pipeline is None
    assert read(pipeline="nightly").pipeline == PipelineOptions(name="nightly")
    got = read(pipeline="nightly", pipeline_by="by 12:01")
    assert got.pipeline is not None
    assert got.pipeline.by_s == pytest.approx(60.0)
    assert got.deadline_s is None


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"pipeline": ""}, "spark.pace.pipeline ''.* 63"),
        ({"pipeline": "a b"}, "spark.pace.pipeline 'a b'"),
        ({"pipeline": "a" * 64}, "a" * 64),
        ({"pipeline_by": "90s"}, "spark.pace.pipeline.by .*spark.pace.pipeline "),
        ({"pipeline": "p", "pipeline_by": "soon"}, "spark.pace.pipeline.by 'soon'"),
        ({"pipeline": "p", "pipeline_by": "90s", "deadline": "80s"}, "spark.pace.deadline .*spark.pace.pipeline.by"),
        ({"pipeline_until": "90s"}, "spark.pace.pipeline.until"),
    ],
)
def test_what_cannot_be_is_refused_by_name(own: dict[str, str], said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read(**own)
