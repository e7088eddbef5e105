"""The making of the dependency graph of Debian bookworm main, the input of PageRank, from Debian's package index.

    python -m experiments.workloads.debian_graph [--index FILE_OR_URL] [--output FILE]

One line "package dependency" per edge, sorted, compressed. Edges are Depends, Pre-Depends and Recommends; of alternatives ("a
| b") the first counts, versions and architectures are dropped. The same index gives the same bytes.
"""

from __future__ import annotations

import argparse
import gzip
import lzma
import re
import subprocess
import urllib.request
from collections.abc import Iterable, Iterator
from pathlib import Path

URL = "https://deb.debian.org/debian/dists/bookworm/main/binary-amd64/Packages.xz"
OUTPUT = Path(__file__).resolve().parent / "data" / "debian-bookworm-dependencies.txt.xz"
FIELDS = frozenset({"Depends", "Pre-Depends", "Recommends"})
APT_LISTS = Path("/var/lib/apt/lists")


def edges(index: Iterable[str]) -> list[tuple[str, str]]:
    """Return the sorted distinct (package, dependency) pairs of the lines of a Packages file."""
    found: set[tuple[str, str]] = set()
    package = ""
    for line in index:
        field, colon, value = line.partition(":")
        if not colon or line[0] in " \t":
            continue  # blank lines and continued fields; none of ours is ever continued in an index
        if field == "Package":
            package = value.strip()
        elif field in FIELDS:
            found.update((package, name) for name in dependencies(value) if name != package)
    return sorted(found)


def dependencies(value: str) -> Iterator[str]:
    """Yield the package names in a dependency field: "a (>= 1) | b, c:any" gives a and c."""
    for clause in value.split(","):
        match = re.match(r"\s*([a-z0-9][a-z0-9+.-]+)", clause)
        if match:
            yield match[1]


def read_index(source: str | None) -> str:
    """Return the index's text from a file (plain, .xz, .gz, apt's .lz4) or URL; by default from apt's lists, else Debian."""
    if source is None:
        local = sorted(APT_LISTS.glob("*_dists_bookworm_main_binary-amd64_Packages*"))
        source = str(local[0]) if local else URL
    if source.startswith(("http://", "https://")):
        with urllib.request.urlopen(source, timeout=120) as reply:
            data = reply.read()
    elif source.endswith(".lz4"):
        data = subprocess.run(["/usr/lib/apt/apt-helper", "cat-file", source], check=True, capture_output=True).stdout
    else:
        data = Path(source).read_bytes()
    if data.startswith(b"\xfd7zXZ"):
        data = lzma.decompress(data)
    elif data.startswith(b"\x1f\x8b"):
        data = gzip.decompress(data)
    return str(data, "utf-8")


def write_graph(pairs: Iterable[tuple[str, str]], output: Path) -> None:
    """Write the pairs as lines, compressed by the file's ending (.xz or .gz) without a time stamp: repeatable."""
    text = "".join(f"{package} {dependency}\n" for package, dependency in pairs).encode()
    if output.suffix == ".xz":
        output.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
    elif output.suffix == ".gz":
        output.write_bytes(gzip.compress(text, compresslevel=9, mtime=0))
    else:
        output.write_bytes(text)


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes the dependency graph of Debian bookworm main.")
    parser.add_argument("--index", help="Packages file or its URL [default: apt's lists, else deb.debian.org]")
    parser.add_argument("--output", type=Path, default=OUTPUT)
    options = parser.parse_args()
    pairs = edges(read_index(options.index).splitlines())
    write_graph(pairs, options.output)
    packages = {package for pair in pairs for package in pair}
    print(f"{len(packages)} packages, {len(pairs)} dependencies, {options.output.stat().st_size} bytes")


if __name__ == "__main__":
    main()
