"""`sparkpace pipeline run`: the plan of the whole before the start, jobs in order, and how it ends.

Spark is a script, the master a fake that knows one profile for all jobs.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result

from controller.cli.main import main
from controller.home import Home
from controller.start import ours
from controller.submit.bridge_jar import JAR
from controller.waiting import wait_until
from controller.wire.command import PlanReply
from stage_model.forecast.virtual_time import Forecast
from tests.fakes.master import Server
from tests.fakes.submitting import submitting

pytestmark = pytest.mark.skipif(not JAR.is_file(), reason="needs the built bridge jar")

SCRIPT = """#!/bin/sh
printf '%s\\n' "$@" >> "$ARGUMENTS_FILE"
echo "no input" >&2
case "$*" in *fails.py*) exit 3;; esac
"""
KNOWN = PlanReply(
    known=True, feasible=True, least_deadline_s=10.0, cluster_cores=2.0, forecast=Forecast((0.0, 10.0), 0.0), reason="fine"
)
"""20 core-seconds."""
NIGHTLY = """
[jobs.report]
app = "app.py"
after = ["load"]
options = ["--name", "report"]
[jobs.load]
app = "app.py"
args = ["x"]
"""


@dataclass(frozen=True)
class Place:
    work: Path
    home: Home
    master: Server

    def write(self, text: str) -> Path:
        file = self.work / "files" / "nightly.toml"
        file.parent.mkdir(exist_ok=True)
        for app in ("app.py", "fails.py"):
            (file.parent / app).touch()
        file.write_text(text)
        return file

    def run(self, text: str, *arguments: str) -> Result:
        return CliRunner().invoke(main, ["pipeline", "run", str(self.write(text)), *arguments], prog_name="sparkpace")

    @property
    def started(self) -> list[dict[str, str]]:
        """The settings below `spark.pace.pipeline` that each spark-submit got."""
        file = self.work / "arguments"
        found: list[dict[str, str]] = []
        for line in file.read_text().splitlines() if file.exists() else ():
            if line == "--master":
                found.append({})
            elif line.startswith(("spark.pace.pipeline", "spark.pace.force")):
                key, _, value = line.partition("=")
                found[-1][key] = value
        return found

    @property
    def plans(self) -> list[dict[str, Any]]:
        return [json.loads(settings["spark.pace.pipeline.plan"]) for settings in self.started]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    with submitting(tmp_path, monkeypatch, SCRIPT) as (work, home, master):
        master.plan = KNOWN
        yield Place(work, home, master)


def test_jobs_run_in_order_and_each_is_told_the_end_and_what_comes_later(place: Place) -> None:
    result = place.run(NIGHTLY, "--by", "1h")
    assert result.exit_code == 0, result.output
    first, second = place.plans
    assert (first["job"], first["place"], first["of"]) == ("load", 1, 2)
    assert first["later"] == [{"name": "report", "after": ["load"], "profile": "report@app.py"}]
    assert (second["job"], second["place"], second["later"], second["run"]) == ("report", 2, [], first["run"])
    by_s = [float(settings["spark.pace.pipeline.by"][:-1]) for settings in place.started]
    assert 3600 >= by_s[0] > by_s[1] > 0
    assert [settings.get("spark.pace.force") for settings in place.started] == [None, "true"]
    assert "the end in 1h can be met: with all 2.00 cores it takes 20s" in result.stdout
    assert "sparkpace: pipeline nightly: all 2 jobs have ended, " in result.stderr
    assert "app.py\nx\n" in (place.work / "arguments").read_text()


def test_without_an_end_jobs_have_no_deadline(place: Place) -> None:
    assert place.run(NIGHTLY).exit_code == 0
    assert [settings.get("spark.pace.pipeline.by") for settings in place.started] == [None, None]


def test_an_end_that_cannot_be_met_is_refused_before_the_start(place: Place) -> None:
    for more in ([], ["--dry-run"]):
        result = place.run(NIGHTLY, "--by", "15s", *more)
        assert result.exit_code == 75
        said = "sparkpace: the end of pipeline nightly in 15s cannot be met: with all 2.00 cores it takes 20s; accepted: 21s "
        assert result.stderr.startswith(said)
    assert place.started == []
    assert place.run(NIGHTLY, "--by", "21s", "--dry-run").exit_code == 0
    forced = place.run('by = "15s"\n' + NIGHTLY, "--force")
    assert forced.exit_code == 0
    assert "it takes 20s; the pipeline goes on by --force" in forced.stdout
    assert [settings["spark.pace.force"] for settings in place.started] == ["true", "true"]


def test_a_dry_run_shows_each_jobs_deadline(place: Place) -> None:
    result = place.run(NIGHTLY, "--by", "40s", "--dry-run")
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines()]
    assert ["load", "20s", "10s", "-"] in rows
    assert ["report", "40s", "10s", "load"] in rows
    assert place.started == []


def test_a_plan_is_json_too(place: Place) -> None:
    for by, code in (("40s", 0), ("15s", 75)):
        result = place.run(NIGHTLY, "--by", by, "--dry-run", "--output", "json")
        assert result.exit_code == code, result.output
        plan = json.loads(result.stdout)
        figures = [plan[name] for name in ("pipeline", "cluster_cores", "least_s", "feasible")]
        assert figures == ["nightly", 2.0, 20.0, not code]
        assert [(job["job"], job["after"], job["known"], job["alone_s"]) for job in plan["jobs"]] == [
            ("load", [], True, 10.0),
            ("report", ["load"], True, 10.0),
        ]
    place.master.plan = PlanReply(known=False, cluster_cores=2.0)
    plan = json.loads(place.run(NIGHTLY, "--by", "1s", "--dry-run", "--output", "json").stdout)
    assert (plan["feasible"], plan["least_s"], [job["known"] for job in plan["jobs"]]) == (None, None, [False, False])
    refused = place.run(NIGHTLY, "--by", "40s", "--output", "json")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--output json is of --dry-run" in refused.stderr
    assert place.started == []


def test_jobs_without_a_profile_are_named(place: Place) -> None:
    place.master.plan = PlanReply(known=False, cluster_cores=2.0)
    result = place.run(NIGHTLY, "--by", "1s", "--dry-run")
    assert result.exit_code == 0
    assert "no profile is known of load, report: they take what is free" in result.stdout
    assert result.stdout.endswith("no job has run before, so nobody knows whether the end can be met\n")


def test_a_job_that_fails_ends_the_pipeline_with_one_sentence(place: Place) -> None:
    result = place.run(NIGHTLY.replace('"app.py"\nargs', '"fails.py"\nargs'))
    assert result.exit_code == 1
    [last] = result.stderr.splitlines()[-1:]
    assert last.startswith(
        "sparkpace: pipeline nightly has ended, as its job load ended with exit code 3 (no input); not started"
    )
    log = Path(last.rpartition("its log is ")[2])
    assert log.read_text() == "no input\n"
    assert log.stat().st_mode & 0o777 == 0o600
    assert [plan["job"] for plan in place.plans] == ["load"]


def test_who_kills_the_command_ends_its_jobs(place: Place) -> None:
    """The kernel ends the command of each job, and that ends its driver."""
    seen = place.work / "driver"
    (place.work / "spark" / "bin" / "spark-submit").write_text(
        f"#!/bin/sh\necho $$ >{seen}.new; mv {seen}.new {seen}\nexec sleep 600\n"
    )
    process = subprocess.Popen(ours("controller.cli.main", "pipeline", "run", str(place.write(NIGHTLY))))
    assert wait_until(seen.exists, 300)
    driver = psutil.Process(int(seen.read_text()))
    process.kill()
    assert process.wait(300) == -signal.SIGKILL
    driver.wait(300)


def test_a_job_that_is_refused_is_one_that_fails(place: Place) -> None:
    place.master.plan = PlanReply(known=True, feasible=False, forecast=Forecast((1.0,)), cluster_cores=2.0, reason="too late")
    result = place.run(NIGHTLY, "--by", "1h")
    assert result.exit_code == 1
    assert "job load ended with exit code 75 (sparkpace: too late, or --force)" in result.stderr


@pytest.mark.parametrize(
    ("job", "said"),
    [
        ('app = "none.py"', "job 'a': application file 'none.py' does not exist"),
        ('app = "app.py"\npriority = "urgent"', "job 'a': --priority 'urgent'"),
        ('app = "app.py"\nprofile = "no/such.json"', "job 'a': --profile no/such.json"),
        ('app = "app.py"\noptions = ["--nonsense"]', "job 'a': '--nonsense' is neither"),
        ('app = "app.py"\noptions = ["--detach"]', "job 'a': --detach hides when a job ends"),
        ('app = "app.py"\noptions = ["--dry-run"]', "job 'a': --dry-run hides when a job ends"),
        ('app = "app.py"\noptions = ["--output", "json"]', "job 'a': --output is of --dry-run"),
        ('app = "app.py"\noptions = ["--deadline", "9s"]', "job 'a': --deadline is not a job's own here"),
        ('app = "app.py"\noptions = ["--by", "9s"]', "job 'a': --by is not a job's own here"),
        ('app = "app.py"\noptions = ["--pipeline", "x"]', "job 'a': --pipeline is not a job's own here; accepted: `name`"),
        ('app = "app.py"\noptions = ["--after", "nosuch"]', "job 'a': --after is not a job's own here; accepted: `after`"),
        (
            'app = "app.py"\noptions = ["--conf", "spark.pace.after=nosuch"]',
            "job 'a': spark.pace.after is not a job's own here; accepted: `after` of the job",
        ),
    ],
)
def test_jobs_that_could_not_be_submitted_are_refused_before_the_start(place: Place, job: str, said: str) -> None:
    result = place.run(f"[jobs.a]\n{job}\n", "--by", "1h")
    assert result.exit_code == 2, result.output
    assert result.stderr.startswith(f"sparkpace: {said}")
    assert place.started == []


def test_without_a_worker_nobody_knows_the_end(place: Place) -> None:
    place.master.plan = PlanReply(known=True, cluster_cores=0.0, reason="no worker is there yet")
    result = place.run(NIGHTLY, "--by", "1s", "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.endswith("no worker is there yet, so nobody knows whether the end can be met\n")
