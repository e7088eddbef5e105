"""Logs of executors on other machines, for `sparkpace logs`: their agents send the ends of them by way of the master."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from controller.cli.common import warn
from controller.client import admin_client
from controller.home import Home
from controller.runs.run_folders import RunFolder
from controller.wire.command import ExecutorPlace
from stage_model.errors import BadInput, PaceError


def find_elsewhere(home: Home, run: RunFolder) -> dict[str, ExecutorPlace]:
    """Return the executors of a run that are, or were, on workers of other homes, by their ids. Print a warning where only
    the master knows them and it does not answer."""
    mine = set(home.workers())
    if home.cluster() is None or (run.summary and mine.issuperset(run.summary.get("workers", ()))):
        return {}
    try:
        places = admin_client(home).executors(run.application_id)
    except PaceError as error:
        warn([f"logs of executors on other machines are not shown: {error}"])
        return {}
    return {place.executor_id: place for place in places if place.worker_id not in mine}


def read_elsewhere(home: Home, run: RunFolder, places: Iterable[ExecutorPlace], *, only: bool) -> Iterator[tuple[str, bytes]]:
    """Yield the name of each log, and its end; warn of parts that are left out. `only`: the user asked for one executor, so
    an error is raised; else an error is a warning, and the other logs follow."""
    client = admin_client(home)
    for place in places:
        try:
            files = client.executor_log(run.application_id, place.executor_id).files
            if only and not files:
                nothing = f"executor {place.executor_id} has printed nothing on worker {place.worker_id}"
                raise BadInput(f"{nothing}; try again when it has run for a while")
        except PaceError as error:
            if only:
                raise
            warn([str(error)])
            continue
        for file, tail in files.items():
            name, whole = f"{place.executor_id}/{file}", f"{place.log_dir}/{file} on {place.host}"
            if tail.problem:
                warn([f"{name} of worker {place.worker_id}: {tail.problem}"])
                continue
            if len(tail.content) < tail.size:
                warn([f"{name} is the last {len(tail.content) >> 10} KiB of {tail.size >> 10} KiB in {whole}"])
            yield name, tail.content
