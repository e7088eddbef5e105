"""`python -m experiments`: specs are read, missing steps run, the report made again from data; the cluster is made up."""

from __future__ import annotations

import lzma
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from controller.home import Home
from controller.runs.plot import plot_run
from experiments.__main__ import main
from experiments.harness import clusters, experiment, machine
from experiments.harness.packed import unpack
from experiments.harness.recorded import Data, JobRecord, Order, SlotReading
from experiments.harness.result_folder import ResultFolder
from experiments.scenarios import make_scenario
from experiments.scenarios.fig4 import Fig4
from stage_model.errors import BadInput
from tests.fakes.recorded import CAPACITY, job_record, samples_of, write_run
from tests.fakes.refusals import assert_names

SPECS = sorted(path.stem for path in experiment.SPECS.glob("*.toml"))


class MadeUpCluster:
    """A cluster whose jobs take their time at once: a job by itself 40 s; the long one of two is squeezed and made up for."""

    performed: list[str] = []
    fail_at: str | None = None
    late = False
    exit_code = 0

    def __init__(self, folder: Path, name: str = "") -> None:
        self.home, self.name = Home(folder / f"home{name}"), name
        self.logs = folder / "logs"

    @contextmanager
    def running(self, up: Sequence[str]) -> Iterator[MadeUpCluster]:
        assert tuple(up) == ("--workers", "2", "--runtime", self.name or "docker")
        yield self

    def capacity(self) -> dict[str, float]:
        return CAPACITY

    def take_readings(self) -> tuple[SlotReading, ...]:
        return ()

    def prepare(self, orders: Sequence[Order]) -> None:
        assert orders

    def perform(self, step: str, orders: Sequence[Order], *, limit_s: float, show: Callable[[str], None]) -> list[JobRecord]:
        assert limit_s <= 20 * 60
        if step == self.fail_at:
            raise KeyboardInterrupt
        show(f"{step} goes on")
        assert all(order.cluster == self.name for order in orders)
        self.performed.append(step)
        jobs = []
        for order in orders:
            end_s = (order.deadline_s or 41.0) + (1.0 if self.late and order.priority == "high" else -1.0)
            app_id = f"{step}-{order.job}"
            job = job_record(order.job, app_id, end_s=end_s, deadline_s=order.deadline_s, exit_code=self.exit_code)
            job.summary["submitted_epoch_s"] += order.delay_s
            spans = [(10, 40, 0.1), (40, max(41, end_s), 0.14)]
            write_run(self.home.runs, job, samples_of(spans, job.summary["submitted_epoch_s"]))
            jobs.append(job)
        return jobs


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> type[MadeUpCluster]:
    monkeypatch.setattr(clusters, "LocalCluster", MadeUpCluster)
    monkeypatch.setattr(machine, "describe_machine", lambda: {"cores": 2})
    monkeypatch.setattr(MadeUpCluster, "performed", [])
    return MadeUpCluster


def call(*words: object) -> Result:
    return CliRunner().invoke(main, [str(word) for word in words])


@pytest.mark.parametrize("quick", [False, True])
@pytest.mark.parametrize("name", SPECS)
def test_every_spec_makes_a_scenario(name: str, quick: bool) -> None:
    spec_name, spec = experiment.read_spec(name)
    what = experiment.asked(spec_name, spec, quick=quick, seed=3)
    scenario = make_scenario(what.scenario, what.settings, what.seed, Path(name))
    steps = scenario.steps()
    assert len(steps) == len(set(steps)) > 0
    assert not quick or len(steps) < len(make_scenario(spec.scenario, spec.settings, 3, Path(name)).steps())


def test_what_runs_in_pods_is_what_runs_on_the_other_homes() -> None:
    _, others = experiment.read_spec("homes")
    _, pods = experiment.read_spec("homes-kubernetes")
    assert pods.settings == others.settings | {"homes": ["kubernetes"]}
    assert pods.quick == others.quick
    assert pods.clusters["kubernetes"].up == others.clusters["standalone"].up


def test_a_bad_spec_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"'fig99'.*fig4.*mixed"):
        experiment.read_spec("fig99")
    for text in ("title = 3", "a = [", ""):
        (tmp_path / "s.toml").write_text(text)
        with pytest.raises(BadInput, match=r"s.toml"):
            experiment.read_spec(str(tmp_path / "s.toml"))
    with pytest.raises(BadInput, match=r"'none'.* fig4, .*mixed"):
        make_scenario("none", {}, 1, tmp_path)
    with pytest.raises(BadInput, match="wrong"):
        make_scenario("fig4", {"long": ["a"], "short": ["b"], "wrong": 1}, 1, tmp_path)


