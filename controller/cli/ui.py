"""`sparkpace ui`: the live page in a browser."""

from __future__ import annotations

import click

from controller.cli.common import CountRange, home_option
from controller.client import LastingClient, submit_client
from controller.home import Home
from controller.ui.main import serve_page


@click.command("ui", epilog="Example: sparkpace ui --port 7071")
@home_option
@click.option(
    "--port", type=CountRange(0, 65535), default=7071, show_default=True, help="Port on 127.0.0.1; 0: any free port."
)
def live_page(home: Home, port: int) -> None:
    """Serve the live page of the cluster for a browser.

    The page shows the cluster, its applications and ended runs. Ctrl-C ends it; jobs go on. Each printed link lets one
    browser in, once and within five minutes; then the next link is printed. The page is served only on this machine's
    loopback. From another machine, use ssh -L 7071:127.0.0.1:7071 HOST.
    """
    url = home.need_cluster().url
    click.echo(f"Live page of the cluster at {url}. Ctrl-C ends it.")
    lasting = LastingClient(url, home.ca_file, home.submit_token())
    serve_page(port, lasting, submit_client(home), lambda link: click.echo(f"Open this within 5 minutes: {link}"))
