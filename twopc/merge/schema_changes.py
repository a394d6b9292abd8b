"""Schema changes that travel: columns added, dropped and widened, each a numbered step. Pure.

A change is data, never the text of a statement: each node makes its own DDL of it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from twopc.errors import MergeError


class SchemaChangeKind(StrEnum):
    """What becomes of a column."""

    ADD = "add"
    DROP = "drop"
    WIDEN = "widen"
    """Its type takes all values that it took before, and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """One step of a publication's list (a row of ``sysmergeschemachange``)."""

    version: int
    """Its number in the list: 1, 2, 3 …"""
    guid: UUID
    """By which a list is recognised that was restored and went on differently."""
    artid: UUID
    kind: SchemaChangeKind
    column: str
    number: int
    """Which of the column versions is the column's own; never given again."""
    type: str | None = None
    """As `format_type` gives it; None for a column that is dropped."""
    default: str | None = None
    """Text of a constant; None: there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaMark:
    """How far a node has come in the list: its last step."""

    version: int = 0
    guid: UUID | None = None
    """None: there was no step yet."""


NO_STEP = SchemaMark()


def mark_of(changes: Sequence[SchemaChange]) -> SchemaMark:
    """How far somebody has come who has made these."""
    return SchemaMark(version=changes[-1].version, guid=changes[-1].guid) if changes else NO_STEP


def missing_steps(
    above: str, changes: Sequence[SchemaChange], below: str, held: SchemaMark
) -> list[SchemaChange]:
    """The steps of a Publisher's list that a Subscriber lacks, in order.

    Args:
        above: the Publisher; `changes`: its whole list.
        below: the Subscriber; `held`: the last step that it has made.

    Raises:
        MergeError: the Subscriber has made a step that the Publisher does not know: one of them was restored.
    """
    known = [NO_STEP, *(SchemaMark(version=each.version, guid=each.guid) for each in changes)]
    if held not in known:
        raise MergeError(
            f"{below} has made schema change {held.version}, which {above} does not know: {above} was restored to "
            f"what it was before. If {above} subscribes itself, `twopc merge sync {above}` brings the change again, and "
            f"nothing is lost; else `twopc merge unsubscribe {below}`, drop its tables there, and subscribe it again"
        )
    return [each for each in changes if each.version > held.version]


_TYPE = re.compile(r"(?P<name>[a-z ]+?)(?:\((?P<first>\d+)(?:,(?P<second>-?\d+))?\))?\Z")
#: Other names of the types that can be widened.
_NAMES = {
    "int2": "smallint", "smallserial": "smallint", "int": "integer", "int4": "integer", "serial": "integer",
    "int8": "bigint", "bigserial": "bigint", "float4": "real", "float8": "double precision",
    "float": "double precision", "varchar": "character varying", "decimal": "numeric",
}  # fmt: skip
#: Each takes what those before it take.
_CHAINS = (("smallint", "integer", "bigint"), ("real", "double precision"))


def type_name(written: str) -> str:
    """A type that can be widened as `format_type` gives it; another one as it is written."""
    text = re.sub(r"\s*([(,)])\s*", r"\1", " ".join(written.lower().split()))
    match = _TYPE.match(text)
    name = re.match(r"[a-z0-9]+", text)
    if name is None or (match is None and name[0] not in _NAMES):
        return text
    full = _NAMES.get(name[0], name[0]) + text[name.end() :]
    return re.sub(r"^numeric\((\d+)\)", r"numeric(\1,0)", full)


def widens(old: str, new: str) -> bool:
    """Whether a type takes all values of another, each with the same text but for padding.

    Args:
        old: as `format_type` gives it.
    """
    before, after = _TYPE.match(old), _TYPE.match(new)
    if before is None or after is None or old == new:
        return False
    names = before["name"], after["name"]
    for chain in _CHAINS:
        if names[0] in chain and names[1] in chain:
            return chain.index(names[0]) < chain.index(names[1])
    if names == ("character varying", "text"):
        return True
    if names == ("character varying", "character varying"):
        return after["first"] is None or _is_longer(before, after)
    if names == ("numeric", "numeric"):
        return after["first"] is None or (
            before["second"] == after["second"] and _is_longer(before, after)
        )
    return names[1] == "numeric" and after["first"] is None and names[0] in _CHAINS[0]


def _is_longer(before: re.Match[str], after: re.Match[str]) -> bool:
    return before["first"] is not None and int(before["first"]) < int(after["first"])
