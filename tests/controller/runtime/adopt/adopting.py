"""Executors to adopt, an ordinary user in this user's place, and the control files of a group, for tests of adopting."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from pathlib import Path

from controller.runtime.base import Adoption
from controller.runtime.cgroup.group import Group
from stage_model.errors import RuntimeRefused
from tests.controller.runtime.rigs import IDLE, KEY, AdoptRig


def adoption(rig: AdoptRig, program: str = IDLE) -> Adoption:
    claim = rig.spawn(program)
    rig.let_begin()
    return Adoption(KEY, claim, rig.SERVES, 0.5)


def said_to_an_ordinary_user(act: Callable[[], object]) -> str:
    """Return the result of `act`, or its refusal, in a process of the user `nobody`."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # other threads of this process: the child needs none of them
        receiving, sending = os.pipe()
        child = os.fork()
    if child == 0:
        try:
            os.setgroups([])
            os.setgid(65_534)
            os.setuid(65_534)
            os.write(sending, str(act()).encode())
        except RuntimeRefused as error:
            os.write(sending, f"{type(error).__name__}: {error}".encode())
        finally:
            os._exit(0)
    os.close(sending)
    with os.fdopen(receiving) as said:
        text = said.read()
    os.waitpid(child, 0)
    return text


def control_files(group: Group) -> dict[Path, str]:
    """Return what every file that could be written in a group and below it says, and which groups there are."""
    paths = [path for directory in group.directories() for path in (directory, *directory.rglob("*"))]
    # CPU that was used counts in a file that may be written, too
    texts = {path: "" for path in paths if path.is_dir()}
    files = (path for path in paths if path.is_file() and not path.name.startswith("cpuacct.usage"))
    return texts | {path: path.read_text() for path in files if path.stat().st_mode & 0o600 == 0o600}
