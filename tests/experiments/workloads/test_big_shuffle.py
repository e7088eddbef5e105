"""The join's answer by arithmetic is that of counting."""

from __future__ import annotations

from experiments.workloads.big_shuffle import FACTORS, WIDTH, expected, hex_digits


def test_digits_are_those_of_the_numbers() -> None:
    for keys in (1, 15, 16, 17, 5000):
        assert hex_digits(keys) == sum(len(f"{key:x}") for key in range(keys))


def test_every_key_is_there_once_in_each_table() -> None:
    rows = 300
    tables = [{factor * i % rows: f"{factor * i % rows:X}" * WIDTH for i in range(rows)} for factor in FACTORS]
    assert all(len(table) == rows for table in tables)
    assert expected(rows) == (rows, sum(range(rows)), sum(len(payload) for table in tables for payload in table.values()))
