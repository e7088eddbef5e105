"""A group of commands that lists them in sections, and answers a misspelt one with the nearest ones."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import click

from stage_model.nearest import nearest_names

WHOLE_SENTENCE = 1000
"""Characters of a command's line in the list: Click cuts a longer line off with "...", and wraps a shorter one."""


class NamingGroup(click.Group):
    """Group for `sparkpace` itself and its commands that have commands below."""

    def sections(self, ctx: click.Context) -> Mapping[str, Collection[str]]:
        """Return the names of the commands below each heading of `--help`."""
        return {"Commands": self.list_commands(ctx)}

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write each section with the first sentence of each command's help."""
        width = max(map(len, self.list_commands(ctx)))
        for heading, names in self.sections(ctx).items():
            commands = [(name, self.get_command(ctx, name)) for name in names]
            helps = ((name, command.get_short_help_str(WHOLE_SENTENCE)) for name, command in commands if command is not None)
            rows = [(name.ljust(width), text) for name, text in helps]
            with formatter.section(heading):
                formatter.write_dl(rows)

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(f"{name[:80]!r} is not a command of {ctx.command_path}; {nearest_names(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)
