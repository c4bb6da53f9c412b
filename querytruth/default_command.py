"""Groups of commands in which one command needs no name."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup


def default_to(name: str) -> type[TyperGroup]:
    """Returns a group in which an unknown command is the first argument of the command `name`, such as a set."""

    class DefaultCommandGroup(TyperGroup):
        default_name = name

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            """Insert the name of the command where it is missing."""
            if args and args[0] not in {*self.commands, "--help", "-h"}:
                args = [name, *args]
            return super().parse_args(ctx, args)

    return DefaultCommandGroup