def test_a_run_leaves_data_report_and_pictures(tmp_path: Path, cluster: type[MadeUpCluster]) -> None:
    done = call("run", "fig4", "--quick", "--out", tmp_path / "r")
    assert done.exit_code == 0, done.output
    assert cluster.performed == ["base-long-0", "base-short-0", "both-0"]
    assert "holds  the short job ends by its deadline [both-0]" in done.output
    assert "FAILS" not in done.output
    folder = ResultFolder(tmp_path / "r")
    assert (folder.path / "fig4-0.png").read_bytes().startswith(b"\x89PNG")
    report = (folder.path / "report.md").read_text()
    assert "Spec `fig4`, quick, seed 1." in report
    assert "![fig4-0.png](fig4-0.png)" in report
    assert "session 1" in report
    [session] = folder.sessions()
    assert session.machine == {"cores": 2}
    # what the machine used besides the executors is never claimed to be nothing measured
    assert all(record.session == 1 for record in folder.data().steps.values())


SEVERAL = """
title = "two homes"
scenario = "homes"

[clusters.docker]
up = ["--workers", "2", "--runtime", "docker"]

[clusters.process]
up = ["--workers", "2", "--runtime", "process"]

[settings]
homes = ["docker", "process"]
repetitions = 1
tests = { test20 = 1.2 }
applications = { a = ["a.py"] }
"""


def test_the_same_job_runs_on_one_cluster_after_the_other(tmp_path: Path, cluster: type[MadeUpCluster]) -> None:
    (tmp_path / "several.toml").write_text(SEVERAL)
    done = call("run", tmp_path / "several.toml", "--out", tmp_path / "r")
    assert done.exit_code == 0, done.output
    assert cluster.performed == ["base-a-docker-0", "base-a-process-0", "a-test20-docker-0", "a-test20-process-0"]
    report = (tmp_path / "r" / "report.md").read_text()
    # a job by itself takes 40 s, so its deadline is 48 s, and it ends a second before that
    assert "| test20 | a | process | 1 | 48.0 | -2.08 | -2.08 | 2.08 | 0 |" in report
    assert "none early by more than 2.5% | a test20 docker | yes" in report
    (tmp_path / "wrong.toml").write_text(SEVERAL.replace('"process"]\n\n[s', '"process"]\nexecutors = "mesos"\n\n[s'))
    wrong = call("run", tmp_path / "wrong.toml", "--out", tmp_path / "w")
    assert_names(wrong.exception, "cluster process", "'mesos'", "standalone, kubernetes")
    assert len(cluster.performed) == 4


