"""What the models of a scenario file are made of: how values are read, and the base of every mapping.

Here it is decided how a mistake is worded and that reading goes on after it; what a scenario may say
is in `twopc.sim.scenario.model`.
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
#: In an `isolation` mapping: every node that is not named.
EVERY_NODE = "*"
_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000}

#: So many parts may have a key of the same name for it to be said where else it belongs.
_FEW = 3

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
    if isinstance(value, str):
        return [value]
    if isinstance(value, (list, tuple)) or value is HOLE:
        return value
    raise refuse(f"expected text or a list of texts, not {kind_of(value)}")


def one_or_more(value: Any) -> Any:
    """A list, where a single value may stand without one."""
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
    """A server's setting, as text."""
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
    """A value as a message has it: text as it is, of anything else only the kind."""
    return f"'{value}'" if isinstance(value, str) else kind_of(value)


def _name(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"[\w.-]+", value):
        return value
    raise refuse(f"a name is made of letters, digits, '_', '.' and '-', not {value!r}")


def _reference(value: Any) -> Any:
    """A name that is looked up later; of a hole, the empty one, which is not looked up."""
    if value == "":
        raise refuse("a name is made of letters, digits, '_', '.' and '-', not ''")
    return "" if value is HOLE else value


def _node_name(value: Any) -> Any:
    if isinstance(value, str) and re.fullmatch(r"[A-Za-z0-9_.-]{1,40}", value):
        return value
    raise refuse(f"a node's name has 1 to 40 of A-Z a-z 0-9 _ . -, not {value!r}")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WrittenForm:
    """How a file writes a value, as JSON Schema, where its type does not say it."""

    schema: Mapping[str, Any]
    around: bool = False
    """Beside what the type says, not instead."""


def pattern(text: str, **more: Any) -> WrittenForm:
    """Text that is as a pattern says."""
    return WrittenForm(schema={"type": "string", "pattern": f"^(?:{text})$", **more})


#: Of a list: a single value may stand without one.
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
#: A whole number, and no truth value.
Whole = Annotated[int, BeforeValidator(_whole)]
#: 0 or more.
Natural = Annotated[
    Whole, BeforeValidator(_natural), WrittenForm(schema={"type": "integer", "minimum": 0})
]
Exact = Annotated[Decimal, BeforeValidator(_number)]
Setting = Annotated[
    str, BeforeValidator(_setting), WrittenForm(schema={"type": ["string", "number", "boolean"]})
]
#: Written ``agent sub1``; the Subscriber's name.
Agent = Annotated[str, BeforeValidator(_agent), pattern(r"agent \S+")]


class Part(BaseModel):
    """A mapping of the file. Its unknown keys are noted one by one, and the rest is read on."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=False)

    what: ClassVar[str] = "this"
    refused: ClassVar[Mapping[str, str]] = {}
    """Keys for what cannot be, or stands elsewhere, each with the reason."""
    hidden: ClassVar[frozenset[str]] = frozenset()
    """Fields that only a short form sets."""
    blank: ClassVar[Mapping[str, Any] | None] = None
    """Its required fields where it is a hole; None if the rest means nothing without it."""

    kept: ClassVar[frozenset[str]] = frozenset()
    """Its optional keys that the rest of the file refers to: without them nothing more can be said."""

    hole: bool = False
    """True where the shapes of the file were wrong."""
    holes: tuple[str, ...] = ()
    """Its optional keys whose shapes were wrong; they are left out."""

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
            if name not in ("hole", "holes") and name not in cls.hidden
        ]

    @classmethod
    def short_schema(cls) -> tuple[dict[str, Any], ...]:
        """What `spell_out` takes, as JSON Schema."""
        return ()

    @classmethod
    def rules(cls) -> dict[str, Any]:
        """What else must be so of its mapping, as JSON Schema."""
        return {}

    @classmethod
    def more_keys(cls) -> dict[str, Any]:
        """Keys that no field of their own reads, as JSON Schema."""
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
        if not known:  # it is written in short only
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
        """Keys that may be left out where their shapes are wrong; a part becomes a hole itself."""
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
        """The values as the fields have them, where one key stands for several."""
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
        has = f"{what} {'have' if cls.what.endswith('s') else 'has'} {listed(cls.keys())}"
        return f"unknown key '{key}'{near or there + '.'} {has}"

    @classmethod
    def _with(cls, key: str) -> list[str]:
        """The parts that have a key, where they are few."""
        results = [each.what for each in _parts(Part) if key in set(each.keys())]
        return results if len(results) <= _FEW else []


def keys_of(what: str) -> list[str]:
    """The keys of a part, by what it is called: ``a session``."""
    return next((each.keys() for each in _parts(Part) if each.what == what), [])


def _parts(kind: type[Part]) -> Iterator[type[Part]]:
    for each in kind.__subclasses__():
        yield each
        yield from _parts(each)
