"""A command group whose first command is meant where none is named."""

from __future__ import annotations

import click


class DefaultGroup(click.Group):
    """``group ARGS`` means ``group run ARGS`` where the first word is no command and no option of the group."""

    default = "run"

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put the default command in front where none is named."""
        if args and args[0] not in self.commands and args[0] not in ctx.help_option_names:
            args = [self.default, *args]
        return super().parse_args(ctx, args)
