"""A machine that differs from the master's does not join: one sentence names what differs and where it is mended, and neither
side keeps anything of it. The forms of the sentences are `test_join_faults`'."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from controller.asks.join_token import JoinToken
from controller.home import Home
from controller.local.joining import Joining, join_cluster
from controller.master.access.join_tokens import JoinTokens
from stage_model.errors import OtherVersion
from tests.controller.local.test_joining import assert_nothing_left, make_token, wanted
from tests.fakes.master import serving
from tests.fakes.options import agent_options
from tests.fakes.refusals import assert_names, refused
from tests.fakes.served import ServedMaster, threaded


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Provide the home of a worker, which does not exist yet."""
    return Home(tmp_path / "worker")


@contextmanager
def served(path: Path, greets_at: str = "127.0.0.1") -> Iterator[ServedMaster]:
    made = ServedMaster(path, greets_at=greets_at)
    with closing(made.cluster.state), threaded(made.server, made.listening):
        yield made


def the_fault(master: ServedMaster, home: Home) -> str:
    """Return the only fault with which a worker does not join; check that neither side keeps anything of the try."""
    token = make_token(master)
    [fault] = join_cluster(wanted(master, home, token), start=False)
    assert_nothing_left(master, home)
    assert JoinTokens(master.home.join_tokens).listed()[token.token_id].workers == ()
    return fault


def write_program(path: Path, *lines: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(("#!/bin/sh", *lines, "")))
    path.chmod(0o755)
    return path


@pytest.mark.parametrize(
    ("missing", "version", "named"),
    [
        ("", "3.9", ("python3 is Python 3.9 here", "Python 3.11 on the master's machine")),
        ("python3", "3.11", ("the same environment at that path here",)),
        ("jdk", "3.11", ("the JDK of the master's machine", "install the same JDK at that path here")),
        ("spark", "3.11", ("the Spark of the master's machine", "install the same Spark at that path here")),
    ],
)
def test_another_python_no_java_and_no_spark_are_named_with_their_paths(
    home: Home, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: str, version: str, named: tuple[str, ...]
) -> None:
    """The master's machine looks first, and its last look is at its Python, which takes away what the other one lacks."""
    place = tmp_path / "programs"
    asked = place / "asked"
    away = f"mv {place / missing} {place}/away" if missing else ":"
    python = write_program(
        place / "python3", f"if [ -e {asked} ]; then echo {version}; exit; fi", f": >{asked}", away, "echo 3.11"
    )
    write_program(place / "jdk" / "bin" / "java", "echo 'openjdk version \"17.0.1\"' >&2")
    write_program(place / "spark" / "bin" / "spark-submit")
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    monkeypatch.setenv("JAVA_HOME", str(place / "jdk"))
    monkeypatch.setenv("SPARK_HOME", str(place / "spark"))
    with served(tmp_path / "master") as master:
        assert_names(the_fault(master, home), place / (missing or "python3"), *named)


def test_a_machine_that_does_not_reach_drivers_is_refused_though_it_reaches_the_master(home: Home, tmp_path: Path) -> None:
    with served(tmp_path / "master", greets_at="127.0.0.3") as master:
        assert_names(the_fault(master, home), "does not reach 127.0.0.1 at port", "the firewall of the master's machine")


def joining_elsewhere(home: Home, url: str) -> Joining:
    return Joining(home, agent_options(home.path, master_url=url), JoinToken("0a1b2c3d", "s" * 43, "f" * 64), (), "")


def test_a_master_of_another_version_is_named_with_both_versions(home: Home, tmp_path: Path) -> None:
    with serving(Home(tmp_path)) as other:
        other.speaks = "3"
        with refused(OtherVersion, other.url, "'3'", "'1'", "same release"):
            join_cluster(joining_elsewhere(home, other.url), start=False)
    assert not home.path.exists()


def test_a_master_of_a_release_that_no_one_could_join_is_named(home: Home, tmp_path: Path) -> None:
    with serving(Home(tmp_path)) as other:
        other.refuse = 404, b"{}"
        with refused(OtherVersion, other.url, "without `sparkpace join`", "install this one's release there"):
            join_cluster(joining_elsewhere(home, other.url), start=False)
    assert not home.path.exists()
