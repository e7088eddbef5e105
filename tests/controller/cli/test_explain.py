"""The lines and the table that `explain` prints."""

from __future__ import annotations

from io import StringIO

from msgspec import structs
from rich.console import Console

from controller.cli.placement import explanation_table, sentences
from controller.wire.basis import Basis, Lateness, Untaught
from controller.wire.command import Explanation, WorkerExplanation
from tests.fakes.refusals import assert_names

FOUND = Explanation(application_id="pace-1", name="app", policy="spread", priority=50, cores=1.0, least_mb=512)


def test_the_basis_and_the_reason_are_a_line_each() -> None:
    late = Lateness(reason="squeezed", late_s=5.0, explained_s=4.0, sentence="squeezed by nightly")
    explanation = Explanation(
        application_id="pace-1", name="app", policy="spread", priority=50, cores=1.0, least_mb=512,
        basis=Basis(runs=2, sentence="planned from 2 runs"), lateness=late,
        untaught=Untaught(reason="no_job", sentence="it ran no job"),
    )  # fmt: skip
    first, second, third = sentences(explanation)
    assert "planned from 2 runs" in first
    assert "squeezed by nightly" in second
    assert "it ran no job" in third


def test_a_master_that_tells_neither_leaves_them_out() -> None:
    assert sentences(FOUND) == []


def test_the_drivers_host_says_when_it_does_not_count_for_its_cores() -> None:
    workers = tuple(
        WorkerExplanation(worker_id=name, available=0.1, free_cores=cores, local=True, crowded=cores < 0, kept=cores > 0)
        for name, cores in (("w1", -19.0), ("w2", 2.5))
    )
    printed = StringIO()
    Console(file=printed, width=200).print(explanation_table(structs.replace(FOUND, workers=workers)))
    _, crowded, roomy = printed.getvalue().splitlines()
    assert_names(crowded, "w1", "worse", "0 cores free", "the driver's host, which does not count")
    assert_names(roomy, "w2", "yes", "2.5 cores free", "the driver's host")
    assert "does not count" not in roomy
