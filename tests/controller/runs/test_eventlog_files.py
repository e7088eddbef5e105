from __future__ import annotations

import gzip
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from controller.runs import eventlog_files
from controller.runs.eventlog_files import event_log_lines, read_event_log_file
from stage_model.errors import BadInput

LOGS = Path(__file__).parents[2] / "data" / "eventlogs"
PLAIN = gzip.decompress((LOGS / "spark43.gz").read_bytes())
ZSTD = (LOGS / "eventlog_v2_golden" / "events_1_golden.zstd").read_bytes()


def write(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def test_plain_gzip_and_zstd_are_recognised_by_content_under_any_name(tmp_path: Path) -> None:
    plain = read_event_log_file(write(tmp_path / "app-1", PLAIN)).record()
    assert read_event_log_file(write(tmp_path / "app-2.zstd", gzip.compress(PLAIN))).record() == plain
    assert read_event_log_file(write(tmp_path / "log", ZSTD)).record().complete


def test_rolling_parts_are_read_in_order_of_their_numbers(tmp_path: Path) -> None:
    lines = PLAIN.splitlines(keepends=True)
    folder = tmp_path / "eventlog_v2_app"
    for number in range(1, 12):  # 10 comes after 9, not after 1
        part = lines[(number - 1) * 20 : number * 20 if number < 11 else None]
        write(folder / f"events_{number}_app", b"".join(part))
    write(folder / "appstatus_app", b"")
    write(folder / ".events_1_app.crc", b"crc")
    assert b"".join(event_log_lines(folder)) == PLAIN
    assert read_event_log_file(folder).record().complete
    (folder / "events_7_app").unlink()
    with pytest.raises(BadInput, match="part 7"):
        read_event_log_file(folder)


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (ZSTD[: len(ZSTD) // 2], "truncated.* SparkListenerApplicationEnd"),
        (gzip.compress(PLAIN)[:5000], "truncated"),
        (ZSTD[:5000] + b"\0" * 500 + ZSTD[5500:], "corrupt"),
        (gzip.compress(PLAIN)[:-8] + b"\0" * 8, "corrupt"),
        (b"", "truncated"),
        (bytes(range(256)), "no Spark event log"),
    ],
)
def test_damaged_and_foreign_files_are_refused_by_name(tmp_path: Path, content: bytes, sentence: str) -> None:
    path = write(tmp_path / "app-1", content)
    with pytest.raises(BadInput, match=sentence) as refusal:
        read_event_log_file(path)
    assert str(path) in str(refusal.value)


def test_what_is_no_log_at_all_is_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "nowhere", tmp_path / "empty", tmp_path / "pipe"):
        with pytest.raises(BadInput, match=str(path)):
            read_event_log_file(path)


def test_a_folder_of_several_logs_names_them_and_nothing_else(tmp_path: Path) -> None:
    shutil.copytree(LOGS / "eventlog_v2_golden", tmp_path / "eventlog_v2_golden")
    write(tmp_path / "README.md", b"Logs of last week.")
    assert read_event_log_file(tmp_path).record().complete
    write(tmp_path / "spark43.gz", gzip.compress(PLAIN))
    write(tmp_path / "local-1.inprogress", PLAIN[:5000])
    with pytest.raises(BadInput, match=r"3 event logs \(eventlog_v2_golden, local-1.inprogress, spark43.gz\)"):
        read_event_log_file(tmp_path)


def test_the_files_of_databricks_are_one_log(tmp_path: Path) -> None:
    lines = [line for line in PLAIN.splitlines(keepends=True) if b"LogStart" not in line and b"ApplicationEnd" not in line]
    packs: dict[str, Callable[[bytes], bytes]] = {
        "eventlog-2026-11-25--23-00.gz": gzip.compress,
        "eventlog-2026-11-26--00-00.gz": gzip.compress,
        "eventlog": bytes,
    }
    for number, (name, pack) in enumerate(packs.items()):
        mark = b'{"Event":"DBCEventLoggingListenerMetadata","Rollover Number":%d}\n' % number
        write(tmp_path / name, pack(mark + b"".join(lines[100 * number : 100 * (number + 1)])))
    assert read_event_log_file(tmp_path).record().complete
    (tmp_path / "eventlog-2026-11-25--23-00.gz").unlink()
    with pytest.raises(BadInput, match=r"Databricks .* 0"):
        read_event_log_file(tmp_path)


def zstd(content: bytes) -> bytes:
    """Return the bytes as one zstd frame of raw blocks (RFC 8878), of any length: no compressor needed."""
    blocks = [content[i : i + 0x10000] for i in range(0, len(content), 0x10000)]
    headers = [(len(block) << 3 | (i == len(blocks) - 1)).to_bytes(3, "little") for i, block in enumerate(blocks)]
    return b"\x28\xb5\x2f\xfd\x00\x38" + b"".join(h + b for h, b in zip(headers, blocks, strict=True))


@pytest.mark.parametrize("pack", [bytes, gzip.compress, zstd])
def test_an_endless_line_is_refused(tmp_path: Path, pack: Callable[[bytes], bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(eventlog_files, "LONGEST_LINE", 1 << 20)
    path = write(tmp_path / "bomb", pack(PLAIN.splitlines(keepends=True)[0] + b" " * (8 << 20)))
    with pytest.raises(BadInput, match=r"line 2 .*1 MB"):
        read_event_log_file(path)
