"""A claim of this machine, which shows if another agent adopts its executors, too, of any cluster, home or container.

The claim is flock(2) on the root of the CPU control groups, which all agents see. The kernel drops it with its holder.
Another agent is only reported: an executor that both want is paced by the first, and `adopt` reports quotas that others
write.
"""

from __future__ import annotations

import fcntl
import os

from controller.runtime.cgroup.tree import CgroupTree

NOT_ALONE = (
    "another agent with `--runtime adopt` runs on this machine; of one cluster, the one that joined first paces all "
    "executors here, and of two, each those of its own; run one agent on a machine"
)


def claim_machine(tree: CgroupTree | None = None) -> bool:
    """Claim this machine until this process ends; return False when another agent has claimed it, and True where there are no
    control groups, because claims cannot be seen there."""
    root = (tree or CgroupTree()).cpu_root()
    if root is None:
        return True
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return False
    return True
