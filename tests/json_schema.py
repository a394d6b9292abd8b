"""A validator of JSON Schema that supports what our schemas use, and refuses other keywords.

So no rule of a schema is ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

TYPES: dict[str, Any] = {
    "object": dict,
    "array": list,
    "string": str,
    "boolean": bool,
    "null": type(None),
    "number": (int, float),
    "integer": int,
}
SAID = {"$schema", "$id", "$defs", "$comment", "title", "description", "default", "examples"}


def problems(
    value: Any, schema: dict[str, Any], at: str = "", *, root: dict[str, Any] | None = None
) -> Iterator[str]:
    """Yield everything about `value` that the schema does not allow.

    Args:
        root: the whole schema, to whose ``$defs`` a ``$ref`` refers; by default `schema`.
    """
    whole = schema if root is None else root
    for word, rule in schema.items():
        if word in SAID or word in ("then", "else"):
            continue
        yield from RULES[word](value, rule, _Place(schema, at, whole))


class _Place:
    """The place in a value and in a schema at which a rule is checked."""

    def __init__(self, schema: dict[str, Any], at: str, root: dict[str, Any]) -> None:
        self.schema = schema
        self.at = at
        self._root = root

    def inside(self, value: Any, schema: Any, step: str = "") -> Iterator[str]:
        """Yield the problems of a part of the value, or of the value with another schema."""
        if schema is False:
            yield f"{self.at}{step}: nothing may be here"
        elif schema is not True:
            yield from problems(value, schema, self.at + step, root=self._root)

    def named(self, reference: str) -> dict[str, Any]:
        """Return the schema to which a ``$ref`` refers."""
        found: Any = self._root
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
        return dict(found)


def kind_of_value(value: Any, rule: Any, place: _Place) -> Iterator[str]:
    """The rule ``type``."""
    allowed = [rule] if isinstance(rule, str) else rule
    right = isinstance(value, tuple(TYPES[each] for each in allowed if each != "boolean"))
    if isinstance(value, bool):
        right = "boolean" in allowed
    if not right:
        yield f"{place.at}: {value!r} is no {' or '.join(allowed)}"


def properties(value: Any, rule: Any, place: _Place) -> Iterator[str]:
    """The rule ``properties``."""
    for name, inner in rule.items():
        if isinstance(value, dict) and name in value:
            yield from place.inside(value[name], inner, f".{name}")


def additional(value: Any, rule: Any, place: _Place) -> Iterator[str]:
    """The rule ``additionalProperties``, for properties that no other rule names."""
    named = place.schema.get("properties", {})
    patterns = place.schema.get("patternProperties", {})
    for name, inner in value.items() if isinstance(value, dict) else ():
        if name not in named and not any(re.search(each, name) for each in patterns):
            yield from place.inside(inner, rule, f".{name}")


def by_pattern(value: Any, rule: Any, place: _Place) -> Iterator[str]:
    """The rule ``patternProperties``."""
    for pattern, inner in rule.items():
        for name, each in value.items() if isinstance(value, dict) else ():
            if re.search(pattern, name):
                yield from place.inside(each, inner, f".{name}")


def names(value: Any, rule: Any, place: _Place) -> Iterator[str]:
    """The rule ``propertyNames``."""
    for name in value if isinstance(value, dict) else ():
        yield from place.inside(name, rule)


def required(value: Any, rule: Any, place: _Place) -> Iterator[str]:
    """The rule ``required``."""
    if isinstance(value, dict):
        yield from (f"{place.at}: {name} is missing" for name in rule if name not in value)


def items(value: Any, rule: Any, place: _Place) -> Iterator[str]:
    """The rule ``items``."""
    for at, each in enumerate(value if isinstance(value, list) else ()):
        yield from place.inside(each, rule, f"[{at}]")


def every_one(value: Any, rule: Any, place: _Place) -> Iterator[str]:
    """The rule ``allOf``."""
    for each in rule:
        yield from place.inside(value, each)


def any_one(value: Any, rule: Any, place: _Place) -> Iterator[str]:
    """The rule ``anyOf``; yields the problems with the alternative that fits best."""
    found = [list(place.inside(value, each)) for each in rule]
    if all(found):
        yield from min(found, key=len)


def exactly_one(value: Any, rule: Any, place: _Place) -> Iterator[str]:
    """The rule ``oneOf``."""
    fitting = [each for each in rule if not any(place.inside(value, each))]
    if len(fitting) > 1:
        yield f"{place.at}: {value!r} fits {len(fitting)} of oneOf"
    elif not fitting:
        yield from any_one(value, rule, place)


def none_of(value: Any, rule: Any, place: _Place) -> Iterator[str]:
    """The rule ``not``."""
    if not any(place.inside(value, rule)):
        yield f"{place.at}: {value!r} is what it must not be"


def condition(value: Any, rule: Any, place: _Place) -> Iterator[str]:
    """The rule ``if`` with ``then`` and ``else``."""
    branch = "else" if any(place.inside(value, rule)) else "then"
    yield from place.inside(value, place.schema.get(branch, {}))


def reference(value: Any, rule: Any, place: _Place) -> Iterator[str]:
    """The rule ``$ref``, within the same schema."""
    yield from place.inside(value, place.named(rule))


def check(holds: Any) -> Any:
    """Return a rule that a value fulfils or not."""

    def rule(value: Any, wanted: Any, place: _Place) -> Iterator[str]:
        if not holds(value, wanted):
            yield f"{place.at}: {value!r} against {wanted!r}"

    return rule


def _number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _same(value: Any, wanted: Any) -> bool:
    """Return whether values are equal in JSON, where true is not 1."""
    return bool(value == wanted) and isinstance(value, bool) == isinstance(wanted, bool)


RULES = {
    "type": kind_of_value,
    "properties": properties,
    "additionalProperties": additional,
    "patternProperties": by_pattern,
    "propertyNames": names,
    "required": required,
    "items": items,
    "allOf": every_one,
    "anyOf": any_one,
    "oneOf": exactly_one,
    "not": none_of,
    "if": condition,
    "$ref": reference,
    "enum": check(lambda value, wanted: any(_same(value, each) for each in wanted)),
    "const": check(_same),
    "minimum": check(lambda value, wanted: not _number(value) or value >= wanted),
    "maximum": check(lambda value, wanted: not _number(value) or value <= wanted),
    "exclusiveMinimum": check(lambda value, wanted: not _number(value) or value > wanted),
    "minItems": check(lambda v, wanted: not isinstance(v, list) or len(v) >= wanted),
    "maxItems": check(lambda v, wanted: not isinstance(v, list) or len(v) <= wanted),
    "minProperties": check(lambda v, wanted: not isinstance(v, dict) or len(v) >= wanted),
    "maxProperties": check(lambda v, wanted: not isinstance(v, dict) or len(v) <= wanted),
    "minLength": check(lambda v, wanted: not isinstance(v, str) or len(v) >= wanted),
    "pattern": check(lambda v, wanted: not isinstance(v, str) or re.search(wanted, v) is not None),
}
