"""What the models of a scenario file are made of: how values are read, and the base of every mapping.

Here it is decided how a mistake is worded and that reading goes on after it; what a scenario may say
is in `sim.scenario.model`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from sim.scenario.text import Document, Map, Number, suggestion

Level = Literal["read committed", "repeatable read", "serializable"]
#: In an `isolation` mapping: every node that is not named.
EVERY_NODE = "*"
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000}

#: Stands where a part with wrong shapes stood, so that the rest of the file can still be examined.
HOLE = object()


def refuse(message: str) -> PydanticCustomError:
    """A mistake in our own words."""
    return PydanticCustomError("scenario", "{message}", {"message": message})


def kind_of(value: object) -> str:
    """What YAML calls `value`."""
    if value is None:
        return "nothing"
    if isinstance(value, Mapping):
        return "a mapping"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, Number):
        return "a number"
    return "text" if isinstance(value, str) else "a truth value"


def duration_ms(text: str) -> int:
    """Milliseconds of ``500ms``, ``5s`` or ``2m``; ValueError for anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m)", text)
    if found is None:
        raise ValueError(f"a duration is written as 500ms, 5s or 2m, not '{text}'")
    return int(float(found[1]) * _UNITS_MS[found[2]])


def _duration_ms(value: Any) -> Any:
    try:
        return duration_ms(str(value))
    except ValueError as error:
        raise refuse(str(error)) from None


def _cell(value: Any) -> Any:
    """A column's value as PostgreSQL reads it: text, or None for NULL."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value is None or isinstance(value, str):
        return value
    raise refuse(f"a column's value is text, a number, true, false or null, not {kind_of(value)}; "
                 "write arrays and json as PostgreSQL does, in quotes")  # fmt: skip


def _parameter(value: Any) -> Any:
    if isinstance(value, Number):
        return int(value) if re.fullmatch(r"[-+]?\d+", value) else Decimal(value)
    if value is None or isinstance(value, (bool, str)):
        return value
    raise refuse(f"a parameter is text, a number, true, false or null, not {kind_of(value)}")


def _levels(value: Any) -> Any:
    return {EVERY_NODE: value} if isinstance(value, str) else value


def _text_or_texts(value: Any) -> Any:
    return [value] if isinstance(value, str) else value


def _name(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"[\w.-]+", value):
        return value
    raise refuse(f"a name is made of letters, digits, '_', '.' and '-', not {value!r}")


def _reference(value: Any) -> Any:
    """A name that is looked up later; of a hole, the empty one, which is not looked up."""
    return "" if value is HOLE else value


def _node_name(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", value):
        return value
    raise refuse(f"a node's name has 1 to 40 of A-Z a-z 0-9 _ . -, not {value!r}")


DurationMs = Annotated[int, BeforeValidator(_duration_ms)]
Cell = Annotated[Any, BeforeValidator(_cell)]
Parameter = Annotated[Any, BeforeValidator(_parameter)]
Row = dict[str, Cell]
Isolation = Annotated[dict[str, Level], BeforeValidator(_levels)]
Texts = Annotated[tuple[str, ...], BeforeValidator(_text_or_texts)]
Name = Annotated[str, BeforeValidator(_name)]
NodeReference = Annotated[str, BeforeValidator(_reference)]
NodeName = Annotated[str, BeforeValidator(_node_name)]


class Part(BaseModel):
    """A mapping of the file. Its unknown keys are noted one by one, and the rest is read on."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False)

    what: ClassVar[str] = "this"
    later: ClassVar[Mapping[str, str]] = {}
    """Keys of the full language that are not supported yet, each with what it needs."""
    refused: ClassVar[Mapping[str, str]] = {}
    """Keys for what cannot be, each with the reason."""
    hidden: ClassVar[frozenset[str]] = frozenset()
    """Fields that only a short form sets."""
    blank: ClassVar[Mapping[str, Any] | None] = None
    """Its required fields where it is a hole; None if the rest means nothing without it."""

    hole: bool = False
    """True where the shapes of the file were wrong."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """The mapping that a short form stands for."""
        raise refuse(f"{cls.what} is a mapping, not {kind_of(value)}")

    @classmethod
    def keys(cls) -> list[str]:
        """The keys that the file may use here."""
        return [
            field.alias or name
            for name, field in cls.model_fields.items()
            if name != "hole" and name not in cls.hidden
        ]

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any, info: ValidationInfo) -> Any:
        if value is HOLE and cls.blank is not None:
            return {"hole": True, **cls.blank}
        if not isinstance(value, Map):
            return value if isinstance(value, dict) else cls.spell_out(value)
        document = cast("Document", info.context)
        known = cls.keys()
        kept: dict[str, Any] = {}
        for key, inner in value.items():
            if key in known:
                kept[key] = inner
            else:
                document.error(value.keys_at[key], cls._unknown(key, inner, value.flow))
        return kept

    @classmethod
    def _unknown(cls, key: str, inner: Any, flow: bool) -> str:
        if key in cls.later:
            return f"'{key}' is not supported yet: {cls.later[key]}"
        if key in cls.refused:
            return f"'{key}' is refused: {cls.refused[key]}"
        if flow and inner is None and " " in key:
            return f"unknown key '{key}': inside {{ }} a comma ends a value, so put SQL in quotes"
        return f"unknown key '{key}'{suggestion(key, cls.keys())}"
