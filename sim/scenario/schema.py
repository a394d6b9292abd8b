"""JSON Schema of scenario files, for editors: derived from the models that read them.

Conditions that a schema cannot express (existing names, playable orders) are omitted. The schema is stored as
``schema.json`` beside this file; ``python -m twopc.sim.scenario.schema`` rewrites it.
"""

from __future__ import annotations

import ast
import inspect
import json
import sys
import types
import typing
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, Literal, Union, get_args, get_origin

from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.parts import ONE_OR_MORE, Part, WrittenForm

FILE = Path(__file__).with_name("schema.json")
TITLE = "A scenario of twopc, format 1"
_PLAIN: dict[Any, dict[str, Any]] = {
    str: {"type": ["string", "number"]},
    int: {"type": "integer"},
    float: {"type": "number"},
    Decimal: {"type": "number"},
    bool: {"type": "boolean"},
}


def schema() -> dict[str, Any]:
    """Return a new value of the schema.

    A file that extends another contains only the differences, in any shape that becomes complete with its base: for
    such a file, the schema lists only the keys.
    """
    writer = _Writer()
    whole = writer.part(Scenario)
    overrides = {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            key: {"description": inner["description"]} if "description" in inner else True
            for key, inner in whole["properties"].items()
        },
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": TITLE,
        "description": "twopc check tells more: whether names refer to something, and orders can be played.",
        "type": "object",
        "required": ["twopc", "name"],
        "if": {"required": ["extends"]},
        "then": {"$ref": "#/$defs/Differences"},
        "else": {"$ref": "#/$defs/Scenario"},
        "$defs": dict(sorted({**writer.definitions, "Differences": overrides}.items())),
    }


def as_text() -> str:
    """Return the schema in the form of ``schema.json``."""
    return json.dumps(schema(), indent=2, ensure_ascii=False) + "\n"


class _Writer:
    """Writes one definition for each part."""

    def __init__(self) -> None:
        self.definitions: dict[str, Any] = {}

    def part(self, part: type[Part]) -> dict[str, Any]:
        """Return the definition of a part as a mapping, and add it with its short forms to `definitions`."""
        hints = typing.get_type_hints(part, include_extras=True)
        self.definitions[part.__name__] = {}  # a part may contain itself
        properties, required = {}, []
        for name, field in part.model_fields.items():
            if name in ("hole", "holes") or name in part.hidden:
                continue
            key = field.alias or name
            properties[key] = _described(self.of(hints[name]), _docs(part).get(name, ""))
            if field.is_required():
                required.append(key)
        properties |= part.more_keys()
        mapping: dict[str, Any] = {"type": "object", "additionalProperties": False}
        mapping["properties"] = properties
        if required:
            mapping["required"] = required
        mapping |= part.rules()
        forms = [*part.short_schema(), *([mapping] if properties else [])]
        whole = forms[0] if len(forms) == 1 else {"anyOf": forms}
        self.definitions[part.__name__] = _described(whole, inspect.cleandoc(part.__doc__ or ""))
        return mapping

    def of(self, hint: Any) -> dict[str, Any]:
        """Return the schema of the values that a type accepts."""
        origin, arguments = get_origin(hint), get_args(hint)
        if origin is typing.Annotated:
            return self._annotated(arguments[0], arguments[1:])
        if origin in (Union, types.UnionType):
            (one,) = [each for each in arguments if each is not type(None)]
            return self.of(one)
        if origin is Literal:
            return {"enum": list(arguments)}
        if origin is tuple:
            return {"type": "array", "items": self.of(arguments[0])}
        if origin is dict:
            return self._mapping(*arguments)
        if isinstance(hint, type) and issubclass(hint, Part):
            if hint.__name__ not in self.definitions:
                self.part(hint)
            return {"$ref": f"#/$defs/{hint.__name__}"}
        return dict(_PLAIN[hint])

    def _annotated(self, inner: Any, notes: tuple[Any, ...]) -> dict[str, Any]:
        for note in notes:
            if isinstance(note, WrittenForm):
                return dict(note.schema) if not note.around else {**self.of(inner), **note.schema}
        result = self.of(inner)
        if ONE_OR_MORE in notes:
            return {"anyOf": [result["items"], result]}
        return result

    def _mapping(self, key: Any, value: Any) -> dict[str, Any]:
        results: dict[str, Any] = {"type": "object", "additionalProperties": self.of(value)}
        names = {name: rule for name, rule in self.of(key).items() if name != "type"}
        return {**results, "propertyNames": names} if names else results


def _described(result: dict[str, Any], text: str) -> dict[str, Any]:
    words = " ".join(text.replace("``", "`").split())
    return {"description": words, **result} if words else result


@cache
def _docs(part: type[Part]) -> dict[str, str]:
    """Return the docstring of each field of a class."""
    (tree,) = ast.parse(inspect.getsource(part)).body
    assert isinstance(tree, ast.ClassDef)
    results: dict[str, str] = {}
    for field, below in zip(tree.body, tree.body[1:], strict=False):
        if (
            isinstance(field, ast.AnnAssign)
            and isinstance(field.target, ast.Name)
            and isinstance(below, ast.Expr)
            and isinstance(below.value, ast.Constant)
        ):
            results[field.target.id] = str(below.value.value)
    return results


if __name__ == "__main__":
    FILE.write_text(as_text(), encoding="utf-8")
    sys.exit(0)
