"""The running of a spec's missing steps, and the report: the two halves of `python -m experiments`.

A spec is a TOML file: `title`, `scenario`, `[cluster] up = [...]` or several `[clusters.NAME]`, `[settings]`, and `[quick]`,
which replaces settings for a small try. Not covered: the scenarios (`experiments.scenarios`), the place of the results
(`result_folder`).
"""

from __future__ import annotations

import math
import time
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import msgspec
from msgspec import structs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from controller.runs.plot import plot_run
from controller.runs.plot_runs import plot_runs
from controller.runs.run_folder import read_samples
from experiments.baselines.standalone import run_stock
from experiments.baselines.streams import field_of, play
from experiments.harness import machine
from experiments.harness.clusters import running
from experiments.harness.local_cluster import LocalCluster
from experiments.harness.markdown import table
from experiments.harness.plot_cdf import plot_cdf
from experiments.harness.plot_reserved import plot_reserved
from experiments.harness.recorded import (
    Condition,
    Data,
    JobRecord,
    Order,
    RowStep,
    StepRecord,
    first_names,
    least_workers,
    used_core_s,
)
from experiments.harness.result_folder import Asked, AskedCluster, ResultFolder, Session
from experiments.scenarios import (
    Ambitious,
    AnyScenario,
    Distributions,
    Measured,
    Reserving,
    Scenario,
    Scheduled,
    Simulated,
    make_scenario,
)
from stage_model.errors import BadInput

SPECS = machine.PROJECT / "experiments" / "scenarios" / "specs"
SLICE_S = 20 * 60.0
"""Longest step. A call can be interrupted at any time and loses no more than this."""


SIMULATED = (
    "## Simulated",
    "No Spark ran: tasks are a fluid under a virtual clock, laws, arbiter and planner are the production code.",
)
MEASURED = ("## Measured without Spark", "The code that runs is the production code; the tables say what is made up.")


