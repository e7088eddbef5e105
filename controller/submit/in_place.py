"""A program in place of this process: with its number, so that the starter of this process can signal and kill the
program."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping, Sequence
from typing import NoReturn

from stage_model.errors import Unavailable


def go_on_as(words: Sequence[str], environment: Mapping[str, str], passed: Sequence[int] = ()) -> NoReturn:
    """Become the program, which gets the descriptors `passed`. Raise `Unavailable` when it cannot be started."""
    for descriptor in passed:
        os.set_inheritable(descriptor, True)
    # Python ignores SIGPIPE, and what is ignored stays so in the program.
    before = signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    try:
        os.execve(words[0], list(words), dict(environment))  # noqa: S606 - the user's own words, no shell
    except OSError as error:
        signal.signal(signal.SIGPIPE, before)
        raise Unavailable(f"{words[0]} cannot be started ({error.strerror}); install Spark again") from error
