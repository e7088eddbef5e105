"""`sparkpace shim`: a `spark-submit` that takes our options, for programs that start no other."""

from __future__ import annotations

from pathlib import Path

import click

from controller.cli.common import NamedPath
from controller.machine.files import write_whole
from controller.submit.shim import NAMES, is_shim, shim_text
from stage_model.errors import BadInput


@click.command(epilog="Example: sparkpace shim ~/pace/bin")
@click.argument("folder", metavar="DIR", type=NamedPath())
def shim(folder: Path) -> None:
    """Write a spark-submit that takes the options of `sparkpace submit`, too.

    The scripts spark-submit and spark3-submit are written to DIR; put DIR first on PATH. Without an option of Sparkpace, a
    setting spark.pace.* or a master sparkpace://, a script runs the real spark-submit unchanged: that of SPARK_HOME, else the
    next spark-submit on PATH.
    """
    folder = folder.expanduser().absolute()
    files = [folder / name for name in NAMES]
    if strange := [file for file in files if file.exists() and not is_shim(file)]:
        raise BadInput(f"{strange[0]} exists and is not from `sparkpace shim`; name another directory")
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for file in files:
            write_whole(file, shim_text().encode())
            file.chmod(0o755)
    except OSError as error:
        raise BadInput(f"{folder} cannot be written ({error.strerror}); name a directory of yours") from error
    click.echo(f'PATH="{folder}:$PATH" spark-submit --deadline 90s app.py')