class Spec(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    title: str
    scenario: str
    settings: dict[str, Any]
    cluster: AskedCluster = AskedCluster()
    clusters: dict[str, AskedCluster] = {}
    quick: dict[str, Any] = {}


def read_spec(name: str) -> tuple[str, Spec]:
    """Return a spec and its name, from `experiments/scenarios/specs/NAME.toml` or the path of a file. Raise `BadInput`."""
    path = Path(name) if name.endswith(".toml") else SPECS / f"{name}.toml"
    try:
        return path.stem, msgspec.convert(tomllib.loads(path.read_text()), type=Spec)
    except OSError as problem:
        known = ", ".join(sorted(file.stem for file in SPECS.glob("*.toml")))
        raise BadInput(f"spec {name!r} cannot be read ({problem.strerror}); there are: {known}") from problem
    except (tomllib.TOMLDecodeError, msgspec.ValidationError) as problem:
        raise BadInput(f"{path} is no spec: {problem}") from problem


def asked(name: str, spec: Spec, *, quick: bool, seed: int) -> Asked:
    settings = {**spec.settings, **(spec.quick if quick else {})}
    return Asked(
        spec=name,
        scenario=spec.scenario,
        title=spec.title,
        quick=quick,
        seed=seed,
        cluster=spec.cluster.up,
        clusters=spec.clusters or ({"": spec.cluster} if spec.cluster.executors else {}),
        settings=settings,
    )


def scenario_of(folder: ResultFolder, what: Asked) -> AnyScenario:
    return make_scenario(what.scenario, what.settings, what.seed, folder.path)


def chosen(steps: Sequence[str], only: Sequence[str]) -> list[str]:
    """Return the steps whose names begin with one of the words in `only`, up to a hyphen or the name's end; all steps without
    one. Raise `BadInput` for a word with which no step begins."""
    for word in only:
        if not any(f"{step}-".startswith(f"{word}-") for step in steps):
            raise BadInput(f"no step begins with {word!r}; there are: {first_names(steps)}")
    return [step for step in steps if not only or any(f"{step}-".startswith(f"{word}-") for word in only)]


def run_steps(folder: ResultFolder, scenario: AnyScenario, what: Asked, console: Console, only: Sequence[str] = ()) -> None:
    """Run the missing steps that `only` names, each in a slice of its own; do nothing where no step is missing."""
    steps = chosen(scenario.steps(), only)
    if folder.data().done.issuperset(steps):
        return
    session = folder.begin(
        when=datetime.now(UTC).isoformat(timespec="seconds"), commit=machine.commit(), machine=machine.describe_machine()
    )
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    if isinstance(scenario, Simulated | Measured):
        with Progress(*columns, console=console) as progress:
            _without_spark(folder, scenario, steps, session, progress)
        return
    with running(folder.path, what) as clusters, Progress(*columns, console=console) as progress:
        task = progress.add_task("", total=len(steps))
        for step in steps:
            data = folder.data()
            if step not in data.steps:

                def show(text: str) -> None:
                    progress.update(task, description=text)

                if isinstance(scenario, Scheduled):
                    cluster = clusters[""]
                    record = _play(step, scenario, data, cluster, session, show)
                else:
                    orders = scenario.orders(step, data)
                    by_itself = orders[0].stock_workers is not None
                    cluster = clusters.none() if by_itself else clusters[orders[0].cluster]
                    record = _perform(step, orders, cluster, session, show)
                folder.add(record, cluster.home.runs)
                progress.console.print(_line(record), soft_wrap=True)
            progress.advance(task)


def _without_spark(
    folder: ResultFolder, scenario: Simulated | Measured, steps: Sequence[str], session: Session, progress: Progress
) -> None:
    """Run steps that yield rows, without Spark."""
    task = progress.add_task("", total=len(steps))
    how = "simulated" if isinstance(scenario, Simulated) else "measured"
    for step in steps:
        if step not in folder.data().rows:
            progress.update(task, description=f"{step} ({how})")
            begun_s = time.monotonic()
            if isinstance(scenario, Simulated):
                rows = scenario.simulate(step)
            else:
                with TemporaryDirectory(dir=folder.path) as scratch:
                    rows = scenario.measure(step, Path(scratch))
            took_s = round(time.monotonic() - begun_s, 3)
            folder.add_rows(RowStep(step=step, session=session.number, took_s=took_s, rows=tuple(rows)))
            progress.console.print(f"{step}: {len(rows)} {how} rows in {took_s:.1f} s", soft_wrap=True)
        progress.advance(task)


Show = Callable[[str], None]


def _play(step: str, scenario: Scheduled, data: Data, cluster: LocalCluster, session: Session, show: Show) -> StepRecord:
    """Run a stream under one scheduler, and return its record."""
    what = scenario.play(step, data)
    cluster.prepare([*what.shorts, *what.longs])
    show(f"{step}: starting")
    with field_of(what, cluster) as field:
        watch = _Watch()
        played = play(what, field, step, limit_s=SLICE_S, show=show)
        return watch.record(step, session, cluster.capacity(), played.core_s, played.jobs, played.given_up)


def _perform(step: str, orders: list[Order], cluster: LocalCluster, session: Session, show: Show) -> StepRecord:
    """Run the jobs at given times, on Sparkpace or on stock Spark, and return their record."""
    cluster.prepare(orders)
    if orders[0].stock:
        show(f"{step}: on stock Spark")
        return _perform_stock(step, orders, cluster, session)
    watch = _Watch()
    jobs = cluster.perform(step, orders, limit_s=SLICE_S, show=show)
    for order, job in zip(sorted(orders, key=lambda order: order.delay_s), jobs, strict=True):
        # Its time would become the others' deadline. A job with a deadline that fails is a result.
        if order.deadline_s is None and job.exit_code != 0 and not order.may_fail:
            raise SystemExit(f"{step}: {job.job} ended with {job.exit_code}; the log is in {cluster.logs}")
    readings = cluster.take_readings()
    if readings:
        inside = readings[-1].used_core_s - readings[0].used_core_s  # from an executor's launch on, not from its first sample
    else:
        inside = math.fsum(_executors_core_s(cluster, job) for job in jobs)
    return structs.replace(watch.record(step, session, cluster.capacity(), inside, jobs), readings=readings)


def _perform_stock(step: str, orders: list[Order], cluster: LocalCluster, session: Session) -> StepRecord:
    """Run the jobs on stock Spark, on workers that the first order describes."""
    first, watch = orders[0], _Watch()
    if first.stock_workers is None:
        capacity = cluster.capacity()
        wanted = math.fsum(capacity.values()) if first.stock_cores is None else first.stock_cores
        workers = len(capacity) if first.stock_cores is None else least_workers(wanted, max(capacity.values()))
    else:
        assert first.stock_cores is not None
        wanted, workers = first.stock_cores, first.stock_workers
        capacity = {f"w{number}": wanted / workers for number in range(1, workers + 1)}
    ran = run_stock(cluster.folder, step, orders, workers=workers, cores_each=wanted / workers, limit_s=SLICE_S)
    return structs.replace(watch.record(step, session, capacity, ran.core_s, ran.jobs), readings=ran.readings)


class _Watch:
    """A look at the machine before and after a step."""

    def __init__(self) -> None:
        self._before, self._begun_s = machine.cpu_times(), time.monotonic()

    def record(
        self,
        step: str,
        session: Session,
        capacity: dict[str, float],
        inside_core_s: float,
        jobs: Sequence[JobRecord],
        given_up: Mapping[str, float] | None = None,
    ) -> StepRecord:
        """Return the step's record; `inside_core_s`: CPU of executors."""
        spent, took_s = machine.cpu_times().since(self._before), time.monotonic() - self._begun_s
        return StepRecord(
            step=step,
            session=session.number,
            took_s=round(took_s, 3),
            outside_core_s=round(spent.busy - inside_core_s, 3),
            steal_core_s=round(spent.steal, 3),
            capacity=capacity,
            jobs=tuple(jobs),
            given_up=dict(given_up or {}),
        )


def _executors_core_s(cluster: LocalCluster, job: JobRecord) -> float:
    return used_core_s(read_samples(cluster.home.runs / job.app_id))


def _line(record: StepRecord) -> str:
    ends = []
    for job in record.jobs:
        error = job.summary["error_pct"]
        ends.append(f"{job.job} {job.summary['end_s']:.1f} s" + ("" if error is None else f" ({error:+.2f}%)"))
    return f"{record.step}: {', '.join(ends)}"


# ---------------------------------------------------------------- report


def write_report(folder: ResultFolder) -> list[Condition]:
    """Make report.md and the pictures only from the recorded data; return the conditions."""
    what = folder.read_settings()
    scenario, data = scenario_of(folder, what), folder.data()
    conditions = scenario.conditions(data)
    pictures = draw_pictures(folder, scenario, data)
    (folder.path / "report.md").write_text(text(what, folder.sessions(), scenario, data, conditions, pictures))
    return conditions


def goals(folder: ResultFolder) -> list[dict[str, Any]]:
    """Return the project's goals as the folder's data show them, each with the command that measured it."""
    what = folder.read_settings()
    scenario = scenario_of(folder, what)
    if not isinstance(scenario, Ambitious):
        return []
    times = what.settings.get("repetitions")
    command = f"python -m experiments run {what.spec} --seed {what.seed}" + (" --quick" if what.quick else "")
    command += f" --repetitions {times}" if times else ""
    return [
        {**msgspec.to_builtins(goal), "met": goal.met, "command": command, "data": folder.path.name}
        for goal in scenario.goals(folder.data())
    ]


def text(
    what: Asked,
    sessions: Sequence[Session],
    scenario: Scenario,
    data: Data,
    conditions: Sequence[Condition],
    pictures: Sequence[str],
) -> str:
    """Return the report as Markdown."""
    held = sum(condition.holds for condition in conditions)
    quick = ", quick" if what.quick else ""
    lines = [
        f"# {what.title}",
        f"Spec `{what.spec}`{quick}, seed {what.seed}. {held} of {len(conditions)} conditions hold.",
        "",
        "## Conditions",
        *table(("condition", "of", "holds", ""), _rows(conditions)),
        "## Results",
        scenario.tables(data),
        "",
        *(f"![{name}]({name})\n" for name in pictures),
        *_cost(scenario, data),
        "## Where and with what",
        *(_session(session) for session in sessions),
    ]
    return "\n".join(lines) + "\n"


def _rows(conditions: Sequence[Condition]) -> Iterator[tuple[str, str, str, str]]:
    """Yield the rows of the conditions. If a condition is asked of many steps, one row counts the steps for which it holds,
    and each step for which it does not hold has a row."""
    times = Counter(condition.name for condition in conditions if condition.always)
    held = Counter(condition.name for condition in conditions if condition.always and condition.holds)
    counted = {name for name in held if times[name] > 1}
    for condition in conditions:
        if not condition.holds or condition.name not in counted:
            yield condition.name, condition.of, "yes" if condition.holds else "**no**", condition.detail
    for name in sorted(counted):
        yield name, f"{held[name]} of {times[name]}", "yes", ""


def _cost(scenario: Scenario, data: Data) -> list[str]:
    """Return the time and the CPU that the steps took; for steps without Spark, only their time."""
    if isinstance(scenario, Simulated | Measured):
        return [
            *(SIMULATED if isinstance(scenario, Simulated) else MEASURED),
            "",
            *table(
                ("step", "rows", "session", "seconds of this machine"),
                ((r.step, len(r.rows), r.session, f"{r.took_s:.1f}") for r in data.rows.values()),
            ),
        ]
    return [
        "## What it cost besides the executors",
        "CPU of the whole machine less that of executors: drivers, services, engine and everything else that ran.",
        "Steal is CPU that the hypervisor withheld.",
        "",
        *table(
            ("step", "n", "session", "seconds", "outside core-s", "cores", "steal core-s"),
            (
                (
                    *(r.step, len(r.jobs), r.session, f"{r.took_s:.1f}", f"{r.outside_core_s:.1f}"),
                    *(f"{r.outside_core_s / r.took_s:.2f}", f"{r.steal_core_s:.1f}"),
                )
                for r in data.steps.values()
            ),
        ),
    ]


def _session(session: Session) -> str:
    machine_is = ", ".join(f"{key} {value}" for key, value in session.machine.items())
    return f"- session {session.number}, {session.when}, commit {session.commit}: {machine_is}"


def draw_pictures(folder: ResultFolder, scenario: Scenario, data: Data) -> list[str]:
    """Make the scenario's pictures from the recorded data; return their names."""
    names = []
    for name, applications in scenario.pictures(data).items():
        drawable = [folder.runs / application for application in applications if data.samples.get(application)]
        if len(applications) == len(drawable) == 1:
            plot_run(drawable[0], folder.path / f"{name}.png")
        elif drawable:
            plot_runs(drawable, folder.path / f"{name}.png")
        if drawable:
            names.append(f"{name}.png")
    if isinstance(scenario, Distributions):
        for name, curves in scenario.distributions(data).items():
            plot_cdf(curves, folder.path / f"{name}.png")
            names.append(f"{name}.png")
    if isinstance(scenario, Reserving):
        for name, courses in scenario.courses(data).items():
            plot_reserved(courses, folder.path / f"{name}.png")
            names.append(f"{name}.png")
    return names
