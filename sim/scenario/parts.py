"""Building blocks of the models of a scenario file: types of values, and the base class of every mapping.

This module defines the wording of errors, and that reading continues after an error. The content of a scenario is
defined in `twopc.sim.scenario.model`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any, ClassVar, Literal, cast

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationInfo, model_validator
from pydantic_core import PydanticCustomError

from twopc.sim.scenario.text import Document, Map, Number, listed, suggestion

Level = Literal["read committed", "repeatable read", "serializable"]
#: Key of an `isolation` mapping for all nodes without their own key.
EVERY_NODE = "*"
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000}

#: Number of parts with a key up to which an error message names them.
_NAMED_MAX = 3

#: Replaces a part with a wrong shape, so that the rest of the file can still be checked.
HOLE = object()


def refuse(message: str) -> PydanticCustomError:
    """Return an error with this project's own message."""
    return PydanticCustomError("scenario", "{message}", {"message": message})


def kind_of(value: object) -> str:
    """Return the name of the kind of `value` in YAML."""
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
    """Return the milliseconds of ``500ms``, ``5s`` or ``2m``.

    Raises:
        ValueError: the text is not a duration.
    """
    match = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m)", text)
    if match is None:
        raise ValueError(f"a duration is written as 500ms, 5s or 2m, not '{text}'")
    return int(float(match[1]) * _UNITS_MS[match[2]])


def _duration_ms(value: Any) -> Any:
    try:
        return duration_ms(str(value))
    except ValueError as error:
        raise refuse(str(error)) from None


def _cell(value: Any) -> Any:
    """Return a column's value as PostgreSQL reads it: text, or None for NULL."""
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
    if isinstance(value, str):
        return [value]
    if isinstance(value, (list, tuple)) or value is HOLE:
        return value
    raise refuse(f"expected text or a list of texts, not {kind_of(value)}")


def one_or_more(value: Any) -> Any:
    """Return `value` as a list, unless it is one already."""
    return value if isinstance(value, (list, tuple)) else [value]


def _number(value: Any) -> Any:
    if isinstance(value, Number):
        return Decimal(value)
    raise refuse(f"expected a number, not {said_of(value)}")


def _whole(value: Any) -> Any:
    if isinstance(value, bool):
        raise refuse(f"expected a whole number, not {kind_of(value)}")
    return value


def _natural(value: Any) -> Any:
    if isinstance(value, Number) and value.startswith("-"):
        raise refuse(f"expected 0 or more, not {value}")
    return value


