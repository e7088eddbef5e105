"""Machines of the lab for tests, with the project as it is in this work tree; and a table of the checks at the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.lab.machines import MACHINES, Machine, act


@pytest.fixture(scope="session")
def project(lab: Path) -> Path:
    """Give all machines the project as it is now; return the lab's folder."""
    act("source", timeout_s=300.0)
    return lab


@pytest.fixture(scope="module", params=MACHINES, ids=lambda machine: f"debian-{machine.release}")
def machine(request: pytest.FixtureRequest, project: Path) -> Machine:
    found: Machine = request.param
    return found


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print each check with its seconds in each release of Debian, and what it has recorded."""
    rows: dict[str, dict[str, float]] = {}
    seen: dict[str, str] = {}
    for report in (one for found in terminalreporter.stats.values() for one in found if isinstance(one, pytest.TestReport)):
        if "tests/lab/" in report.nodeid and "test_scripts" not in report.nodeid:
            name, _, words = report.nodeid.rpartition("::")[2].partition("[")
            release = next((word for word in ("debian-13", "debian-12") if word in words), "both")
            rest = words.removesuffix("]").replace(release, "").strip("-")
            row = f"{name.removeprefix('test_').replace('_', ' ')} {rest}".strip()
            times = rows.setdefault(row, {})
            times[release] = times.get(release, 0.0) + report.duration
            if report.when == "call" and report.user_properties:
                said = ", ".join(f"{key} {value}" for key, value in report.user_properties)
                seen[row] = f"{seen[row]}; {said}" if row in seen else said
    if rows:
        terminalreporter.section("checks of the lab, in seconds")
        terminalreporter.write_line("| check | Debian 13 | Debian 12 | seen |\n| --- | --- | --- | --- |")
    for row, times in rows.items():
        cells = [f"{times[one]:.0f}" if one in times else "" for one in ("debian-13", "debian-12")]
        cells = [f"{times['both']:.0f} (both)", ""] if "both" in times else cells
        terminalreporter.write_line(f"| {row} | {' | '.join(cells)} | {seen.get(row, '')} |")
