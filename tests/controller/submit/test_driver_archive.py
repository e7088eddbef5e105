"""The driver's class archive: made once, used as it was made, never in the way of a driver. Real JVMs: tests/integration."""

from __future__ import annotations

import gzip
import os
from pathlib import Path

import pytest

from controller.submit import driver_archive
from controller.submit.driver_archive import KEPT, VARIABLE, archive_options, make_archive
from controller.submit.spark_install import SparkInstall
from stage_model.errors import RuntimeFailed

SUBMIT = """#!/bin/sh
echo "Spark Command: $JAVA_HOME/bin/java -cp $2:jars and more -Xmx1g Main" >&2
"""
JAVA = """#!/bin/sh
echo "$@" >>"$SAID"
for word; do case $word in -XX:SharedArchiveFile=*) file=${word#*=} ;; -Xshare:dump) dump=1 ;; esac; done
[ -z "$dump" ] || date +%N >"$file"
[ -z "$FAILS" ] || { echo "out of order"; exit 3; }
"""


class Machine:
    """Programs that stand for Java and spark-submit and write down their arguments."""

    def __init__(self, folder: Path) -> None:
        self.java, self.jar, self.said = folder / "java", folder / "b.jar", folder / "said"
        self.spark = SparkInstall(folder / "spark/bin/spark-submit", "test")
        self.environment = {"PATH": os.environ["PATH"], "JAVA_HOME": str(self.java), "SAID": str(self.said)}
        for path, text in ((self.java / "bin/java", JAVA), (self.spark.submit, SUBMIT)):
            path.parent.mkdir(parents=True)
            path.write_text(text)
            path.chmod(0o755)
        (self.spark.home / "jars").mkdir()
        self.jar.write_bytes(b"jar")
        self.said.write_text("")

    def make(self, **changed: str) -> None:
        make_archive({**self.environment, **changed}, self.java, self.spark, self.jar)

    def options(self, **users: str) -> dict[str, str]:
        return archive_options({**self.environment, **users}, self.java, self.spark, self.jar)

    def dumps(self) -> int:
        return self.said.read_text().count("-Xshare:dump")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "sparkpace" / "driver-archives"


@pytest.fixture
def machine(tmp_path: Path, folder: Path) -> Machine:
    assert not folder.exists()
    return Machine(tmp_path)


def test_it_is_made_once_with_sparks_own_class_path_tried_and_used(machine: Machine, folder: Path) -> None:
    assert machine.options() == {}
    machine.make()
    machine.make()
    dump, trial = machine.said.read_text().splitlines()
    class_path = f"spark.driver.extraClassPath={machine.jar}:jars and more"
    assert f"-cp {class_path}" in dump
    assert trial.endswith(f"-Xshare:on -cp {class_path} -version")
    [archive] = folder.glob("*.jsa")
    assert archive.stat().st_mode & 0o777 == 0o600
    assert machine.options() == {VARIABLE: f"-XX:SharedArchiveFile={archive} -Xshare:auto '-Xlog:cds*=off'"}
    assert machine.options(**{VARIABLE: "-Dmine=1"})[VARIABLE].endswith(" -Dmine=1"), "what comes later wins"


def test_an_archive_that_was_written_to_is_not_used_and_is_made_again(machine: Machine, folder: Path) -> None:
    """A JVM would crash on it."""
    machine.make()
    [archive] = folder.glob("*.jsa")
    before = archive.stat()
    with archive.open("r+b") as file:
        file.write(b"x")
    os.utime(archive, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert machine.options() == {}
    machine.make()
    assert machine.options()
    assert machine.dumps() == 2


def test_another_jar_or_java_has_another_and_old_ones_go(machine: Machine, folder: Path) -> None:
    for number in range(KEPT + 2):
        (machine.spark.home / "jars" / f"{number}.jar").write_bytes(b"jar")
        assert machine.options() == {}
        machine.make()
    assert len(list(folder.glob("*.jsa"))) == len(list(folder.glob("*.stamp"))) == KEPT
    machine.java.joinpath("release").write_text("another")
    assert machine.options() == {}


def test_what_cannot_be_made_is_said_in_one_sentence_and_leaves_nothing(machine: Machine, folder: Path) -> None:
    with pytest.raises(RuntimeFailed, match=r"java .* 3: out of order"):
        machine.make(FAILS="1")
    machine.spark.submit.write_text("#!/bin/sh\n")
    with pytest.raises(RuntimeFailed, match="class path"):
        machine.make()
    machine.spark.submit.unlink()
    with pytest.raises(RuntimeFailed, match="No such file"):
        machine.make()
    assert [path.name for path in folder.iterdir()] == ["lock"]
    assert machine.options() == {}


def test_a_class_path_with_files_of_its_own_has_none(machine: Machine, folder: Path, tmp_path: Path) -> None:
    """No JVM would use an archive then."""
    conf = tmp_path / "conf"
    conf.mkdir()
    machine.spark.submit.write_text(f'#!/bin/sh\necho "Spark Command: java -cp b.jar:{conf}:jars -Xmx1g Main"\n')
    machine.make()
    assert machine.options()
    assert machine.options(SPARK_CONF_DIR="/another") == {}, "it is of another class path"
    (conf / "spark-defaults.conf").touch()
    machine.make(SPARK_CONF_DIR=str(conf))
    assert machine.options(SPARK_CONF_DIR=str(conf)) == {}
    assert machine.dumps() == 1


def test_the_class_list_has_only_names() -> None:
    names = gzip.decompress(driver_archive.CLASS_LIST.read_bytes()).decode().split()
    assert {"java/lang/Object", "org/apache/spark/SparkContext", "org/sparkpace/bridge/PaceBackend"} <= set(names)
    assert names == sorted(set(names))
