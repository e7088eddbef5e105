"""Inputs that lie on the hosts of a cluster, for experiments on one machine: `java/HostedFileSystem.java` and its files.

The file system is Hadoop's own local one, with a host for each file, or several with a copy of it (`HOST_HOST`), and slow
reading from another host.
"""

from __future__ import annotations

import random
import subprocess
import tempfile
from pathlib import Path

from bridge.build import find_javac, pyspark_jars, write_jar

SOURCE = Path(__file__).resolve().parent / "java" / "HostedFileSystem.java"
LINE = 64
"""Bytes of a line, its end included."""


def make_jar(out: Path) -> None:
    """Compile the file system into a jar. Raise `bridge.build.BuildError` without a javac."""
    with tempfile.TemporaryDirectory() as scratch:
        words = [str(find_javac()), "--release", "11", "-proc:none", "-cp", f"{pyspark_jars()}/*", "-d", scratch, str(SOURCE)]
        subprocess.run(words, check=True)
        write_jar([Path(scratch)], out)


def make_files(folder: Path, hosts: list[str], megabytes: int, each: int = 4) -> None:
    """Make `each` files on every host, together about `megabytes`; lines of digits, drawn from a fixed seed. In `hosts`,
    HOST_HOST counts once."""
    rng = random.Random(1)
    lines = megabytes * 1_000_000 // LINE // (len(hosts) * each)
    for host in hosts:
        (folder / host).mkdir(parents=True)
        for number in range(each):
            with (folder / host / f"part-{number}").open("w") as file:
                for _ in range(lines):
                    file.write(f"{rng.getrandbits(200):063d}\n")
