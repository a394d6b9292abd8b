"""Commands that take their options as records: each option is a field, declared once with its help and its default.

This module depends on no option and no command.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, dataclass
from typing import Any, get_type_hints

_EMPTY = inspect.Parameter.empty


@dataclass(frozen=True)
class _Member:
    """A parameter of a command, or a field of a record."""

    name: str
    annotation: Any
    default: Any = _EMPTY

    @functools.cached_property
    def fields(self) -> tuple[_Member, ...]:
        """Fields of a record that its constructor takes; empty if the member is no record."""
        if not dataclasses.is_dataclass(self.annotation):
            return ()
        hints = get_type_hints(self.annotation, include_extras=True)
        return tuple(
            _Member(
                each.name, hints[each.name], _EMPTY if each.default is MISSING else each.default
            )
            for each in dataclasses.fields(self.annotation)
            if each.init
        )

    def options(self) -> Iterator[inspect.Parameter]:
        """Yield the option of the member, or those of the fields of a record."""
        for field in self.fields:
            yield from field.options()
        if not self.fields:
            yield inspect.Parameter(
                self.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=self.default,
                annotation=self.annotation,
            )

    def value(self, options: Mapping[str, Any]) -> Any:
        """Return the member's value from the options of a command line; an omitted option has its default."""
        if not self.fields:
            return options.get(self.name, self.default)
        return self.annotation(**{each.name: each.value(options) for each in self.fields})


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Return a command for Typer that takes each option by its name, and calls `function` with the records."""
    hints = get_type_hints(function, include_extras=True)
    members = [
        _Member(each.name, hints[each.name], each.default)
        for each in inspect.signature(function).parameters.values()
    ]

    @functools.wraps(function)
    def call(**options: Any) -> None:
        function(**{member.name: member.value(options) for member in members})

    parameters = [option for member in members for option in member.options()]
    call.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined] # typer reads it
    return call
