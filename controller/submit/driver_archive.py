"""The driver's class archive, with which its JVM starts a second and a half sooner. `up` makes it, `submit` uses it.

A gain, never a need: whatever goes wrong, and with another class path than Spark's own (files in Spark's conf directory, the
user's --driver-class-path), the driver starts without an archive. Not here: the choice of classes
(`experiments.bench.class_list`).
"""

from __future__ import annotations

import gzip
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from controller.machine.class_sharing import archive_key, dump, file_stamp, jar_stamps, java_identity, trial, use
from controller.machine.files import cache_root, locked, write_whole
from controller.submit.spark_install import SparkInstall
from stage_model.errors import RuntimeFailed

CLASS_LIST = Path(__file__).with_name("driver_classes.txt.gz")
VARIABLE = "SPARK_SUBMIT_OPTS"
"""Options of the JVM that spark-submit starts (SparkSubmitCommandBuilder); a later option wins."""
IN_THE_CLASS_PATH = ("SPARK_CONF_DIR", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_DIST_CLASSPATH")
"""Variables whose paths Spark's launcher puts into the class path."""
OPTIONS = ("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")
"""Variables from which a JVM takes options, too; only the options of this module should shape the archive."""
TIMEOUT_S = 300.0
KEPT = 2
"""Number of archives that are kept, of 200 MB each; the oldest go."""


def archive_options(environment: Mapping[str, str], java_home: Path, spark: SparkInstall, jar: Path) -> dict[str, str]:
    """Return variables for the driver's environment; nothing where there is no archive of this user's own."""
    with suppress(OSError):
        archive = _path(environment, java_home, spark, jar)
        if _as_made(archive):
            return {VARIABLE: " ".join((shlex.join(use(archive)), environment.get(VARIABLE, ""))).strip()}
    return {}


def make_archive(environment: Mapping[str, str], java_home: Path, spark: SparkInstall, jar: Path) -> None:
    """Make the archive, unless it is there, or is impossible: no JVM uses an archive if its class path has a directory that
    is not empty. Raise `RuntimeFailed`, `OSError`."""
    archive, java = _path(environment, java_home, spark, jar), str(java_home / "bin" / "java")
    folder = archive.parent
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    with locked(folder / "lock", TIMEOUT_S), tempfile.TemporaryDirectory(prefix=".new-", dir=folder) as scratch:
        if _as_made(archive):
            return
        class_path = _class_path(environment, spark, jar)
        if any(Path(entry).is_dir() and any(Path(entry).iterdir()) for entry in class_path.split(":")):
            return
        classes, made = Path(scratch, "classes"), Path(scratch, "archive.jsa")
        classes.write_bytes(gzip.decompress(CLASS_LIST.read_bytes()))
        _run([java, *dump(classes, made, class_path)], environment)
        _run([java, *trial(made, class_path)], environment)
        with made.open("rb") as file:
            os.fsync(file.fileno())
        made.chmod(0o600)
        made.rename(archive)
        write_whole(_stamp_file(archive), _stamp(archive))
        for old in sorted(folder.glob("*.jsa"), key=lambda path: path.lstat().st_mtime_ns, reverse=True)[KEPT:]:
            old.unlink(missing_ok=True)
            _stamp_file(old).unlink(missing_ok=True)


def _path(environment: Mapping[str, str], java_home: Path, spark: SparkInstall, jar: Path) -> Path:
    stamps = jar_stamps(jar, spark.home / "jars")
    java = repr([java_identity(java_home), *(environment.get(name) for name in IN_THE_CLASS_PATH)])
    key = archive_key(stamps, java, CLASS_LIST.read_bytes(), os.getuid())
    return cache_root() / "driver-archives" / f"{key}.jsa"


def _as_made(archive: Path) -> bool:
    """Return True if the archive has not been written to since it was tried."""
    try:
        return _stamp_file(archive).read_bytes() == _stamp(archive)
    except FileNotFoundError:
        return False


def _stamp(archive: Path) -> bytes:
    return repr(file_stamp(archive.lstat())).encode()


def _stamp_file(archive: Path) -> Path:
    return archive.with_suffix(".stamp")


def _class_path(environment: Mapping[str, str], spark: SparkInstall, jar: Path) -> str:
    """Return the class path of the driver's JVM, as spark-submit prints it (SPARK_PRINT_LAUNCH_COMMAND, launcher.Main)."""
    asked = [str(spark.submit), "--conf", f"spark.driver.extraClassPath={jar}", "--version"]
    output = _run(asked, {**environment, **spark.environment, "SPARK_PRINT_LAUNCH_COMMAND": "1"})
    found = re.search(r"^Spark Command: .*? -cp (.*?) -X", output, re.MULTILINE)
    if found is None:
        raise RuntimeFailed(f"{spark.submit} does not show its class path; drivers start without a class archive")
    return found[1]


def _run(words: Sequence[str], environment: Mapping[str, str]) -> str:
    quiet = {name: value for name, value in environment.items() if name not in OPTIONS}
    try:
        done = subprocess.run(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=TIMEOUT_S, env=quiet, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise RuntimeFailed(f"the driver's class archive cannot be made ({error}); drivers start without one") from error
    if done.returncode != 0:
        said = done.stdout.strip().splitlines()[:1]
        raise RuntimeFailed(
            f"the driver's class archive cannot be made ({Path(words[0]).name} ended with {done.returncode}: "
            f"{said[0][:300] if said else 'nothing said'}); drivers start without one"
        )
    return done.stdout