def test_the_report_is_made_again_only_from_data(tmp_path: Path, cluster: type[MadeUpCluster]) -> None:
    call("run", "fig4", "--quick", "--out", tmp_path)
    before = (tmp_path / "report.md").read_text()
    (tmp_path / "report.md").unlink()
    (tmp_path / "fig4-0.png").unlink()
    for path in sorted((tmp_path / "home").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    done = call("report", tmp_path)
    assert done.exit_code == 0, done.output
    assert (tmp_path / "report.md").read_text() == before
    assert (tmp_path / "fig4-0.png").exists()


@pytest.mark.parametrize("spec", ["fig4", "small.toml"])
def test_report_and_goals_of_a_packed_folder_are_those_of_the_plain_one(
    tmp_path: Path, cluster: type[MadeUpCluster], spec: str
) -> None:
    # the limit makes it a goal
    (tmp_path / "small.toml").write_text(SIMULATED.replace("jobs = 2", "jobs = 2, most_s = 1e6"))
    plain, packed = tmp_path / "plain" / "r", tmp_path / "packed" / "r"
    call("run", tmp_path / spec if spec == "small.toml" else spec, "--quick", "--out", plain)
    made = call("pack", plain, "--to", packed)
    assert (made.exit_code, made.output) == (0, f"{packed / 'report.md'}\n")
    shown = {path.name: path.read_bytes() for path in plain.iterdir() if path.suffix in (".md", ".png")}
    assert {path.name for path in packed.iterdir()} == {"data.tar.xz", *shown}
    before = call("report", plain)
    for made_by in ("pack", "report"):
        assert {name: (packed / name).read_bytes() for name in shown} == shown, made_by
        for name in shown:
            (packed / name).unlink()
        again = call("report", packed)
        assert (again.exit_code, again.output.replace(str(packed), str(plain))) == (before.exit_code, before.output)
    assert {path.name for path in packed.iterdir()} == {"data.tar.xz", *shown}
    goals = call("goals", packed)
    assert goals.exit_code == 0
    assert goals.output == call("goals", plain).output
    assert ('"measured"' in goals.output) == (spec == "small.toml")


def test_a_packed_folder_goes_on_once_it_is_unpacked(tmp_path: Path, cluster: type[MadeUpCluster]) -> None:
    call("run", "fig4", "--quick", "--out", tmp_path / "plain")
    call("pack", tmp_path / "plain", "--to", tmp_path / "r")
    refused = call("run", "fig4", "--quick", "--repetitions", 2, "--out", tmp_path / "r")
    assert isinstance(refused.exception, BadInput)
    assert "`tar -xf data.tar.xz && rm data.tar.xz`" in str(refused.exception)
    assert len(cluster.performed) == 3
    unpack(tmp_path / "r" / "data.tar.xz", tmp_path / "r")
    (tmp_path / "r" / "data.tar.xz").unlink()
    assert call("run", "fig4", "--quick", "--repetitions", 2, "--out", tmp_path / "r").exit_code == 0
    assert cluster.performed[3:] == ["both-1"]


@pytest.mark.parametrize("command", ["report", "goals"])
def test_an_archive_that_is_cut_off_ends_the_command_with_one_sentence(tmp_path: Path, command: str) -> None:
    archive = tmp_path / "data.tar.xz"
    archive.write_bytes(lzma.compress(b"")[:-9])
    done = call(command, tmp_path)
    assert isinstance(done.exception, BadInput)
    assert_names(done.exception, archive, "cut off")
    assert [path.name for path in tmp_path.iterdir()] == ["data.tar.xz"]


def test_an_interrupted_run_goes_on_where_it_was(
    tmp_path: Path, cluster: type[MadeUpCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "fail_at", "both-0")
    assert call("run", "fig4", "--quick", "--out", tmp_path).exit_code != 0
    # what is there can be looked at, but it is not all
    assert call("report", tmp_path).exit_code == 1
    monkeypatch.setattr(cluster, "fail_at", None)
    assert call("run", "fig4", "--quick", "--out", tmp_path).exit_code == 0
    assert cluster.performed == ["base-long-0", "base-short-0", "both-0"]
    assert [record.session for record in ResultFolder(tmp_path).data().steps.values()] == [1, 1, 2]


def test_only_some_steps_are_run_and_the_others_later(tmp_path: Path, cluster: type[MadeUpCluster]) -> None:
    done = call("run", "fig4", "--quick", "--only", "base-short", "--out", tmp_path)
    assert cluster.performed == ["base-short-0"]
    assert done.exit_code == 1, "the others are missing"
    assert "FAILS  every step was run [all]: 1 of 3 steps; missing base-long-0, both-0" in done.output
    assert call("run", "fig4", "--quick", "--out", tmp_path).exit_code == 0
    assert cluster.performed == ["base-short-0", "base-long-0", "both-0"]
    assert "| every answer is right | 3 of 3 | yes |  |" in (tmp_path / "report.md").read_text()
    refused = call("run", "fig4", "--quick", "--only", "base-sh", "--out", tmp_path)
    assert isinstance(refused.exception, BadInput)
    assert_names(refused.exception, "'base-sh'", "base-long-0, base-short-0, both-0")


ZOO = """
title = "two programs"
scenario = "zoo"

[cluster]
up = ["--workers", "2", "--runtime", "docker"]

[settings]
bases = 1
tests = { plus20 = 1.2 }
programs = { a = { kind = "ml", words = ["a.py"] }, b = { kind = "ml", words = ["b.py"] } }
"""


def test_a_job_that_fails_without_a_deadline_stops_an_experiment_unless_it_may(
    tmp_path: Path, cluster: type[MadeUpCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "exit_code", 3)
    stopped = call("run", "fig4", "--quick", "--out", tmp_path / "fig4")
    assert "base-long-0: long ended with 3" in stopped.output
    assert cluster.performed.pop() == "base-long-0"
    (tmp_path / "zoo.toml").write_text(ZOO)
    done = call("run", tmp_path / "zoo.toml", "--out", tmp_path / "zoo")
    assert cluster.performed == ["all-a-base-0", "all-a-plus20-0", "all-b-base-0", "all-b-plus20-0"]
    assert "FAILS  every answer is right [all-a-base-0]: a ended with 3" in done.output
    assert done.exit_code == 1


def test_repetitions_can_be_added_later(tmp_path: Path, cluster: type[MadeUpCluster]) -> None:
    call("run", "fig4", "--quick", "--out", tmp_path)
    assert call("run", "fig4", "--quick", "--repetitions", 3, "--out", tmp_path).exit_code == 0
    assert cluster.performed[3:] == ["both-1", "both-2"]
    # nothing is missing: no cluster, no session, the same report
    assert call("run", "fig4", "--quick", "--out", tmp_path).exit_code == 0
    assert len(cluster.performed) == 5
    assert len(ResultFolder(tmp_path).sessions()) == 2
    assert (tmp_path / "fig4-2.png").exists()


def test_a_condition_that_fails_is_the_exit_code(
    tmp_path: Path, cluster: type[MadeUpCluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cluster, "late", True)
    done = call("run", "fig4", "--out", tmp_path / "full")
    assert done.exit_code == 1
    assert "FAILS  the short job ends by its deadline [both-0]" in done.output
    assert "**no**" in (tmp_path / "full" / "report.md").read_text()
    # a quick run is too small for that: a remark, and no failure
    quick = call("run", "fig4", "--quick", "--out", tmp_path / "quick")
    assert "FAILS  the short job ends by its deadline [both-0]" in quick.output
    assert quick.exit_code == 0


def test_the_mixed_experiment_runs_through(tmp_path: Path, cluster: type[MadeUpCluster]) -> None:
    done = call("run", "mixed", "--quick", "--out", tmp_path)
    assert "no violation among the highest priority [mixed-0 aggregate_by_key-1]: -" in done.output
    assert len(ResultFolder(tmp_path).data().steps["mixed-0"].jobs) == 6
    assert (tmp_path / "mixed-0.png").exists()
    assert done.exit_code == 0, done.output


def test_a_picture_of_one_run_shows_its_progress(tmp_path: Path, cluster: type[MadeUpCluster]) -> None:
    call("run", "fig4", "--quick", "--out", tmp_path)
    folder = ResultFolder(tmp_path)

    class Detail(Fig4, frozen=True, kw_only=True):
        def pictures(self, data: Data) -> dict[str, list[str]]:
            return {"one": ["both-0-long"], "none": ["never-recorded"]}

    assert experiment.draw_pictures(folder, Detail(long=("l.py",), short=("s.py",)), folder.data()) == ["one.png"]
    plot_run(folder.runs / "both-0-long", tmp_path / "alone.png")
    assert (tmp_path / "one.png").read_bytes() == (tmp_path / "alone.png").read_bytes()


SIMULATED = """
title = "Two jobs"
scenario = "scale"
[settings]
points = [{ workers = 4, jobs = 2 }]
profiled_jobs = 1
"""


def test_a_simulated_spec_runs_without_a_cluster_and_its_report_says_so(tmp_path: Path, cluster: type[MadeUpCluster]) -> None:
    (tmp_path / "small.toml").write_text(SIMULATED)
    result = call("run", tmp_path / "small.toml", "--out", tmp_path / "out", "--seed", 7)
    assert result.exit_code == 0, result.output
    assert cluster.performed == []
    text = (tmp_path / "out" / "report.md").read_text()
    assert "No Spark ran" in text
    assert "seed 7" in text
    assert machine.commit() in text
    before = (tmp_path / "out" / "rows.jsonl").read_bytes()
    # nothing is missing now: the report is made only of the data
    assert call("run", tmp_path / "small.toml", "--out", tmp_path / "out", "--seed", 7).exit_code == 0
    assert (tmp_path / "out" / "rows.jsonl").read_bytes() == before
    assert call("report", tmp_path / "out").exit_code == 0


def test_of_a_simulated_spec_only_some_steps_are_run_too(tmp_path: Path, cluster: type[MadeUpCluster]) -> None:
    _, what = experiment.read_spec("waiting")
    steps = make_scenario(what.scenario, {**what.settings, **what.quick}, 1, tmp_path).steps()
    assert len(steps) > 1
    call("run", "waiting", "--quick", "--only", steps[-1], "--out", tmp_path)
    assert list(ResultFolder(tmp_path).data().rows) == steps[-1:]
