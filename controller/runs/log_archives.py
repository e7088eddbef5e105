"""The streams that the event log in a file consists of: the file itself, or files in a zip or a tar; all are read unpacked.

Archives are other people's files. Nothing is unpacked to disk, no name in them is used as a path, and the data in memory are
bounded: their list of files, and one block. Not covered: which files of an archive are the log (`log_names`).
"""

from __future__ import annotations

import gzip
import io
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import BinaryIO, cast

from controller.runs.log_names import one_log
from stage_model.errors import BadInput

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

UNPACKABLE = (
    *(zlib.error, zstd.ZstdError, gzip.BadGzipFile, zipfile.BadZipFile, tarfile.TarError, struct.error),
    *(ValueError, LookupError, OverflowError, RuntimeError),
)
"""Errors of damaged and hostile files; files that are cut off raise `EOFError`."""
LARGEST_LIST = 2 * 1024 * 1024
"""Size in bytes of an archive's list of files: ten thousand names in a zip, a thousand files in a tar."""
_ZIPS = (b"PK\x03\x04", b"PK\x05\x06")
_TAR_AT, _TAR = 257, b"ustar"
_METHODS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_WITH_SPARK = (
    "`echo 'new org.apache.spark.io.{codec}CompressionCodec(sc.getConf)"
    '.compressedInputStream(new java.io.FileInputStream("LOG")).transferTo(new java.io.FileOutputStream("PLAIN"))'
    "' | spark-shell --master local`, or let Spark write zstd (spark.eventLog.compression.codec=zstd)"
)
_CODECS = {
    b"LZ4Block": ("lz4", _WITH_SPARK.format(codec="LZ4")),
    b"\x82SNAPPY\x00": ("snappy", _WITH_SPARK.format(codec="Snappy")),
    b"ZV": ("lzf", _WITH_SPARK.format(codec="LZF")),
    b"\x04\x22\x4d\x18": ("lz4 frames", "`lz4 -d LOG PLAIN`"),
    b"BZh": ("bzip2", "`bunzip2 -k LOG`"),
    b"\xfd7zXZ\x00": ("xz", "`unxz -k LOG`"),
}
"""First bytes of files that are not read here, their codec, and a command that unpacks them. No library on PyPI reads the
blocks that Spark writes with the first three."""
_GZIP, _ZSTD = b"\x1f\x8b", b"\x28\xb5\x2f\xfd"
_LONGEST_MARK = 8
HEAD = _TAR_AT + len(_TAR)
"""Number of first bytes that show the kind of a file."""


def is_log_like(head: bytes) -> bool:
    """Return True if a file with these first `HEAD` bytes may be an event log, packed or not."""
    return head.startswith((b'{"Event"', _GZIP, _ZSTD, *_ZIPS, *_CODECS)) or head[_TAR_AT:] == _TAR


def log_streams(file: io.BufferedReader, source: str, most: int) -> Iterator[BinaryIO]:
    """Yield the parts of the log in a file, in order. `most`: bytes that an archive may hold.

    Raises `BadInput`: packed in a way that is not read here, or no archive of one log; else one of `UNPACKABLE`.
    """
    if file.peek(_LONGEST_MARK).startswith(_ZIPS):
        members = _in_zip(file, source)
    else:
        stream = _unpacked(file, source)
        head = stream.read(HEAD)
        stream.seek(0)
        if head[_TAR_AT:] != _TAR:
            yield stream
            return
        members = _in_tar(stream, most)
    for name in one_log(members, f"archive {source}", how="unpack it and name one of them"):
        yield _unpacked(members[name](), f"{name} in {source}")


def _unpacked(stream: io.BufferedReader, source: str) -> BinaryIO:
    head = stream.peek(_LONGEST_MARK)
    if head.startswith(_ZSTD):
        return cast("BinaryIO", zstd.open(stream, "rb"))
    if head.startswith(_GZIP):
        return cast("BinaryIO", gzip.open(stream, "rb"))
    for mark, (codec, command) in _CODECS.items():
        if head.startswith(mark):
            raise BadInput(
                f"event log {source} is compressed with {codec}, which is not read here; decompress it by {command}"
            )
    return stream


_Members = dict[str, Callable[[], io.BufferedReader]]


class _Listed(io.BufferedReader):
    """An archive of which `left` more bytes may be read. The limit holds while its list of files is read into memory."""

    left = LARGEST_LIST

    def read(self, size: int | None = -1, /) -> bytes:
        wanted = LARGEST_LIST if size is None or size < 0 else size
        found = super().read(min(wanted, self.left + 1))
        self.left -= len(found)
        if self.left < 0:
            raise ValueError(f"its list of files is over {LARGEST_LIST >> 20} MB")
        return found


def _in_zip(file: io.BufferedReader, source: str) -> _Members:
    listed = _Listed(file)
    packed = zipfile.ZipFile(listed)
    listed.left = sys.maxsize
    return {info.filename: partial(_opened, packed, info, source) for info in packed.infolist() if not info.is_dir()}


def _opened(packed: zipfile.ZipFile, info: zipfile.ZipInfo, source: str) -> io.BufferedReader:
    if info.flag_bits & 1 or info.compress_type not in _METHODS:
        raise BadInput(
            f"{info.filename} in archive {source} is encrypted or packed by a method that is not read here "
            f"({info.compress_type}); unpack it and name the event log"
        )
    return io.BufferedReader(cast("io.BufferedIOBase", packed.open(info)), 1 << 16)


def _in_tar(stream: BinaryIO, most: int) -> _Members:
    listed = _Listed(cast("io.BufferedIOBase", stream))
    packed = tarfile.TarFile(fileobj=listed)
    members: _Members = {}
    for info in packed:
        if not 0 <= info.size <= most - info.offset_data:
            raise ValueError(f"{info.name} cannot have {info.size} bytes")
        if info.isreg() and not info.issparse():
            members[info.name] = partial(_extracted, packed, info)
    listed.left = sys.maxsize
    return members


def _extracted(packed: tarfile.TarFile, info: tarfile.TarInfo) -> io.BufferedReader:
    return cast("io.BufferedReader", packed.extractfile(info))
