"""A result folder's data as one file, `data.tar.xz`: few files in a repository, and the same bytes for the same data.

Not covered: which files are data (`result_folder`).
"""

from __future__ import annotations

import lzma
import tarfile
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import IO

from stage_model.errors import BadInput

ARCHIVE = "data.tar.xz"
LARGEST = 2**30
"""Unpacked bytes that an archive may have. An archive that claims more is taken for a trap."""


def pack(folder: Path, names: Sequence[str], archive: Path) -> None:
    """Write `archive` from these files and folders of `folder`; missing ones are left out. Raise `BadInput` for more than
    `LARGEST` bytes."""
    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for path in sorted(path for name in names for path in (folder / name, *(folder / name).rglob("*")) if path.is_file()):
            # Time, owner and mode keep the first values of `TarInfo`, because those of the files are this machine's and no
            # data.
            member = tarfile.TarInfo(path.relative_to(folder).as_posix())
            data = path.read_bytes()
            member.size = len(data)
            tar.addfile(member, BytesIO(data))
    if content.tell() >= LARGEST:
        raise BadInput(f"{folder} has {content.tell()} bytes of data; at most {LARGEST} can be packed")
    archive.write_bytes(lzma.compress(content.getvalue()))


def unpack(archive: Path, into: Path) -> None:
    """Unpack `archive`. Raise `BadInput` for one that `pack` never makes: cut off, larger than `LARGEST`, with anything but
    files below `into`."""
    try:
        reader = lzma.LZMADecompressor(lzma.FORMAT_XZ)
        content = reader.decompress(archive.read_bytes(), LARGEST)
        if not reader.eof:
            raise lzma.LZMAError(f"it is cut off, or has more than {LARGEST} bytes")
        with tarfile.open(fileobj=BytesIO(content), mode="r:") as tar:
            # A link is the usual way out of the folder, and a packed folder needs no link.
            if other := [member.name for member in tar if not member.isreg()]:
                raise tarfile.TarError(f"{other[0]!r} is no plain file")
            for member in tar:
                _write(into, member.name, tar.extractfile(member))
    except (OSError, ValueError, lzma.LZMAError, tarfile.TarError) as problem:
        raise BadInput(
            f"{archive} cannot be unpacked ({problem}); give one that `python -m experiments pack` made"
        ) from problem


def _write(into: Path, name: str, content: IO[bytes] | None) -> None:
    """Write one member as a plain file: `extractall` has a filter for this only since Python 3.11.4. Raise `TarError` for a
    name that leads out of the folder."""
    path = into / name.lstrip("/")
    if content is None or ".." in path.parts:
        raise tarfile.TarError(f"{name!r} leads out of the folder")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.read())
