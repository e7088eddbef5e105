"""`python -m experiments.calibrate RUN...`: how well the simulator tells what recorded runs did.

    python -m experiments.calibrate ~/.sparkpace/runs/pace-... [--taught-by RUN] [--task-cv 0.2]

Prints a table of end, allocated and used core-seconds, real and simulated. See `experiments.simulator.calibrate`.
"""

from __future__ import annotations

import sys
from pathlib import Path

import click

from experiments.simulator.calibrate import TASK_CV, compare, read_recorded, told
from stage_model.errors import PaceError

FOLDER = click.Path(path_type=Path, file_okay=False, exists=True)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("runs", nargs=-1, required=True, type=FOLDER)
@click.option("--taught-by", type=FOLDER, help="The run that taught the law's profile [default: each run itself].")
@click.option("--task-cv", type=click.FloatRange(min=0), default=TASK_CV, show_default=True, help="How unlike tasks are.")
def main(runs: tuple[Path, ...], taught_by: Path | None, task_cv: float) -> None:
    """Replays recorded runs in the simulator and compares."""
    teacher = read_recorded(taught_by) if taught_by else None
    click.echo(told([compare(read_recorded(folder), teacher, task_cv) for folder in runs]))


if __name__ == "__main__":
    try:
        main(prog_name="python -m experiments.calibrate")
    except PaceError as error:
        click.echo(f"experiments: {error}", err=True)
        sys.exit(error.exit_code)
