"""Tables of reports."""

from __future__ import annotations

from experiments.harness.markdown import table


def test_a_table_ends_with_an_empty_line_and_a_bar_in_a_cell_is_no_border() -> None:
    assert table(("law", "|error|"), [("paper", 4.4)]) == ["| law | \\|error\\| |", "| --- | --- |", "| paper | 4.4 |", ""]
    assert table(("law",), []) == ["| law |", "| --- |", ""]
