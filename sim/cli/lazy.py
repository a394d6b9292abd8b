"""Groups whose commands' modules are imported on lookup, as importing all seventy takes longer than most of them run.

This module depends on no command.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any, ClassVar

import typer
from typer.core import TyperGroup
from typer.main import get_command


class LazyGroup(TyperGroup):
    """A group of commands; subclasses list them."""

    table: ClassVar[Mapping[str, tuple[str, str]]]
    """The commands in the order of ``--help``: for each name its place, ``module:attribute`` of this package, and its
    text there. A place holds a function, or the `typer.Typer` of a group.
    """

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self.commands = _LazyCommands(self.table)  # type: ignore[assignment] # no command is added later


class _LazyCommands(Mapping[str, Any]):
    """The commands of a group by name; each is created when it is looked up."""

    def __init__(self, table: Mapping[str, tuple[str, str]]) -> None:
        self._table = table
        self._made: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._made:
            place, short_help = self._table[name]
            self._made[name] = _made(place, name, short_help)
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._table)

    def __len__(self) -> int:
        return len(self._table)


def _made(place: str, name: str, short_help: str) -> Any:
    module, _, attribute = place.partition(":")
    given = getattr(import_module(f"{__package__}.{module}"), attribute)
    alone = typer.Typer(add_completion=False, rich_markup_mode=None)
    if not isinstance(given, typer.Typer):
        alone.command(name, short_help=short_help)(given)
        return get_command(alone)
    alone.add_typer(given, name=name, short_help=short_help)
    return get_command(alone).commands[name]  # type: ignore[attr-defined] # it is a group
