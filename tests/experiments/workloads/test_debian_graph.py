"""The dependency graph from a package index."""

from __future__ import annotations

import lzma
from pathlib import Path

from experiments.workloads.debian_graph import OUTPUT, edges, read_index, write_graph

INDEX = """Package: app
Depends: libc6 (>= 2.34), mailer | exim4, tool:any [amd64],
Pre-Depends: dpkg (>= 1.15.6~)
Recommends: docs
Suggests: never
Description: an app
 Depends: not a field

Package: docs
Depends: docs, libc6
"""


def test_edges_are_the_first_alternatives_of_three_fields() -> None:
    assert edges(INDEX.splitlines()) == [
        ("app", "docs"),
        ("app", "dpkg"),
        ("app", "libc6"),
        ("app", "mailer"),
        ("app", "tool"),
        ("docs", "libc6"),
    ]


def test_a_graph_is_written_alike_every_time_and_read_back(tmp_path: Path) -> None:
    pairs = edges(INDEX.splitlines())
    for name in ("graph.txt", "graph.txt.gz", "graph.txt.xz"):
        write_graph(pairs, tmp_path / name)
        first = (tmp_path / name).read_bytes()
        write_graph(pairs, tmp_path / name)
        assert (tmp_path / name).read_bytes() == first
        assert read_index(str(tmp_path / name)).splitlines()[0] == "app docs"


def test_the_shipped_graph_is_small_sorted_and_whole() -> None:
    assert OUTPUT.stat().st_size <= 2_000_000
    lines = lzma.decompress(OUTPUT.read_bytes()).decode().splitlines()
    pairs = [tuple(line.split()) for line in lines]
    assert len(pairs) == len(set(pairs)) > 250_000
    assert pairs == sorted(pairs)
