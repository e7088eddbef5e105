"""The `sparkpace` command: only the group and the one place where errors become exit codes."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib import import_module

import click

from controller.cli.groups import NamingGroup
from stage_model.errors import PaceError

SECTIONS = {
    "Run jobs": {
        "submit": "submit:submit",
        "set": "applications:set_",
        "kill": "applications:kill_application",
        "conf": "conf:conf",
        "jar": "conf:jar",
        "shim": "conf:shim",
    },
    "Watch jobs": {
        "ps": "watching:ps",
        "top": "watching:top",
        "ui": "watching:live_page",
        "report": "records:report",
        "plot": "records:plot",
        "logs": "records:logs",
        "explain": "placement:explain_placement",
    },
    "Plan": {
        "plan": "plan:plan",
        "savings": "savings:savings",
        "profile": "profiles:profile_commands",
    },
    "Cluster and this machine": {
        "up": "up:up",
        "down": "down:down",
        "label": "placement:label",
        "doctor": "doctor:doctor",
        "config": "config:config_commands",
        "completion": "completion:completion",
    },
    "Services": {
        "master": "services:master",
        "agent": "services:agent",
        "token": "tokens:token",
        "join-token": "tokens:join_token",
        "join": "joining:join",
        "renew": "joining:renew",
        "install-service": "install_service:install_service",
    },
}
"""Commands in the sections of `--help`, each with its place: a module of this package, and the command's name there. A module
is imported when its command is called: all of them take a quarter of a second, and every submission waits for that."""

COMMANDS = {name: place for section in SECTIONS.values() for name, place in section.items()}


class PaceGroup(NamingGroup):
    """Group that turns every `PaceError` of a command into its sentence on stderr and its exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's
        return list(COMMANDS)

    def sections(self, ctx: click.Context) -> Mapping[str, Collection[str]]:  # noqa: ARG002 - as the other groups'
        return SECTIONS

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - Click's
        module, _, name = COMMANDS.get(cmd_name, "").partition(":")
        command: click.Command | None = getattr(import_module(f"controller.cli.{module}"), name) if name else None
        return command

    def invoke(self, ctx: click.Context) -> object:
        try:
            return super().invoke(ctx)
        except PaceError as error:
            click.echo(f"sparkpace: {error}", err=True)
            ctx.exit(error.exit_code)


@click.group(
    cls=PaceGroup,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="The help of each command has an example. Example: sparkpace submit --help",
)
@click.version_option(package_name="sparkpace", prog_name="sparkpace")
def main() -> None:
    """Run Spark jobs that end on time: the CPU quotas of executors follow each job's progress."""


if __name__ == "__main__":
    main(prog_name="sparkpace")
