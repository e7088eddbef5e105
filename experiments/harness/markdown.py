"""Tables of reports."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def table(columns: Sequence[str], rows: Iterable[Iterable[object]]) -> list[str]:
    """Return the lines of a Markdown table and the empty line that ends it; a bar within a cell is text."""
    return [_row(columns), "| --- " * len(columns) + "|", *map(_row, rows), ""]


def _row(cells: Iterable[object]) -> str:
    return f"| {' | '.join(str(cell).replace('|', chr(92) + '|') for cell in cells)} |"
