"""`sparkpace conf` and `sparkpace jar`: what stock spark-submit and notebooks need to reach the cluster."""

from __future__ import annotations

import click

from controller.cli.common import home_option
from controller.home import Home
from controller.submit.bridge_jar import bridge_jar, driver_settings
from controller.submit.properties import format_properties
from controller.submit.submission import CLASS_PATH


@click.command()
@home_option
def conf(home: Home) -> None:
    """Prints the driver's settings for `spark-submit --properties-file`."""
    settings = driver_settings() | {
        CLASS_PATH: str(bridge_jar()),
        "spark.pace.token.file": str(home.submit_token_file),
        "spark.pace.ca.file": str(home.ca_file),
    }
    cluster = home.cluster()
    if cluster is not None:
        settings["spark.master"] = f"sparkpace://{cluster.host}:{cluster.port}"
    click.echo(format_properties(settings), nl=False)


@click.command()
def jar() -> None:
    """Prints the path of the bridge jar, for the driver's class path."""
    click.echo(str(bridge_jar()))
