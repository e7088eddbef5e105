"""A child that ends with its parent, however that ends: prctl(2), PR_SET_PDEATHSIG. Linux only."""

from __future__ import annotations

import ctypes
import os
import signal

PRCTL, PR_SET_PDEATHSIG = ctypes.CDLL(None).prctl, 1


def end_with_parent(parent: int) -> None:
    """Have this process get a SIGTERM when its parent, process number `parent`, ends, also by SIGKILL. A child calls it
    before it becomes its program (`preexec_fn`)."""
    PRCTL(PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGTERM))
    if os.getppid() != parent:  # it has ended already; the parent's signal handlers still hold here, so this one just ends
        os._exit(128 + signal.SIGTERM)
