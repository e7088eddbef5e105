"""Class archives: made once where they can be had, never in the way of an executor."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from controller.agent.executors.class_archive import ClassArchives, class_path_of
from controller.machine.class_sharing import KEPT, archive_key, jar_stamps, use
from controller.machine.files import locked
from controller.runtime.base import Bind, ExecutorKey, JavaProgram, Launch, Mask, Program
from stage_model.errors import RuntimeRefused
from tests.fakes.runtime import FakeHost, FakeRuntime

JAVA = JavaProgram("/opt/java/bin/java", "java 17")
GIB = 1 << 30


class Machine:
    """A fake machine whose java writes archives; `programs` are the programs that ran."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.root = folder, folder / "class-archives"
        self.jars = folder / "spark" / "jars"
        self.jars.mkdir(parents=True)
        self.bridge = folder / "bridge.jar"
        for jar in (self.bridge, self.jars / "a.jar", self.jars / "b.jar"):
            jar.write_bytes(b"jar")
        self.programs: list[Program] = []
        self.java: Callable[[Program], None] = self.dump
        self.host = FakeHost(lambda: 0.0, run=self._run)

    def _run(self, program: Program) -> str:
        self.programs.append(program)
        self.java(program)
        return ""

    def dump(self, program: Program) -> None:
        if "-Xshare:dump" in program.argv:
            archive_of(program).write_bytes(f"archive {len(self.programs)}".encode())

    def agent(self) -> ClassArchives:
        return ClassArchives(FakeRuntime(self.host, "c", "w1"), self.root)

    def launch(self, class_path: str | None = None, *, heap: str = "-Xmx1024m", cores: float = 0.85) -> Launch:
        path = class_path or f"{self.bridge}:{self.jars}/*"
        return Launch(
            key=ExecutorKey("app", "1"),
            argv=[JAVA.program, "-cp", path, heap, "-Dmine=1", "Main"],
            environment={},
            binds=[Bind(self.folder / "own", writable=True), Bind(self.jars.parent), Bind(self.bridge)],
            working_dir=self.folder,
            log_dir=self.folder,
            memory_bytes=2 * GIB,
            cores=cores,
            uid=os.getuid(),
            gid=os.getgid(),
        )

    def archives(self) -> list[Path]:
        return sorted(self.root.glob("*/*.jsa"))

    def dumps(self) -> int:
        return sum("-Xshare:dump" in program.argv for program in self.programs)


def archive_of(program: Program) -> Path:
    option = next(word for word in program.argv if word.startswith("-XX:SharedArchiveFile="))
    return Path(option.partition("=")[2])


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_the_first_executor_makes_it_and_every_one_uses_it(machine: Machine) -> None:
    agent, launch = machine.agent(), machine.launch()
    first = agent.add_to(launch, JAVA)
    (archive,) = machine.archives()
    assert first.argv == [JAVA.program, *use(archive), *launch.argv[1:]]
    assert first.binds == [*launch.binds, Bind(archive.parent)]
    assert agent.add_to(launch, JAVA) == first
    assert machine.agent().add_to(launch, JAVA) == first
    assert machine.dumps() == 1
    assert list(archive.parent.iterdir()) == [archive]


def test_it_is_made_in_the_place_of_the_executor_and_tried(machine: Machine) -> None:
    launch = machine.launch()
    machine.agent().add_to(launch, JAVA)
    dump, trial = machine.programs
    for program in (dump, trial):
        assert (program.uid, program.gid, program.image) == (launch.uid, launch.gid, launch.image)
        assert (program.cores, program.memory_bytes) == (launch.cores, launch.memory_bytes)
        assert [bind.path for bind in program.binds if not bind.writable] == [machine.jars.parent, machine.bridge]
        assert [bind.path for bind in program.binds if bind.writable] == [archive_of(dump).parent]
        assert program.argv[program.argv.index("-cp") + 1] == launch.argv[2]
    assert "-Xshare:on" in trial.argv


def test_what_is_masked_from_the_executor_is_masked_from_its_making(machine: Machine) -> None:
    launch = machine.launch()
    spark = Bind(machine.jars.parent, writable=True, masks=(Mask(machine.jars.parent / ".aws", folder=True),))
    machine.agent().add_to(replace(launch, binds=[spark, launch.binds[-1]]), JAVA)
    for program in machine.programs:
        assert replace(spark, writable=False) in program.binds


def test_two_agents_at_once_make_one(machine: Machine) -> None:
    agents = [machine.agent() for _ in range(2)]
    got: list[Launch] = []
    threads = [threading.Thread(target=lambda a=a: got.append(a.add_to(machine.launch(), JAVA))) for a in agents]
    with locked(machine.root / "lock", 60):
        for thread in threads:
            thread.start()
    for thread in threads:
        thread.join()
    assert got[0] == got[1] != machine.launch()
    assert machine.dumps() == 1


