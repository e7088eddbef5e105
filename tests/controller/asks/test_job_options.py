"""The `spark.pace.*` settings of an application, each checked by name."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest

from controller.asks.job_options import JobOptions, job_options
from controller.asks.job_setting import with_annotations
from controller.asks.pipeline_options import PipelineOptions
from controller.wire.worker import Mount
from stage_model.errors import BadInput
from tests.fakes.refusals import assert_names

NOW = datetime(2030, 1, 31, 12, 0, tzinfo=UTC)


def options(working_dir: Path = Path("/"), **own: str) -> JobOptions:
    return read(own, working_dir)


def read(own: dict[str, str], working_dir: Path = Path("/")) -> JobOptions:
    conf = {f"spark.pace.{key.replace('_', '.')}": value for key, value in own.items()}
    return job_options({"spark.app.name": "x", **conf}, submitted=NOW, working_dir=working_dir, default_law="forecast")


def test_nothing_said_is_no_deadline_and_normal_priority() -> None:
    got = options()
    assert (got.deadline_s, got.priority, got.law, got.force, got.mounts) == (None, 50, "forecast", False, ())
    assert got.settings["paper.alpha"] == 0.95


def test_what_is_said_is_taken() -> None:
    got = options(deadline="90s", priority="high", law="paper", profile="p", image="i", python="/p", force="true")
    assert (got.deadline_s, got.priority, got.law, got.force) == (90.0, 100, "paper", True)
    assert (got.profile, got.image, got.python) == ("p", "i", "/p")


def test_a_watched_job_is_not_judged_and_not_forced() -> None:
    got = options(observe="true")
    assert (got.observe, got.force, got.unjudged) == (True, False, True)
    assert (options().unjudged, options(force="true").unjudged) == (False, True)


def test_arguments_are_words_or_unknown() -> None:
    assert options().arguments is None
    assert options(arguments='["--size", "3"]').arguments == ("--size", "3")


def test_constants_of_the_laws_are_passed_on() -> None:
    assert options(law_paper_k="7").settings["paper.k"] == 7.0


def test_a_duration_counts_from_submission_and_a_time_is_one() -> None:
    assert options(deadline="90s").deadline_s == 90.0
    assert options(deadline="2030-01-31T12:01:00+00:00").deadline_s == pytest.approx(60.0)
    assert options(deadline="by 12:01").deadline_s == pytest.approx(60.0)


def test_the_end_of_a_pipeline_counts_from_submission_like_a_deadline() -> None:
    assert options().pipeline is None
    assert options(pipeline="nightly").pipeline == PipelineOptions(name="nightly")
    got = options(pipeline="nightly", pipeline_by="by 12:01")
    assert got.pipeline is not None
    assert got.pipeline.by_s == pytest.approx(60.0)
    assert got.deadline_s is None


def test_mounts_are_within_what_exists(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    assert options(working_dir=tmp_path, mounts="data:rw").mounts == (
        Mount(path=str(tmp_path / "data"), writable=True, asked=True),
    )


@pytest.mark.parametrize(
    ("own", "part"),
    [
        ({"deadline": "abc"}, "spark.pace.deadline"),
        ({"deadline": "-5s"}, "'-5s'"),
        ({"deadline": "2020-01-01T00:00"}, "2020-01-01T00:00"),
        ({"priority": "101"}, "spark.pace.priority"),
        ({"law": "magic"}, "spark.pace.law"),
        ({"law_paper_alpha": "2"}, "spark.pace.law.paper.alpha"),
        ({"law_paper_alfa": "1"}, "alfa.* spark.pace.law.paper.alpha"),
        ({"force": "yes"}, "'yes'"),
        ({"mounts": "/does/not/exist"}, "spark.pace.mounts"),
        ({"arguments": "--size 3"}, "spark.pace.arguments"),
        ({"arguments": "[3]"}, "spark.pace.arguments"),
        ({"placement_labels": "a=b," * 1025}, "spark.pace.placement.labels .*4100.* 4096"),
        ({"mounts": "/," * 65}, "spark.pace.mounts .*65.* 64"),
        ({"dedline": "90s"}, "spark.pace.dedline .*spark.pace.deadline, "),
        ({"pipeline": ""}, "spark.pace.pipeline ''.* 63"),
        ({"pipeline": "a b"}, "spark.pace.pipeline 'a b'"),
        ({"pipeline": "a" * 64}, "a" * 64),
        ({"pipeline_by": "90s"}, "spark.pace.pipeline.by .*spark.pace.pipeline "),
        ({"pipeline": "p", "pipeline_by": "soon"}, "spark.pace.pipeline.by 'soon'"),
        ({"pipeline": "p", "pipeline_by": "90s", "deadline": "80s"}, "spark.pace.deadline .*spark.pace.pipeline.by"),
        ({"pipeline_until": "90s"}, "spark.pace.pipeline.until"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(own: dict[str, str], part: str) -> None:
    with pytest.raises(BadInput, match=part):
        read(own)


def test_a_mount_that_cannot_be_looked_up_does_not_exist(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=str(tmp_path)):
        options(mounts=f"{tmp_path}/{'x' * 5000}")


def test_a_port_is_named_once_however_it_is_written() -> None:
    assert options(placement_ports="080,443").placement.ports == (80, 443)
    with pytest.raises(BadInput, match="'00080'"):
        options(placement_ports="80,00080")


# ---------------------------------------------------------------- annotations of a driver's pod


def annotated(**said: str) -> dict[str, str]:
    return {f"spark.kubernetes.driver.annotation.sparkpace.io/{name}": text for name, text in said.items()}


def test_annotations_say_what_settings_say() -> None:
    conf = annotated(deadline="10min", priority="high") | {"spark.app.name": "a"}
    assert with_annotations(conf) == conf | {"spark.pace.deadline": "10min", "spark.pace.priority": "high"}
    said = with_annotations(annotated(deadline="10min") | {"spark.pace.deadline": "5min"})
    assert said["spark.pace.deadline"] == "5min", "a setting goes before an annotation"


def test_others_annotations_are_theirs() -> None:
    conf = {"spark.kubernetes.driver.annotation.example.org/deadline": "10min", "spark.kubernetes.driver.label.a": "b"}
    assert with_annotations(conf) == conf


def test_an_annotation_that_says_nothing_is_refused() -> None:
    with pytest.raises(BadInput) as refused:
        with_annotations(annotated(dedline="10min"))
    assert_names(refused.value, "sparkpace.io/dedline", "sparkpace.io/deadline", "sparkpace.io/priority")
