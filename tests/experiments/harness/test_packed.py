"""A folder's data as one archive: the same data are the same bytes; a bad archive is refused and writes nothing elsewhere."""

from __future__ import annotations

import lzma
import os
import tarfile
from io import BytesIO
from pathlib import Path

import pytest

from experiments.harness import packed
from experiments.harness.packed import pack, unpack
from stage_model.errors import BadInput

FILES = {"rows.jsonl": b'{"a": 1}\n', "runs/app-1/samples.csv": b"1,2\n", "runs/app-2/samples.csv": b"\x00\xff" * 999}
NAMES = ("runs", "none", "rows.jsonl")


def filled(folder: Path, names: list[str]) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(FILES[name])
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def xz(*members: tuple[tarfile.TarInfo, bytes]) -> bytes:
    content = BytesIO()
    with tarfile.open(fileobj=content, mode="w") as tar:
        for member, data in members:
            member.size = len(data)
            tar.addfile(member, BytesIO(data))
    return lzma.compress(content.getvalue())


def member(name: str, kind: bytes = tarfile.REGTYPE, target: str = "", path: str = "") -> tarfile.TarInfo:
    made = tarfile.TarInfo(name)
    made.type, made.linkname = kind, target
    if path:
        made.pax_headers = {"path": path}
    return made


def test_the_same_data_are_the_same_bytes_whoever_packs_them_where_and_when(tmp_path: Path) -> None:
    one, other = filled(tmp_path / "one", list(FILES)), filled(tmp_path / "deep" / "other", list(reversed(FILES)))
    os.utime(other / "rows.jsonl", (1, 1))
    (other / "rows.jsonl").chmod(0o600)
    pack(one, NAMES, tmp_path / "one.tar.xz")
    pack(other, NAMES[::-1], tmp_path / "other.tar.xz")
    assert (tmp_path / "one.tar.xz").read_bytes() == (tmp_path / "other.tar.xz").read_bytes()
    with tarfile.open(tmp_path / "one.tar.xz") as tar:
        assert [(m.name, m.mtime, m.uid, m.gid, m.uname, m.gname) for m in tar] == [(n, 0, 0, 0, "", "") for n in FILES]


def test_what_was_named_comes_back_and_nothing_else(tmp_path: Path) -> None:
    folder = filled(tmp_path / "folder", list(FILES))
    (folder / "home").mkdir()
    (folder / "home" / "token").write_text("secret")
    pack(folder, NAMES, tmp_path / "a")
    unpack(tmp_path / "a", tmp_path / "into")
    assert contents(tmp_path / "into") == FILES


def test_an_archive_cut_off_anywhere_is_one_sentence(tmp_path: Path) -> None:
    pack(filled(tmp_path / "folder", list(FILES)), NAMES, tmp_path / "a")
    whole = (tmp_path / "a").read_bytes()
    for length in range(len(whole)):
        (tmp_path / "a").write_bytes(whole[:length])
        with pytest.raises(BadInput, match=r"/a .*\(.+\)"):
            unpack(tmp_path / "a", tmp_path / "into")
    assert not (tmp_path / "into").exists()


@pytest.mark.parametrize(
    "archive",
    [
        xz((member("../outside"), b"x")),
        xz((member("link", tarfile.SYMTYPE, ".."), b""), (member("link/outside"), b"x")),
        xz((member("link", tarfile.SYMTYPE, "here"), b"")),
        xz((member("link", tarfile.LNKTYPE, "../secret"), b"")),
        xz((member("pipe", tarfile.FIFOTYPE), b"")),
        xz((member("short", path="a\0b"), b"x")),
        xz((member("runs"), b"x"), (member("runs/samples.csv"), b"x")),
        lzma.compress(b"no tar" * 500),
        b"no xz",
    ],
    ids=["above", "through a link", "link", "hard link", "pipe", "null", "file as folder", "no tar", "no xz"],
)
def test_a_hostile_archive_is_one_sentence_and_nothing_leaves_its_folder(tmp_path: Path, archive: bytes) -> None:
    (tmp_path / "secret").write_text("secret")
    (tmp_path / "a").write_bytes(archive)
    (tmp_path / "into").mkdir()
    with pytest.raises(BadInput, match=r"/a .*\(.+\)"):
        unpack(tmp_path / "a", tmp_path / "into")
    assert {path.name for path in tmp_path.iterdir()} == {"secret", "a", "into"}
    assert (tmp_path / "secret").stat().st_nlink == 1


def test_a_path_from_the_root_stays_in_the_folder(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(xz((member(f"{tmp_path}/outside"), b"x")))
    unpack(tmp_path / "a", tmp_path / "into")
    assert not (tmp_path / "outside").exists()


def test_what_is_too_large_is_neither_packed_nor_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = filled(tmp_path / "folder", list(FILES))
    pack(folder, NAMES, tmp_path / "a")
    monkeypatch.setattr(packed, "LARGEST", 5000)
    with pytest.raises(BadInput, match=r"\d+ bytes.* 5000"):
        pack(folder, NAMES, tmp_path / "b")
    assert not (tmp_path / "b").exists()
    with pytest.raises(BadInput, match="5000 bytes"):
        unpack(tmp_path / "a", tmp_path / "into")
