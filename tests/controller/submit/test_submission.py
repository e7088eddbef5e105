"""A submission is checked the same whether its settings come as options or by `--conf`."""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from controller.asks.job_options import SETTINGS
from controller.asks.submit_args import split_arguments
from controller.submit.submission import Submission, check_submission
from stage_model.errors import BadInput


def check(place: Path, *words: str) -> Submission:
    (place / "app.py").touch()
    return check_submission(
        split_arguments([*words, "app.py"]),
        submission=str(uuid.UUID(int=1)),
        submitted_ms=1_900_000_000_000,
        submitted_uptime="1@b",
        working_dir=place,
    )


@pytest.mark.parametrize("name", [name for name, one in SETTINGS.items() if one.option and not one.ours])
def test_an_option_and_its_setting_say_the_same(tmp_path: Path, name: str) -> None:
    (tmp_path / "90s").mkdir()
    setting = SETTINGS[name]
    text = (*setting.choices, "90s")[0] if setting.takes_value else "true"
    as_option = [setting.option, text] if setting.takes_value else [setting.option]
    before = ["--pipeline", "p"] if name == "pipeline.by" else []
    option, conf = (check(tmp_path, *before, *words) for words in (as_option, ["--conf", f"{setting.key}={text}"]))
    assert (option.asked, option.given, option.profile) == (conf.asked, conf.given, conf.profile)
    assert option.asked != check(tmp_path, *before).asked
    assert option.given[name] == text


def test_an_option_wins_over_its_setting(tmp_path: Path) -> None:
    job = check(tmp_path, "--priority", "high", "--conf", "spark.pace.priority=low")
    assert (job.asked.priority, job.given) == (100, {"priority": "high"})


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (["--network", "open"], "--network is 'open'"),
        (["--conf", "spark.pace.network=open"], "spark.pace.network is 'open'"),
        (["--network", "open", "--conf", "spark.pace.network=closed"], "--network is 'open'"),
    ],
)
def test_a_refusal_names_what_was_given(tmp_path: Path, words: list[str], named: str) -> None:
    with pytest.raises(BadInput, match=named):
        check(tmp_path, *words)


@pytest.mark.parametrize("name", [name for name, one in SETTINGS.items() if one.starting])
def test_settings_of_starting_are_refused_where_another_cluster_manager_starts(tmp_path: Path, name: str) -> None:
    with pytest.raises(BadInput, match=f"spark.pace.{name}"):
        check(tmp_path, "--master", "yarn", "--conf", f"spark.pace.{name}=x")
