"""`--output json|table`: one word for the form of what is shown, the same for every command that shows data."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click
import pytest

from controller.cli.main import COMMANDS, main
from controller.home import Home
from controller.runs.profile_store import ProfileStore
from controller.runs.run_folder import write_summary
from stage_model.history.profile import profile
from tests.fakes.commands import assert_refused
from tests.fakes.commands import run as invoke
from tests.fakes.records import run, stage

SHOWING = [
    ["ps"],
    ["top"],
    ["plan", "--profile", "p"],
    ["explain", "last"],
    ["report", "last"],
    ["savings"],
    ["doctor"],
    ["config", "check"],
    ["join-token", "--list"],
    ["label", "w1", "a=b"],
    *([["profile", name, "p"] for name in ("show", "curve", "drift")]),
    ["profile", "list"],
]


@pytest.mark.parametrize("words", SHOWING, ids=" ".join)
@pytest.mark.parametrize("form", ["yaml", "JSON", ""])
def test_another_form_is_refused(words: list[str], form: str, tmp_path: Path) -> None:
    done = invoke(*words, "--home", str(tmp_path / "none"), "--output", form)
    assert_refused(done, 2, "'--output'", repr(form), "'table', 'json'")
    assert not (tmp_path / "none").exists()


def test_no_command_has_another_word_for_it() -> None:
    context = click.Context(main)

    def options(command: click.Command | None) -> set[str]:
        assert command is not None
        own = {word for parameter in command.params for word in parameter.opts}
        below = command.commands.values() if isinstance(command, click.Group) else ()
        return own.union(*(options(one) for one in below))

    shown = set().union(*(options(main.get_command(context, name)) for name in COMMANDS))
    assert not shown & {"--json", "--format"}


def test_profiles_are_listed_for_people_and_for_programs(tmp_path: Path) -> None:
    store = ProfileStore(tmp_path / "profiles")
    store.add(profile("small@app.py", (run("r1", 1, stage("a")), run("r2", 2, stage("a"), stage("b", parents=("a",))))))
    words = ["profile", "list", "--home", str(tmp_path)]
    assert "small@app.py" in invoke(*words).stdout
    [row] = json.loads(invoke(*words, "--output", "json").stdout)
    assert (row["profile"], row["runs"], row["stages"]) == ("small@app.py", 2, 2)
    assert sorted(row) == ["cores", "duration_s", "profile", "runs", "stages"]


def test_what_doctor_found_is_json_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    done = invoke("doctor", "--home", str(tmp_path / "none"), "--output", "json")
    assert done.exit_code == 69
    found = {one["what"]: one for one in json.loads(done.stdout)}
    assert found["Python"]["state"] == "ok"
    assert found["Java"]["state"] == "bad"
    assert "JAVA_HOME" in found["Java"]["found"]


def test_doctor_names_a_secret_with_which_no_master_would_start(tmp_path: Path) -> None:
    home = Home(tmp_path / "home")
    home.create()
    home.notify_secret_file.write_text("x\n")
    home.notify_secret_file.chmod(0o600)
    done = invoke("doctor", "--home", str(home.path), "--output", "json")
    [tokens] = [one for one in json.loads(done.stdout) if one["what"] == "tokens"]
    assert tokens["state"] == "bad"
    assert str(home.notify_secret_file) in tokens["found"]


def reported(home: Path, **summary: object) -> list[str]:
    """Return the lines of the report of a run with this summary, which JSON must have, too."""
    folder = home / "runs" / "pace-20260101-000000-abcdef"
    folder.mkdir(parents=True)
    write_summary(folder, {"app_id": folder.name, "name": "app", **summary})
    words = ["report", "last", "--home", str(home)]
    assert json.loads(invoke(*words, "--output", "json").stdout).items() >= summary.items()
    return [" ".join(line.split()) for line in invoke(*words).stdout.splitlines()]


def test_a_report_says_in_sentences_what_the_forecast_rested_on_and_why_it_was_late(tmp_path: Path) -> None:
    basis, lateness = {"runs": 2, "sentence": "planned from 2 runs"}, {"more": 0.2, "sentence": "20% more work"}
    lines = reported(tmp_path, basis=basis, lateness=lateness)
    assert {"basis planned from 2 runs", "lateness 20% more work"} <= set(lines)


def test_a_report_has_a_table_of_the_largest_stages_with_what_bounds_each(tmp_path: Path) -> None:
    stages = [{"name": "join at a.py:1\x1b", "number": 3, "bound": "network", "tasks": 8, "time_s": 90.0, "share": 0.75}]
    lines = reported(tmp_path, actions=[], largest_stages=stages)
    assert "join at a.py:1? 3 network 8 1m30s 75%" in lines
    assert "actions []" in lines
    assert not any(line.startswith("largest_stages") for line in lines)


def test_too_few_runs_for_drift_are_json_too(tmp_path: Path) -> None:
    ProfileStore(tmp_path / "profiles").add(profile("small@app.py", (run("r1", 1, stage("a")),)))
    words = ["profile", "drift", "small@app.py", "--home", str(tmp_path)]
    done = invoke(*words, "--output", "json")
    assert json.loads(done.stdout) == {"profile": "small@app.py", "runs": 1, "chance": None, "change": None, "since_ms": None}
    said = invoke(*words)
    assert (said.exit_code, re.findall(r"\d+", said.stdout)) == (0, ["1", "11"])
