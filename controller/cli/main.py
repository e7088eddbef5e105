"""The `sparkpace` command: only the group and the one place where errors become exit codes."""

from __future__ import annotations

from importlib import import_module

import click

from controller.cli.groups import NamingGroup
from stage_model.errors import PaceError

COMMANDS = {
    "up": "up_down:up",
    "down": "up_down:down",
    "submit": "submit:submit",
    "plan": "plan:plan",
    "ps": "ps:ps",
    "top": "top:top",
    "kill": "applications:kill_application",
    "set": "applications:set_",
    "explain": "placement:explain_placement",
    "label": "placement:label",
    "ui": "ui:live_page",
    "report": "records:report",
    "plot": "records:plot",
    "logs": "records:logs",
    "profile": "profiles:profile_commands",
    "conf": "settings:conf",
    "jar": "settings:jar",
    "shim": "shim:shim",
    "config": "config:config_commands",
    "completion": "completion:completion",
    "doctor": "doctor:doctor",
    "master": "services:master",
    "agent": "services:agent",
    "token": "services:token",
}
"""Places of the commands: a module of this package, and the command's name there. A module is imported when its command is
called: all of them take a quarter of a second, and every submission waits for that."""


class PaceGroup(NamingGroup):
    """Group that turns every `PaceError` of a command into its sentence on stderr and its exit code."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - Click's
        return list(COMMANDS)

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


@click.group(cls=PaceGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="sparkpace", prog_name="sparkpace")
def main() -> None:
    """Spark jobs that end on time: executors in containers whose CPU follows each job's progress."""


if __name__ == "__main__":
    main(prog_name="sparkpace")