def _setting(value: Any) -> Any:
    """Return a server setting as text."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, str):
        return str(value)
    raise refuse(f"a setting is text, a number, true or false, not {kind_of(value)}")


def _agent(value: Any) -> Any:
    match = re.fullmatch(r"agent (\S+)", value) if isinstance(value, str) else None
    if match is not None:
        return match[1]
    raise refuse(f"only agents pause and resume: {{pause: agent sub1}}, not {said_of(value)}")


def said_of(value: Any) -> str:
    """Return a value for a message: a text in quotes, the kind of any other value."""
    return f"'{value}'" if isinstance(value, str) else kind_of(value)


def _name(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"[\w.-]+", value):
        return value
    raise refuse(f"a name is made of letters, digits, '_', '.' and '-', not {value!r}")


def _reference(value: Any) -> Any:
    """Return a name that is looked up later; an empty one, which is not looked up, for a hole."""
    if value == "":
        raise refuse("a name is made of letters, digits, '_', '.' and '-', not ''")
    return "" if value is HOLE else value


def _node_name(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", value):
        return value
    raise refuse(f"a node's name has 1 to 40 of A-Z a-z 0-9 _ . -, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrittenForm:
    """Form of a value in a file, as JSON Schema, where the type does not define it."""

    schema: Mapping[str, Any]
    around: bool = False
    """Whether `schema` is added to the schema of the type, instead of replacing it."""


def pattern(text: str, **more: Any) -> WrittenForm:
    """Return the written form of text that matches a pattern."""
    return WrittenForm(schema={"type": "string", "pattern": f"^(?:{text})$", **more})


#: For a list: a single value may be written without one.
ONE_OR_MORE = BeforeValidator(one_or_more)
TEXT = {"type": ["string", "number"]}
_VALUE = WrittenForm(schema={"type": ["string", "number", "boolean", "null"]})
_LEVELS = ["read committed", "repeatable read", "serializable"]

DurationMs = Annotated[int, BeforeValidator(_duration_ms), pattern(r"\d+(\.\d+)?\s*(ms|s|m)")]
Cell = Annotated[Any, BeforeValidator(_cell), _VALUE]
Parameter = Annotated[Any, BeforeValidator(_parameter), _VALUE]
Row = dict[str, Cell]
Isolation = Annotated[
    dict[str, Level],
    BeforeValidator(_levels),
    WrittenForm(
        schema={
            "anyOf": [
                {"enum": _LEVELS},
                {"type": "object", "additionalProperties": {"enum": _LEVELS}},
            ]
        }
    ),
]
Texts = Annotated[
    tuple[str, ...],
    BeforeValidator(_text_or_texts),
    WrittenForm(schema={"anyOf": [TEXT, {"type": "array", "items": TEXT}]}),
]
Name = Annotated[str, BeforeValidator(_name), WrittenForm(schema={**TEXT, "pattern": r"^[\w.-]+$"})]
NodeReference = Annotated[str, BeforeValidator(_reference)]
NodeName = Annotated[
    str,
    BeforeValidator(_node_name),
    WrittenForm(schema={**TEXT, "pattern": "^[A-Za-z0-9_.-]{1,40}$"}),
]
#: A whole number, not a Boolean.
Whole = Annotated[int, BeforeValidator(_whole)]
#: A whole number of at least 0.
Natural = Annotated[
    Whole, BeforeValidator(_natural), WrittenForm(schema={"type": "integer", "minimum": 0})
]
Exact = Annotated[Decimal, BeforeValidator(_number)]
Setting = Annotated[
    str, BeforeValidator(_setting), WrittenForm(schema={"type": ["string", "number", "boolean"]})
]
#: Name of a Subscriber, written as ``agent sub1``.
Agent = Annotated[str, BeforeValidator(_agent), pattern(r"agent \S+")]


class Part(BaseModel):
    """A mapping of the file. Each unknown key is recorded as an error, and the other keys are read."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False)

    what: ClassVar[str] = "this"
    refused: ClassVar[Mapping[str, str]] = {}
    """Keys that are not supported or belong elsewhere, each with the reason."""
    hidden: ClassVar[frozenset[str]] = frozenset()
    """Fields that are set only by a short form."""
    blank: ClassVar[Mapping[str, Any] | None] = None
    """Values of the required fields of a hole; None if the enclosing part cannot be checked without this one."""

    kept: ClassVar[frozenset[str]] = frozenset()
    """Optional keys to which the rest of the file refers. If their shape is wrong, the whole part becomes a hole."""

    hole: bool = False
    """Whether this part replaces one with a wrong shape."""
    holes: tuple[str, ...] = ()
    """Optional keys with wrong shapes, which are omitted."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Return the mapping for a short form."""
        raise refuse(
            f"{cls.what} {'is' if cls._is_one() else 'are'} a mapping, not {kind_of(value)}"
        )

    @classmethod
    def _is_one(cls) -> bool:
        """Return whether `what` is singular."""
        return cls.what.startswith(("a ", "an ", "this", "what "))

    @classmethod
    def keys(cls) -> list[str]:
        """Return the keys that the file may use in this part."""
        return [
            field.alias or name
            for name, field in cls.model_fields.items()
            if name not in ("hole", "holes") and name not in cls.hidden
        ]

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """Return the JSON Schemas of the forms that `spell_out` accepts."""
        return ()

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """Return further conditions of the mapping, as JSON Schema."""
        return {}

    @classmethod
    def more_keys(cls) -> dict[str, Any]:
        """Return the keys that do not have a field, as JSON Schema."""
        return {}

    @model_validator(mode="before")
    @classmethod
    def _known_keys(cls, value: Any, info: ValidationInfo) -> Any:
        if value is HOLE and cls.blank is not None:
            return {"hole": True, **cls.blank}
        if not isinstance(value, Map):
            return value if isinstance(value, dict) else cls.spell_out(value)
        document = cast("Document", info.context)
        known = cls.keys()
        if not known:  # the part has a short form only
            return cls.spell_out(value)
        kept: dict[str, Any] = {}
        holes = []
        for key, inner in value.items():
            if inner is HOLE and key in cls._optional():
                holes.append(key)
            elif key in known:
                kept[key] = inner
            elif inner is not HOLE:
                document.error(value.keys_at[key], cls._unknown(key, inner, value.flow))
        return cls.arrange({**kept, "holes": holes} if holes else kept)

    @classmethod
    def _optional(cls) -> set[str]:
        """Return the keys that are omitted if their shapes are wrong. A nested part becomes a hole itself."""
        return {
            field.alias or name
            for name, field in cls.model_fields.items()
            if not (
                field.is_required()
                or (field.alias or name) in cls.kept
                or (isinstance(field.annotation, type) and issubclass(field.annotation, Part))
            )
        }

    @classmethod
    def arrange(cls, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values arranged for the fields, if one key sets several fields."""
        return values

    @classmethod
    def _unknown(cls, key: str, inner: Any, flow: bool) -> str:
        if key in cls.refused:
            return f"'{key}' is refused: {cls.refused[key]}"
        if flow and inner is None and " " in key:
            return f"unknown key '{key}': inside {{ }} a comma ends a value, so put SQL in quotes"
        near = suggestion(key, cls.keys())
        there = (
            f", which is a key of {listed(cls._with(key), 'or')}"
            if not near and cls._with(key)
            else ""
        )
        what = cls.what[:1].upper() + cls.what[1:]
        has = f"{what} {'has' if cls._is_one() else 'have'} {listed(cls.keys())}"
        return f"unknown key '{key}'{near or there + '.'} {has}"

    @classmethod
    def _with(cls, key: str) -> list[str]:
        """Return the parts that have a key, unless there are many."""
        results = [each.what for each in _parts(Part) if key in set(each.keys())]
        return results if len(results) <= _NAMED_MAX else []


def keys_of(what: str) -> list[str]:
    """Return the keys of the part with a given `what`, such as ``a session``."""
    return next((each.keys() for each in _parts(Part) if each.what == what), [])


def _parts(kind: type[Part]) -> Iterator[type[Part]]:
    for each in kind.__subclasses__():
        yield each
        yield from _parts(each)
