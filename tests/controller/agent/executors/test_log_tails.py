"""An agent sends the ends of its own executors' logs, and of no other file, whatever name the master asks for."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import pytest
from msgspec import structs

from controller.agent.executors.log_tails import log_tails
from controller.agent.site import Site
from controller.master.access.bodies import LARGE
from controller.runtime.base import ExecutorKey
from controller.wire.limits import LOG_BYTES, LOGS
from controller.wire.worker import LogTail, WorkerSync
from tests.fakes.refusals import assert_names
from tests.fakes.worker import FakeWorker, site_in

SECRET = b"of another user"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return site_in(tmp_path)


def folder_of(site: Site, key: str = "app/1") -> Path:
    made = site.log_dir(ExecutorKey.parse(key))
    made.mkdir(parents=True)
    return made


def test_the_ends_of_both_files_with_their_sizes(site: Site) -> None:
    folder, long = folder_of(site), b"begin" + bytes(LOG_BYTES)
    (folder / "stdout").write_bytes(long)
    (folder / "stderr").write_bytes(b"short")
    (folder / "stderr.1").write_bytes(b"earlier output")
    files = log_tails(["app/1"], site)["app/1"]
    assert files == {"stdout": LogTail(content=bytes(LOG_BYTES), size=len(long)), "stderr": LogTail(content=b"short", size=5)}


def test_an_executor_that_has_printed_nothing_has_no_log(site: Site) -> None:
    folder_of(site)
    assert log_tails(["app/1", "app/2"], site) == {"app/1": {}, "app/2": {}}


@pytest.mark.parametrize(
    "name",
    [
        "",
        "app",
        "app/",
        "/1",
        "/",
        "../1",
        "app/..",
        "app/../1",
        "app/1/..",
        "app/1\n",
        ".app/1",
        "app/1.0",
        "app/+1",
        "a b/1",
    ],
)
def test_a_name_that_is_no_executors_leads_to_no_file(site: Site, tmp_path: Path, name: str) -> None:
    for folder in (tmp_path, site.run_root, site.run_root / "app", site.run_root / "app" / "executors", folder_of(site)):
        (folder / "stdout").write_bytes(SECRET)
    assert log_tails([name], site) == {name: {}}


def test_a_link_or_a_pipe_in_the_place_of_a_log_is_named_and_not_followed(site: Site, tmp_path: Path) -> None:
    folder, secret = folder_of(site), tmp_path / "secret"
    secret.write_bytes(SECRET)
    (folder / "stdout").symlink_to(secret)
    os.mkfifo(folder / "stderr")
    files = log_tails(["app/1"], site)["app/1"]
    assert [(tail.content, tail.size) for tail in files.values()] == [(b"", 0)] * 2
    for name, tail in files.items():
        assert_names(tail.problem, folder / name, "plain file")


def test_what_a_report_takes_is_bounded_and_read_by_the_master(site: Site, tmp_path: Path) -> None:
    wanted = [f"app/{number}" for number in range(LOGS + 1)]
    for key in wanted:
        folder = folder_of(site, key)
        for name in ("stdout", "stderr"):
            (folder / name).write_bytes(b"\xff" * (LOG_BYTES + 1))
    worker = FakeWorker(tmp_path)
    worker.want()
    worker.agent.receive(structs.replace(worker.agent.desired, logs=tuple(wanted)), worker.now_s)
    reported = msgspec.json.encode(worker.tick())
    assert len(reported) < LARGE[WorkerSync] // 8
    logs = msgspec.json.decode(reported, type=WorkerSync).logs
    assert logs is not None
    assert list(logs) == wanted[:LOGS]
    worker.want()
    assert worker.tick().logs == {}, "an agent of this release says that it could"
