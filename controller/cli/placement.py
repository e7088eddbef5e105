"""`sparkpace explain` and `sparkpace label`: the reasons for the places of executors, and the labels of workers."""

from __future__ import annotations

import click
import msgspec
from rich.table import Table

from controller.cli.common import choose, home_option, output_option, print_json, table_console
from controller.cli.completion import complete_running, complete_workers, completes
from controller.cli.tables import bounds_table
from controller.client import admin_client, submit_client
from controller.home import Home
from controller.wire.command import Explanation, Labels, WorkerExplanation
from placement.labels import parse_labels
from stage_model.errors import BadInput


@click.command("explain", epilog="Example: sparkpace explain nightly")
@home_option
@click.argument("application", metavar="APP", shell_complete=completes(complete_running))
@output_option
def explain_placement(home: Home, application: str, as_json: bool) -> None:
    """Explain an application's forecast and the choice of its workers.

    It shows what the forecast rests on, what bounded the largest stages in earlier runs, and for each worker why the next
    executor would go there or not.
    """
    client = submit_client(home)
    found = client.explain(choose(client.applications(), application).application_id)
    if as_json:
        print_json(found)
        return
    console = table_console()
    for line in (headline(found), *sentences(found)):
        console.print(line, soft_wrap=True, markup=False)
    console.print(explanation_table(found))
    for line in found.evicted:
        console.print(f"evicted: {line}", soft_wrap=True, markup=False)
    if found.largest_stages:
        console.print(bounds_table([msgspec.structs.asdict(stage) for stage in found.largest_stages]))


@click.command(epilog="Example: sparkpace label w1 zone=b disk-")
@home_option
@click.argument("worker", metavar="WORKER", shell_complete=completes(complete_workers))
@click.argument("changes", nargs=-1, metavar="NAME=VALUE|NAME-...")
@output_option
def label(home: Home, worker: str, changes: tuple[str, ...], as_json: bool) -> None:
    """Change a worker's labels at once.

    NAME=VALUE sets a label, NAME- removes it. Running executors stay where they are.
    """
    if not worker.strip():
        raise BadInput("no worker was named; give WORKER, then NAME=VALUE or NAME-")
    if not changes or not all(word.strip(", ") for word in changes):
        raise BadInput("no label was given; give NAME=VALUE to set one, NAME- to remove it")
    gone = [word[:-1] for word in changes if word.endswith("-") and "=" not in word]
    there = parse_labels(",".join(word for word in changes if not (word.endswith("-") and "=" not in word)), option="label")
    parse_labels(",".join(f"{name}=x" for name in gone), option="label")
    asked = Labels(labels={**there, **dict.fromkeys(gone)})
    found = admin_client(home).label(worker, asked)
    if as_json:
        print_json(found)
        return
    labels = found.labels
    shown = ", ".join(f"{name}={value}" for name, value in sorted(labels.items())) or "no labels"
    click.echo(f"Worker {worker}: {shown}.")


def headline(found: Explanation) -> str:
    """Return a line on the executors that are asked for, and on the reason for waiting."""
    count = "an executor on each worker" if found.wanted is None else f"{found.wanted} executor(s)"
    line = (
        f"{found.application_id} ({found.name}): policy {found.policy}, priority {found.priority}, wants {count}, "
        f"each {found.least_mb} MiB at least, planned peak {found.cores:g} cores"
    )
    if found.prefer:
        line += "; input on " + ", ".join(f"{host} {share:.0%}" for host, share in sorted(found.prefer.items()))
    return f"{line}; waits: {found.waiting}" if found.waiting else line


def sentences(found: Explanation) -> list[str]:
    """Return a line each for the basis of the forecast, for the reason of a late end and for the reason why the run taught
    nothing, as far as the master reports them."""
    based = [] if found.basis is None else [f"forecast: {found.basis.sentence}"]
    late = [] if found.lateness is None else [f"late: {found.lateness.sentence}"]
    return [*based, *late, *([] if found.untaught is None else [f"it taught nothing, because {found.untaught.sentence}"])]


def explanation_table(found: Explanation) -> Table:
    table = Table(box=None, pad_edge=False)
    for heading in ("WORKER", "EXECUTORS", "NEXT ONE", "WHY"):
        table.add_column(heading, no_wrap=heading != "WHY")
    for worker in found.workers:
        verdict = "no" if worker.refused else "yes" if worker.kept else "worse"
        table.add_row(worker.worker_id, ", ".join(worker.executors) or "-", verdict, _why(worker))
    return table


def _why(worker: WorkerExplanation) -> str:
    if worker.refused:
        return "; ".join(f"{refusal.filter}: {refusal.reason}" for refusal in worker.refused)
    parts = [f"available {worker.available:.2f}"]
    parts += [f"{name} {score:g}" for name, score in worker.scores.items()]
    parts += [f"{max(0.0, worker.free_cores):g} cores free"]
    if worker.local:
        parts.append("the driver's host")
    if worker.local and worker.crowded:
        parts.append("which does not count, because too few of its cores are free or it is under pressure")
    return ", ".join(parts)
