"""Which paths of its host a runtime with a file system of its own may show to executors, as far as their names tell. Pure.

The agent looks at what they lead to, too (`controller.agent.launch`).
"""

from __future__ import annotations

from pathlib import PurePosixPath

SYSTEM_ROOTS = ("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/run", "/sbin", "/sys", "/usr", "/var")
WHOLE = (
    "is not allowed: executors never see a directory of the system whole; accepted: one below it, for the directory of "
    "submission, too"
)


def no_mount_name(path: str) -> str:
    """The end of a sentence about a path that no mount can have; empty: it can be one."""
    name = PurePosixPath(path)
    if name.is_absolute() and not path.startswith("//") and ".." not in name.parts and ":" not in path:
        return ""
    return "is not allowed; accepted: an absolute path without '..' and ':'"


def not_shown(path: str) -> str:
    """The same about a path that nobody asked for by name, as the directory of submission."""
    return no_mount_name(path) or (WHOLE if str(PurePosixPath(path)) in SYSTEM_ROOTS else "")
