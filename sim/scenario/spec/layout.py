"""Writer of scenario files for editing by hand: short values in one line, SQL as blocks.

This module knows the layout of scenario files, not the source of the values.
"""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Iterator
from typing import Any

from twopc.sim.scenario.text import Map, Number

WIDTH = 100
_PLAIN = re.compile(r"[^\W\d][\w.-]*(?: [\w.-]+)*")
_READ_OTHERWISE = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n"})


def written(root: Map, *, comment: str = "") -> str:
    """Return the text of a scenario file, ending in a line break."""
    lines: list[str] = [f"# {comment}"] if comment else []
    for key, value in root.items():
        if isinstance(value, (Map, list)) and lines and key in ("topology", "sessions", "orders"):
            lines.append("")
        lines += _entry(key, value, 0)
    return "\n".join(lines) + "\n"


def scalar(value: Any) -> str:
    """Return a value in one line, in quotes if it would otherwise be read as another value."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Number) or (
        _PLAIN.fullmatch(value) and value.lower() not in _READ_OTHERWISE
    ):
        return str(value)
    if '"' in value and "'" not in value and value.isprintable():
        return f"'{value}'"
    quoted = json.dumps(value, ensure_ascii=False)
    return "".join(each if each.isprintable() else f"\\U{ord(each):08x}" for each in quoted)


def _flow(value: Any) -> str:
    """Return a value in one line, including lists and mappings."""
    if isinstance(value, dict):
        inside = ", ".join(f"{_key(key)}: {_flow(each)}" for key, each in value.items())
        return "{" + inside + "}"
    if isinstance(value, list):
        return f"[{', '.join(_flow(each) for each in value)}]"
    return scalar(value)


def _key(key: str) -> str:
    return key if _PLAIN.fullmatch(key) and key.lower() not in _READ_OTHERWISE else json.dumps(key)


def _entry(key: str, value: Any, indent: int) -> Iterator[str]:
    """Yield the lines of `key: value`, as few as are readable."""
    before = " " * indent
    if isinstance(value, Map) and value.flow and not _is_long(value):
        yield f"{before}{_key(key)}: {_flow(value)}"
    elif isinstance(value, Map):
        yield f"{before}{_key(key)}:"
        for inner, each in value.items():
            yield from _entry(inner, each, indent + 2)
    elif isinstance(value, list):
        yield from _list(key, value, indent)
    else:
        yield from _text(f"{before}{_key(key)}:", value, indent)


def _list(key: str, value: list[Any], indent: int) -> Iterator[str]:
    before = " " * indent
    if not any(_is_long(each) or (isinstance(each, Map) and not each.flow) for each in value):
        yield from _wrapped(f"{before}{_key(key)}: [", [_flow(each) for each in value])
        return
    yield f"{before}{_key(key)}:"
    for each in value:
        if isinstance(each, Map):
            inner = [line for name, one in each.items() for line in _entry(name, one, indent + 4)]
            yield f"{before}  - {inner[0].lstrip()}"
            yield from inner[1:]
        else:
            yield from _text(f"{before}  -", each, indent + 2)


def _wrapped(begin: str, items: list[str]) -> Iterator[str]:
    """Yield the lines of a list in brackets, broken between items if a line would be too long."""
    line, hang = begin, " " * len(begin)
    for number, item in enumerate(items):
        last = number == len(items) - 1
        if len(line) + len(item) + 1 > WIDTH and line.strip() != begin.strip():
            yield line.rstrip()
            line = hang
        line += item + ("" if last else ", ")
    yield line + "]"


def _is_long(value: Any) -> bool:
    """Return whether a value needs lines of its own."""
    if isinstance(value, dict):
        return any(_is_long(each) for each in value.values())
    if isinstance(value, list):
        return any(_is_long(each) for each in value)
    return isinstance(value, str) and ("\n" in value or len(value) > WIDTH - 30)


def _text(begin: str, value: Any, indent: int) -> Iterator[str]:
    if not isinstance(value, str) or not _is_long(value):
        yield f"{begin} {scalar(value)}"
    elif "\n" not in value and value.isprintable() and "  " not in value:
        yield f"{begin} >-"
        yield from textwrap.wrap(
            value,
            WIDTH,
            initial_indent=" " * (indent + 2),
            subsequent_indent=" " * (indent + 2),
            break_long_words=False,
            break_on_hyphens=False,
        )
    elif all(each.isprintable() or each in "\n\t" for each in value):
        yield f"{begin} |-"
        for line in _dedented(value):
            yield f"{' ' * (indent + 2)}{line}" if line.strip() else ""
    else:
        yield f"{begin} {scalar(value)}"


def _dedented(value: str) -> list[str]:
    """Return the lines of a text, those after the first without their common indentation, unless it may be part of
    a string constant.
    """
    first, _, rest = value.partition("\n")
    lines = value.split("\n")
    before = ["\n".join(lines[:number]) for number in range(1, len(lines))]
    if any(each.count("'") % 2 or "$" in each or "/*" in each for each in before):
        return lines
    return [first, *textwrap.dedent(rest).split("\n")]
