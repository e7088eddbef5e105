"""`python -m experiments run SPEC` runs a spec's experiment, `report DIR` makes its tables and pictures again.

    python -m experiments run fig4 [--quick] [--seed N] [--out DIR] [--repetitions N] [--only STEP]...
    python -m experiments report DIR
    python -m experiments pack DIR --to NEW
    python -m experiments goals DIR...
    python -m experiments reduce RUN --profile FILE --to FILE
    python -m experiments replay FOLDER

`run` and `report` end with 0 only if every condition of the experiment holds, with 1 if one does not. A quick run is too
small for most conditions: it only checks that every step ran, with right answers and quotas within capacity.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import click
import msgspec
from rich.console import Console

from experiments.harness.experiment import asked, goals, read_spec, run_steps, scenario_of, write_report
from experiments.harness.live_cluster import end_by_signal
from experiments.harness.machine import PROJECT
from experiments.harness.recorded import Condition
from experiments.harness.result_folder import ResultFolder, reading
from experiments.simulator import recorded_run
from experiments.simulator.replay import closed_loop, open_loop
from stage_model.errors import PaceError
from stage_model.history.profile import parse_profile


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
def main() -> None:
    """Run experiments: a spec in, a result folder out."""


@main.command("run")
@click.argument("spec")
@click.option("--quick", is_flag=True, help="Small jobs, few repetitions: does it work at all?")
@click.option("--seed", type=int, default=1, show_default=True)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), help="Result folder [default: out/SPEC-SEED].")
@click.option("--repetitions", type=click.IntRange(min=1), help="As many in all; more may be added later.")
@click.option("--only", multiple=True, metavar="STEP", help="Run only steps whose names begin with STEP; repeat it.")
def run_command(spec: str, quick: bool, seed: int, out: Path | None, repetitions: int | None, only: tuple[str, ...]) -> None:
    """Run the missing steps of SPEC (a name in experiments/scenarios/specs, or a .toml file), then report.

    A call that was interrupted, or that asks for more repetitions, goes on where the folder is. --only leaves other steps
    missing, and the report says so.
    """
    name, what = read_spec(spec)
    default = PROJECT / "out" / f"{name}-{seed}{'-quick' if quick else ''}"
    folder = ResultFolder((out or default).absolute())
    question = folder.open(asked(name, what, quick=quick, seed=seed), repetitions)
    run_steps(folder, scenario_of(folder, question), question, Console(highlight=False, markup=False), only)
    _judge(folder)


@main.command("report")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
def report_command(folder: Path) -> None:
    """Make report.md and the pictures of a result folder from only its data."""
    with reading(folder.absolute()) as results:
        _judge(results)


@main.command("pack")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--to", type=click.Path(path_type=Path, file_okay=False), required=True, help="A new folder.")
def pack_command(folder: Path, to: Path) -> None:
    """Make a folder of report.md, pictures and one file with all data, which report and goals read like a plain one.

    FOLDER stays as it is.
    """
    ResultFolder(folder.absolute()).pack(to.absolute())
    with reading(to.absolute()) as results:
        write_report(results)
    click.echo(to.absolute() / "report.md")


@main.command("goals")
@click.argument("folders", nargs=-1, required=True, type=click.Path(path_type=Path, file_okay=False, exists=True))
def goals_command(folders: tuple[Path, ...]) -> None:
    """Print the goals that these result folders show, met or missed, as JSON."""
    found = []
    for folder in folders:
        with reading(folder) as results:
            found += goals(results)
    click.echo(msgspec.json.format(msgspec.json.encode(found)))


@main.command("reduce")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
@click.option("--profile", "taught", type=click.Path(path_type=Path, dir_okay=False, exists=True), required=True)
@click.option("--to", type=click.Path(path_type=Path, dir_okay=False), required=True, help="A new file, NAME.json.xz.")
@click.option("--argument", "arguments", multiple=True, help="A word of the program's own, if the run taught nothing.")
def reduce_command(folder: Path, taught: Path, to: Path, arguments: tuple[str, ...]) -> None:
    """Reduce the run folder of an ended run, with the profile of its application, to what a replay needs.

    Files in tests/data/recorded_runs are replayed by the tests.
    """
    recorded_run.write_reduced(recorded_run.reduce(folder, parse_profile(taught.read_bytes()), arguments or None), to)
    click.echo(to)


@main.command("replay")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False, exists=True))
def replay_command(folder: Path) -> None:
    """Replay every reduced run of FOLDER in virtual time and print how far its end is from the measured one, in percent.

    With its recorded cores a run shows how true the simulator is; planned again it shows what the law would do now.
    """
    for name, run in recorded_run.reduced_runs(folder).items():
        ends = (open_loop(run).end_s, closed_loop(run).end_s)
        given, again = (f"{100 * (end_s / run.end_s - 1):+.1f}%" for end_s in ends)
        click.echo(f"{name}: measured {run.end_s:.1f} s, with its recorded cores {given}, planned again {again}")


def _judge(folder: ResultFolder) -> None:
    conditions = write_report(folder)
    for condition in conditions:
        click.echo(_said(condition))
    click.echo(folder.path / "report.md")
    decisive = [condition for condition in conditions if condition.always or not folder.read_settings().quick]
    sys.exit(0 if all(condition.holds for condition in decisive) else 1)


def _said(condition: Condition) -> str:
    return f"{'holds' if condition.holds else 'FAILS'}  {condition.name} [{condition.of}]: {condition.detail}"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, end_by_signal)
    try:
        main(prog_name="python -m experiments", standalone_mode=True)
    except PaceError as error:
        click.echo(f"experiments: {error}", err=True)
        sys.exit(error.exit_code)
