"""Queries of other packages: found without running their code, parted into statements, refused by name where they are not."""

from __future__ import annotations

from pathlib import Path

import pytest

from experiments.workloads.package_query import query_text, statements

QUERY = """-- a comment; with a semicolon
create view v as select 1;

select * from v -- another one
;
drop view v;
--#SET ROWS_FETCH -1
"""


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Provide a package whose code must not run."""
    folder = tmp_path / "some_queries" / "sql"
    folder.mkdir(parents=True)
    (tmp_path / "some_queries" / "__init__.py").write_text("raise RuntimeError")
    (folder / "q1.sql").write_text(QUERY)
    monkeypatch.syspath_prepend(tmp_path)


def test_a_query_is_read_and_parted_into_statements(package: None) -> None:
    found = statements(query_text("some_queries/sql/q1.sql"))
    assert found == ["create view v as select 1", "select * from v", "drop view v"]


@pytest.mark.usefixtures("package")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("no_queries/sql/q1.sql", "package no_queries is not installed; it comes with the extra"),
        ("some_queries/sql/q2.sql", "package some_queries has no file sql/q2.sql"),
        ("some_queries", "package some_queries has no file "),
    ],
)
def test_what_is_not_there_is_named(name: str, said: str) -> None:
    with pytest.raises(FileNotFoundError, match=said):
        query_text(name)
