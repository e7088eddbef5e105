"""The rule for names of paths that a container may show to executors. Pure.

Not covered: what a path leads to, which the agent checks (`controller.agent.executors.launch`).
"""

from __future__ import annotations

from pathlib import PurePosixPath

SYSTEM_ROOTS = ("/", "/bin", "/boot", "/dev", "/etc", "/lib", "/proc", "/run", "/sbin", "/sys", "/usr", "/var")
WHOLE = "is not allowed: executors never see a whole system directory; use one below it, also as the directory of submission"


def no_mount_name(path: str) -> str:
    """Return the reason why a path cannot be a mount, as the end of a sentence about it; empty if it can."""
    name = PurePosixPath(path)
    if name.is_absolute() and not path.startswith("//") and ".." not in name.parts and ":" not in path:
        return ""
    return "is not allowed; give an absolute path without '..' and ':'"


def not_shown(path: str) -> str:
    """Return the same for a path that the user did not ask for by name, such as the directory of submission."""
    return no_mount_name(path) or (WHOLE if str(PurePosixPath(path)) in SYSTEM_ROOTS else "")