@pytest.mark.parametrize(
    "change",
    [
        lambda m: os.utime(m.jars / "a.jar", ns=(1, 1)),
        lambda m: (m.jars / "c.jar").touch(),
        lambda m: (m.jars / "a.jar").unlink(),
        lambda m: m.bridge.write_bytes(b"longer"),
    ],
)
def test_a_changed_jar_asks_for_another(machine: Machine, change: Callable[[Machine], object]) -> None:
    agent = machine.agent()
    before = agent.add_to(machine.launch(), JAVA)
    change(machine)
    assert agent.add_to(machine.launch(), JAVA) != before
    assert machine.dumps() == 2


def test_every_part_of_the_key_counts(machine: Machine) -> None:
    stamps = jar_stamps(machine.bridge, machine.jars)
    assert [Path(path).name for path, _, _ in stamps[:1]] == ["bridge.jar"]
    assert {Path(path).name for path, _, _ in stamps[1:]} == {"a.jar", "b.jar"}
    plain = archive_key(stamps, "java", b"list", 1)
    others = {
        archive_key(stamps[::-1], "java", b"list", 1),
        archive_key(stamps, "other", b"list", 1),
        archive_key(stamps, "java", b"lists", 1),
        archive_key(stamps, "java", b"list", 2),
    }
    assert len(others | {plain}) == 5


@pytest.mark.parametrize("path", ["/x.jar", "/x/*", "/mine:/b.jar:/s/*", "/b.jar:/s/*:/c.jar", "b.jar:/s/*", "/b:/s/*", ""])
def test_another_class_path_has_none(machine: Machine, path: str) -> None:
    assert class_path_of(["java", "-cp", path, "-Xmx1m"]) is None
    assert class_path_of(["java", "-cp", "/b.jar:/s/jars/*", "-Xmx1m"]) == "/b.jar:/s/jars/*"
    if path:
        assert machine.agent().add_to(machine.launch(path), JAVA) == machine.launch(path)
    assert machine.programs == []


def test_a_heap_of_32_gib_has_none(machine: Machine) -> None:
    for heap, made in (("-Xmx32768m", False), ("-Xmx32767m", True)):
        launch = machine.launch(heap=heap)
        assert (machine.agent().add_to(launch, JAVA) != launch) is made


def test_a_small_grant_makes_none_but_uses_one(machine: Machine) -> None:
    small = machine.launch(cores=0.1)
    agent = machine.agent()
    assert agent.add_to(small, JAVA) == small
    agent.add_to(machine.launch(), JAVA)
    assert agent.add_to(small, JAVA) != small
    assert machine.dumps() == 1


def _nothing(program: Program) -> None:
    """Stand for a java that writes no archive."""


def _refused(program: Program) -> None:
    raise RuntimeRefused("java does not run")


def _linked(program: Program) -> None:
    if "-Xshare:dump" in program.argv:
        archive_of(program).symlink_to("/etc/passwd")


def _unusable(program: Program) -> None:
    if "-Xshare:dump" not in program.argv:
        raise RuntimeRefused("java does not run in image x (Unable to use shared archive)")
    archive_of(program).write_bytes(b"archive")


@pytest.mark.parametrize("java", [_nothing, _refused, _linked, _unusable])
def test_a_failure_is_one_note_and_no_archive(
    machine: Machine, java: Callable[[Program], None], caplog: pytest.LogCaptureFixture
) -> None:
    machine.java = java
    agent = machine.agent()
    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert agent.add_to(machine.launch(), JAVA) == machine.launch()
    assert machine.dumps() == 1
    assert len(caplog.records) == 1
    machine.java = machine.dump
    assert machine.agent().add_to(machine.launch(), JAVA) != machine.launch()
    assert [path.suffix for path in machine.archives()[0].parent.iterdir()] == [".jsa"], "what was left is gone"


def test_jars_that_are_not_there_are_a_failure_too(machine: Machine) -> None:
    launch = machine.launch(f"{machine.bridge}:{machine.folder}/none/*")
    assert machine.agent().add_to(launch, JAVA) == launch


def test_a_damaged_archive_is_made_again(machine: Machine, caplog: pytest.LogCaptureFixture) -> None:
    agent = machine.agent()
    agent.add_to(machine.launch(), JAVA)
    (archive,) = machine.archives()
    archive.write_bytes(b"ARCHIVE 1")
    agent.add_to(machine.launch(), JAVA)
    assert machine.dumps() == 2
    assert archive.name in caplog.text
    assert machine.archives() != [archive]


def test_one_of_another_user_is_not_used(machine: Machine) -> None:
    launch = machine.launch()
    machine.agent().add_to(launch, JAVA)
    other = replace(launch, uid=launch.uid + 1)
    got = machine.agent().add_to(other, JAVA)
    assert str(machine.archives()[0]) not in " ".join(got.argv)


def test_the_oldest_go(machine: Machine) -> None:
    agent = machine.agent()
    made: list[Path] = []
    for n in range(KEPT + 2):
        agent.add_to(machine.launch(), JavaProgram(JAVA.program, f"java {n}"))
        (new,) = {*machine.archives()} - {*made}
        os.utime(new, (n, n))
        made.append(new)
    assert {*machine.archives()} == {*made[-KEPT:]}
