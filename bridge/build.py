"""Build of the bridge jar with `javac` against Spark's jars: `python bridge/build.py [--spark-jars DIR] [--out FILE]`.

One jar serves Spark 3.5 (Scala 2.12) and 4.x (Scala 2.13), so it may be compiled against either. The jar is reproducible: the
same sources and compiler give the same bytes. Not covered: installing a JDK.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
JAR = HERE.parent / "controller" / "jars" / "sparkpace-bridge.jar"
RELEASE = "11"
"""Java 11: the oldest whose HTTP client we use; Spark 3.5 runs on 8, 11 and 17, Spark 4 on 17 and 21."""
FAILED, MISUSE, UNAVAILABLE = 1, 2, 69
"""Exit codes (docs/reference/exit-codes.md)."""
FIRST_ZIP_DATE = (1980, 1, 1, 0, 0, 0)


class BuildError(Exception):
    """One sentence for the user, and the exit code."""

    def __init__(self, sentence: str, exit_code: int) -> None:
        super().__init__(sentence)
        self.exit_code = exit_code


def find_javac() -> Path:
    """Find `javac` in JAVA_HOME, else on the path. Raise BuildError if it is missing."""
    home = os.environ.get("JAVA_HOME")
    candidate = Path(home) / "bin" / "javac" if home else None
    if candidate and candidate.is_file():
        return candidate
    found = shutil.which("javac")
    if found is None:
        sentence = "no javac is on the path, which building the bridge needs: apt-get install openjdk-17-jdk-headless"
        raise BuildError(sentence, UNAVAILABLE)
    return Path(found)


def pyspark_jars() -> Path:
    """Return the folder of jars of the pyspark that this Python imports. Raise BuildError without a pyspark."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or spec.origin is None:
        sentence = "this Python has no pyspark to compile against: install it or give --spark-jars DIR"
        raise BuildError(sentence, UNAVAILABLE)
    return Path(spec.origin).parent / "jars"


def compile_classes(javac: Path, spark_jars: Path, target: Path) -> None:
    """Compile the sources into `target`. Raise BuildError; the compiler's own words go to standard error."""
    if not any(spark_jars.glob("spark-core_*.jar")):
        sentence = f"--spark-jars {spark_jars} holds no spark-core jar; give the jars directory of a Spark installation"
        raise BuildError(sentence, MISUSE)
    sources = sorted(str(path) for path in (HERE / "src").rglob("*.java"))
    # -proc:none: Spark's class path carries annotation processors that are not ours to run.
    options = ["--release", RELEASE, "-g", "-proc:none", "-encoding", "UTF-8", "-Xlint:all,-processing,-path"]
    done = subprocess.run(
        [str(javac), *options, "-cp", f"{spark_jars}/*", "-d", str(target), *sources],
        capture_output=True,
        text=True,
        check=False,
    )
    sys.stderr.write(done.stderr)
    if done.returncode != 0:
        raise BuildError(f"javac refused the bridge's sources (exit code {done.returncode}, see above)", FAILED)


def write_jar(roots: list[Path], out: Path) -> None:
    """Write all files under `roots`, in order of name and without dates; replace `out` whole or not at all."""
    files = {path.relative_to(root).as_posix(): path for root in roots for path in root.rglob("*") if path.is_file()}
    files_by_name = sorted(files.items(), key=lambda item: (not item[0].startswith("META-INF/"), item[0]))
    out.parent.mkdir(parents=True, exist_ok=True)
    draft = out.with_name(out.name + ".draft")
    with zipfile.ZipFile(draft, "w", zipfile.ZIP_DEFLATED) as jar:
        for name, path in files_by_name:
            entry = zipfile.ZipInfo(name, FIRST_ZIP_DATE)
            entry.external_attr = 0o644 << 16
            entry.compress_type = zipfile.ZIP_DEFLATED
            jar.writestr(entry, path.read_bytes())
    draft.replace(out)


def build(spark_jars: Path, out: Path) -> None:
    """Compile and pack the bridge. Raise BuildError."""
    javac = find_javac()
    with tempfile.TemporaryDirectory() as scratch:
        classes = Path(scratch)
        compile_classes(javac, spark_jars, classes)
        write_jar([classes, HERE / "resources"], out)


def main() -> int:
    parser = argparse.ArgumentParser(description="Build the Sparkpace bridge jar.")
    parser.add_argument("--spark-jars", type=Path, help="directory of Spark's jars (default: the importable pyspark's)")
    parser.add_argument("--out", type=Path, default=JAR, help="the jar to write")
    options = parser.parse_args()
    try:
        build(options.spark_jars or pyspark_jars(), options.out)
    except BuildError as error:
        sys.stderr.write(f"{error}\n")
        return error.exit_code
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
