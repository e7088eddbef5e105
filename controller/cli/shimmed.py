"""What the scripts of `sparkpace shim` run: `sparkpace submit` for who asks for pacing, else the real spark-submit."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from controller.submit.shim import NAMES, asks_for_pacing, is_shim, real_submit
from stage_model.errors import PaceError


def submit_or_pass_on(arguments: list[str]) -> None:
    """Nothing that is started finds a script of ours again."""
    path = os.environ.get("PATH", "").split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(part for part in path if not is_shim(Path(part) / NAMES[0]))
    if asks_for_pacing(arguments):
        from controller.cli.main import main  # here, because the real one needs none of it

        main(["submit", *arguments], prog_name=NAMES[0])
    real = str(real_submit(os.environ))
    os.execv(real, [real, *arguments])  # noqa: S606 - the user's own words, no shell


if __name__ == "__main__":
    try:
        submit_or_pass_on(sys.argv[1:])
    except (PaceError, OSError) as error:
        sys.stderr.write(f"sparkpace: {error}\n")
        sys.exit(error.exit_code if isinstance(error, PaceError) else 69)
