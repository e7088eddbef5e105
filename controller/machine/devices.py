"""The block device that holds a folder, as the kernel's `/sys/dev/block` shows it."""

from __future__ import annotations

import os
from pathlib import Path

from stage_model.errors import Unavailable

BLOCK_DEVICES = Path("/sys/dev/block")


def whole_device(folder: Path) -> str:
    """Return the number "MAJOR:MINOR" of the whole device that holds `folder`, or its nearest folder that is there: a
    partition has no rates of its own. Raise `Unavailable` for a file system without a block device of its own."""
    there = next(path for path in (folder, *folder.absolute().parents) if path.exists())
    number = there.stat().st_dev
    known = BLOCK_DEVICES / f"{os.major(number)}:{os.minor(number)}"
    try:
        device = known.resolve(strict=True)
        return ((device.parent if (device / "partition").exists() else device) / "dev").read_text().strip()
    except OSError:
        raise Unavailable(
            f"{folder} is on a file system without a block device of its own, such as tmpfs, NFS, overlay or btrfs, so no "
            "disk rates are set; put the home on a disk"
        ) from None
