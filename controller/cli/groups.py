"""A group of commands that answers a misspelt one with the nearest ones."""

from __future__ import annotations

import click

from stage_model.nearest import nearest_names


class NamingGroup(click.Group):
    """Group for `sparkpace` itself and its commands that have commands below."""

    def resolve_command(self, ctx: click.Context, args: list[str]) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if not ctx.resilient_parsing and not name.startswith("-") and self.get_command(ctx, name) is None:
            ctx.fail(f"{name[:80]!r} is no command of {ctx.command_path}; {nearest_names(name, self.list_commands(ctx))}")
        return super().resolve_command(ctx, args)
