"""The `sparkpace` command: only the group and the one place where errors become exit codes."""

from __future__ import annotations

import click

from controller.cli import applications, doctor, placement, plan, profiles, records, services, settings, submit, top
from controller.cli import up_down as cluster
from stage_model.errors import PaceError


class PaceGroup(click.Group):
    """Turns every `PaceError` of a command into its sentence on stderr and its exit code."""

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


for command in (
    cluster.up,
    cluster.down,
    submit.submit,
    plan.plan,
    applications.ps,
    top.top,
    applications.kill_application,
    applications.set_,
    placement.explain_placement,
    placement.label,
    records.report,
    records.plot,
    records.logs,
    profiles.profile_commands,
    settings.conf,
    settings.jar,
    doctor.doctor,
    services.master,
    services.agent,
    services.token,
):
    main.add_command(command)


if __name__ == "__main__":
    main(prog_name="sparkpace")
