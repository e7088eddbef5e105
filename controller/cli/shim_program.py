"""Program of the scripts of `sparkpace shim`: `sparkpace submit` for callers that ask for pacing, else the real spark-submit.

Either way this process becomes the driver. So a signal to the script reaches the driver. That includes SIGKILL, with which
Airflow ends a task.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path

from controller.asks.submit_args import with_our_scheme
from controller.home import find_home
from controller.submit.shim import NAMES, is_shim, real_submit, words_for_submit, words_for_the_real_one
from controller.submit.spark_install import go_on_as, spark_of
from stage_model.errors import PaceError, Unavailable


def submit_or_pass_on(arguments: list[str]) -> None:
    """Become `sparkpace submit` or the real spark-submit; no program that is started finds the scripts of `shim` again."""
    path = os.environ.get("PATH", "").split(os.pathsep)
    os.environ["PATH"] = os.pathsep.join(part for part in path if not is_shim(Path(part) / NAMES[0]))
    with suppress(PaceError):  # without a master, no URL is its own
        arguments = with_our_scheme(arguments, find_home(None, os.environ).need_cluster().spark_master)
    words = words_for_submit(arguments)
    if words is None:
        go_on_as([str(real_submit(os.environ)), *words_for_the_real_one(arguments)], os.environ)
    from controller.cli.main import main  # here, because the real spark-submit does not need it

    if not os.environ.get("SPARK_HOME"):
        found = None
        with suppress(Unavailable):  # then `submit` takes the Spark next to Sparkpace, or says that there is no Spark
            found = real_submit(os.environ)
        if found is not None:
            os.environ["SPARK_HOME"] = str(spark_of(found))  # one Spark for all jobs, paced or not
    main(["submit", "--exec", *words], prog_name=NAMES[0])


if __name__ == "__main__":
    try:
        submit_or_pass_on(sys.argv[1:])
    except PaceError as error:
        sys.stderr.write(f"sparkpace: {error}\n")
        sys.exit(error.exit_code)
