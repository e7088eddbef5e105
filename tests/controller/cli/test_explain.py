"""Lines that `explain` prints before its table."""

from __future__ import annotations

from controller.cli.placement import sentences
from controller.wire.basis import Basis, Lateness, Untaught
from controller.wire.command import Explanation

FOUND = Explanation(application_id="pace-1", name="app", policy="spread", priority=50, cores=1.0, least_mb=512)


def test_the_basis_and_the_reason_are_a_line_each() -> None:
    late = Lateness(reason="squeezed", late_s=5.0, explained_s=4.0, sentence="squeezed by nightly")
    told = Explanation(
        application_id="pace-1", name="app", policy="spread", priority=50, cores=1.0, least_mb=512,
        basis=Basis(runs=2, sentence="planned from 2 runs"), lateness=late,
        untaught=Untaught(reason="no_job", sentence="it ran no job"),
    )  # fmt: skip
    first, second, third = sentences(told)
    assert "planned from 2 runs" in first
    assert "squeezed by nightly" in second
    assert "it ran no job" in third


def test_a_master_that_tells_neither_leaves_them_out() -> None:
    assert sentences(FOUND) == []
