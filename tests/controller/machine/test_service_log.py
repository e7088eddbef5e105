"""Services' logs stay small with any number of writers."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

from controller.machine.log_files import LARGEST, keep_small
from controller.machine.service_log import MOST_MESSAGES, REPEATED_S, Seldom
from controller.machine.waiting import wait_until
from tests.fakes.options import agent_options

LARGEST_HERE = 1000
WRITER = f"""
import logging, os, sys
from pathlib import Path
from controller.machine.service_log import log_to_stderr
log_to_stderr(Path(sys.argv[1]), largest={LARGEST_HERE})
for number in range(100):
    logging.getLogger("x").warning("%s %03d", sys.argv[2], number)
    os.write(2, b"raw\\n")
"""


def test_a_log_that_is_too_large_is_put_aside_twice_and_then_goes(tmp_path: Path) -> None:
    log = tmp_path / "master.log"
    with log.open("ab", 0) as out:
        for number in range(4):
            out.write(b"%d" % number * (LARGEST_HERE + 1))
            keep_small(tmp_path, out.fileno(), LARGEST_HERE)
    assert log.read_text() == f"what was said before is in {log}.1\n"
    assert (tmp_path / "master.log.1").read_text().endswith("3" * (LARGEST_HERE + 1))
    assert (tmp_path / "master.log.2").read_text().endswith("2" * (LARGEST_HERE + 1))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["master.log", "master.log.1", "master.log.2"]
    assert (tmp_path / "master.log.1").stat().st_mode & 0o777 == 0o600


def test_only_a_log_of_the_homes_is_touched(tmp_path: Path) -> None:
    (tmp_path / "logs").mkdir()
    elsewhere = tmp_path / "an-admins.log"
    with elsewhere.open("ab", 0) as out:
        out.write(b"x" * (LARGEST_HERE + 1))
        keep_small(tmp_path / "logs", out.fileno(), LARGEST_HERE)
    with (tmp_path / "logs" / "overwritten").open("wb", 0) as out:  # emptied, it would have a hole
        out.write(b"x" * (LARGEST_HERE + 1))
        keep_small(tmp_path / "logs", out.fileno(), LARGEST_HERE)
    assert {path.stat().st_size for path in (elsewhere, tmp_path / "logs" / "overwritten")} == {LARGEST_HERE + 1}
    assert [path.name for path in (tmp_path / "logs").iterdir()] == ["overwritten"]


def test_where_no_copy_can_be_made_the_log_is_emptied_all_the_same(tmp_path: Path) -> None:
    (tmp_path / ".master.log.1").mkdir()
    with (tmp_path / "master.log").open("ab", 0) as out:
        out.write(b"x" * (LARGEST_HERE + 1))
        keep_small(tmp_path, out.fileno(), LARGEST_HERE)
    assert (tmp_path / "master.log").stat().st_size < 200


def test_processes_that_share_a_log_keep_it_small_together(tmp_path: Path) -> None:
    log, names = tmp_path / "agent-w1.log", ("one", "two", "three", "four")
    with log.open("ab") as out:
        writers = [subprocess.Popen((sys.executable, "-c", WRITER, str(tmp_path), name), stderr=out) for name in names]
        assert [writer.wait(60) for writer in writers] == [0] * len(names)
    sizes = [path.stat().st_size for path in (log, tmp_path / "agent-w1.log.1", tmp_path / "agent-w1.log.2")]
    # a line of each writer, and what it writes itself, may come before the next look
    assert max(sizes) < LARGEST_HERE + 800
    logged = "".join(path.read_text() for path in tmp_path.iterdir())
    assert any(f"{name} 099" in logged for name in names)
    assert len(list(tmp_path.iterdir())) == 3


def test_a_supervisor_looks_after_the_log_when_no_child_lives_to_do_so(tmp_path: Path) -> None:
    """The child dies at once, and says so each time in many words."""
    logs = tmp_path / "logs"
    logs.mkdir()
    options = agent_options(tmp_path)
    said = f"import sys; sys.stderr.write('x' * {LARGEST + 1})"
    program = f"""
import sys
from controller.agent.supervisor import Supervisor
from controller.asks.options import AgentOptions
options = AgentOptions.from_json(sys.stdin.buffer.read())
Supervisor(options, child=(sys.executable, "-c", {said!r}), opener=("true",)).run()
"""
    log = logs / "agent-w1.log"
    with log.open("ab") as out:
        supervisor = subprocess.Popen((sys.executable, "-c", program), stdin=subprocess.PIPE, stderr=out)
    try:
        assert supervisor.stdin is not None
        supervisor.stdin.write(options.to_json())
        supervisor.stdin.close()
        assert wait_until((logs / "agent-w1.log.2").exists, 60, 0.05)
        assert (logs / "agent-w1.log.1").stat().st_size > LARGEST
    finally:
        supervisor.terminate()
        supervisor.wait(60)
    assert log.stat().st_size <= 2 * LARGEST


def test_what_a_library_repeats_is_said_once_a_minute() -> None:
    seldom = Seldom()

    def said(at_s: float, text: str, *words: object) -> str | None:
        record = logging.LogRecord("uvicorn.error", logging.WARNING, "", 1, text, words, None)
        record.created = at_s
        return record.getMessage() if seldom.filter(record) else None

    assert said(100, "bad %s", "a") == "bad a"
    assert [said(100 + number, "bad %s", number) for number in range(1, 50)] == [None] * 49
    assert said(110, "worse") == "worse"
    assert said(100 + REPEATED_S, "bad %s", "b") == "bad b (49 more like this were left out)"
    assert said(100 - REPEATED_S, "bad %s", "c") == "bad c", "the clock was set back"


def test_of_messages_that_differ_each_time_only_so_many_are_remembered() -> None:
    seldom = Seldom()
    for number in range(3 * MOST_MESSAGES):
        assert seldom.filter(logging.LogRecord("asyncio", logging.ERROR, "", 1, f"bad {number}", (), None))
    assert len(seldom._said) <= MOST_MESSAGES
