"""Event logs in archives: as people have them, and as hostile ones are; nothing is written, and memory stays small."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import tracemalloc
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from controller.runs import eventlog_files
from controller.runs.eventlog_files import event_log_lines, read_event_log_file
from stage_model.errors import BadInput
from tests.controller.runs.test_eventlog_files import PLAIN, write, zstd
from tests.fakes.refusals import assert_names

Pack = Callable[[Mapping[str, bytes]], bytes]
PART = "eventlog_v2_app/events_{}_app"
LINES = PLAIN.splitlines(keepends=True)
PARTS = {PART.format(n): b"".join(LINES[30 * (n - 1) : 30 * n if n < 7 else None]) for n in range(1, 8)}


def zipped(files: Mapping[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    """Zip files as the History Server packs them, with an entry for each folder."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as archive:
        for folder in sorted({name.rpartition("/")[0] for name in files} - {""}):
            archive.writestr(f"{folder}/", b"")
        for name, content in files.items():
            archive.writestr(name, content)
    return made.getvalue()


def tarred(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.TarFile(fileobj=made, mode="w") as archive:
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return made.getvalue()


def tgz(files: Mapping[str, bytes]) -> bytes:
    return gzip.compress(tarred(files))


@pytest.mark.parametrize("pack", [zipped, tarred, tgz, lambda files: zstd(tarred(files))])
@pytest.mark.parametrize(
    "files",
    [
        {"app-1": PLAIN},
        {"some/folder/app-1.gz": gzip.compress(PLAIN)},
        {"./app-1.zstd": zstd(PLAIN), "./.app-1.zstd.crc": b"crc"},
        {"../../etc/app-1": PLAIN},
        {"/app-1": PLAIN},
        PARTS,
        {"eventlog_v2_app/appstatus_app": b"", **dict(sorted(PARTS.items(), reverse=True))},
        {"application_1_0001_1": LINES[0], "application_1_0001_2": PLAIN},
    ],
)
def test_an_archives_log_is_read_as_it_is_and_nothing_is_written(tmp_path: Path, pack: Pack, files: dict[str, bytes]) -> None:
    archive = write(tmp_path / "work" / "eventLogs-app-1", pack(files))
    before = sorted(tmp_path.rglob("*"))
    assert b"".join(event_log_lines(archive)) == PLAIN
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("pack", [zipped, tgz])
def test_an_archive_of_several_logs_names_them(tmp_path: Path, pack: Pack) -> None:
    archive = write(tmp_path / "logs", pack({"app-1": PLAIN, "app-2": PLAIN}))
    with pytest.raises(BadInput, match=r"/logs .*2 event logs \(app-1, app-2\)"):
        read_event_log_file(archive)
    with pytest.raises(BadInput, match="empty"):
        read_event_log_file(write(tmp_path / "empty", pack({".crc": b""})))


SPARKS = "`echo 'new org.apache.spark.io.{}CompressionCodec"


@pytest.mark.parametrize(
    ("head", "codec", "how"),
    [
        (b"LZ4Block", "lz4", SPARKS.format("LZ4")),
        (b"\x82SNAPPY\x00", "snappy", SPARKS.format("Snappy")),
        (b"ZV\x01", "lzf", SPARKS.format("LZF")),
        (b"\x04\x22\x4d\x18", "lz4 frames", "`lz4 -d LOG PLAIN`"),
        (b"BZh9", "bzip2", "`bunzip2 -k LOG`"),
        (b"\xfd7zXZ\x00", "xz", "`unxz -k LOG`"),
    ],
)
def test_what_no_library_unpacks_is_named_with_a_command_that_does(tmp_path: Path, head: bytes, codec: str, how: str) -> None:
    content = head + bytes(100)
    for path, named in (
        (write(tmp_path / "log", content), f"{tmp_path}/log"),
        (write(tmp_path / "zip", zipped({"app-1": content})), f"app-1 in {tmp_path}/zip"),
    ):
        with pytest.raises(BadInput) as refusal:
            read_event_log_file(path)
        assert_names(refusal.value, named, codec, how)


def encrypted(files: Mapping[str, bytes]) -> bytes:
    """Zip the files with a mark that says they are encrypted."""
    packed = bytearray(zipped(files))
    packed[packed.index(b"PK\x01\x02") + 8] |= 1
    return bytes(packed)


def wrong_sum(files: Mapping[str, bytes]) -> bytes:
    packed = bytearray(zipped(files))
    packed[packed.index(b"PK\x01\x02") + 16] ^= 1
    return bytes(packed)


def long_header(files: Mapping[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.TarFile(fileobj=made, mode="w", format=tarfile.PAX_FORMAT) as archive:
        info = tarfile.TarInfo("app-1")
        info.pax_headers = {"comment": "x" * (3 << 20)}
        archive.addfile(info)
    return gzip.compress(made.getvalue())


def huge_member(files: Mapping[str, bytes]) -> bytes:
    """Make an archive whose member claims a terabyte."""
    info = tarfile.TarInfo("app-1")
    info.size = 1 << 40
    return gzip.compress(info.tobuf() + PLAIN)


@pytest.mark.parametrize(
    ("pack", "sentence"),
    [
        (encrypted, "app-1 in archive .*encrypted"),
        (lambda files: zipped(files, zipfile.ZIP_BZIP2), r"\(12\)"),
        (wrong_sum, "corrupt.*Bad CRC-32"),
        (lambda files: zipped(files)[:-30], "corrupt.*File is not a zip file"),
        (lambda files: tgz(files)[:2000], "truncated"),
        (lambda files: tarred(files)[:60_000], "corrupt.*unexpected end of data"),
        (lambda files: zipped({**files, **{f"{number:060000}": b"" for number in range(40)}}), "corrupt.*2 MB"),
        (long_header, "corrupt.*2 MB"),
        (huge_member, "corrupt.*app-1 .*1099511627776 bytes"),
    ],
)
def test_damaged_and_hostile_archives_are_refused_in_one_sentence(tmp_path: Path, pack: Pack, sentence: str) -> None:
    path = write(tmp_path / "log", pack({"app-1": PLAIN}))
    with pytest.raises(BadInput, match=sentence) as refusal:
        read_event_log_file(path)
    assert str(path) in str(refusal.value)


@pytest.mark.parametrize("pack", [zipped, tgz])
def test_a_large_log_needs_little_memory(tmp_path: Path, pack: Pack) -> None:
    row = os.urandom(250).hex().encode() + b"\n"
    path = write(tmp_path / "large", pack({"app-1": row * 40_000}))
    tracemalloc.start()
    try:
        assert sum(len(line) for line in event_log_lines(path)) == 40_000 * len(row)
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("pack", [zipped, tgz, lambda files: gzip.compress(files["app-1"])])
def test_a_bomb_ends_when_it_is_too_large_for_its_file(tmp_path: Path, pack: Pack, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventlog_files, "LONGEST_LINE", 1 << 20)
    monkeypatch.setattr(eventlog_files, "LARGEST_RATIO", 100)
    path = write(tmp_path / "bomb", pack({"app-1": LINES[0] + (b" " * 999 + b"\n") * 20_000}))
    with pytest.raises(BadInput, match=r"corrupt.*(100|app-1)"):
        read_event_log_file(path)
