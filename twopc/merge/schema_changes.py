"""Propagated schema changes: columns added, dropped and widened, each a numbered step. Pure.

A change is data, never the text of a statement: each node generates its own DDL from it.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from uuid import UUID

from twopc.errors import MergeError


class SchemaChangeKind(StrEnum):
    """Kind of change of a column."""

    ADD = "add"
    DROP = "drop"
    WIDEN = "widen"
    """The new type accepts all values of the old one, and more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaChange:
    """One step of a publication's list (a row of ``sysmergeschemachange``)."""

    version: int
    """Number of the step in the list: 1, 2, 3 …"""
    guid: UUID
    """Identifier by which a list is recognised that was restored and then continued differently."""
    artid: UUID
    kind: SchemaChangeKind
    column: str
    number: int
    """Number of the column's column version; never used again."""
    type: str | None = None
    """Type as `format_type` returns it; None for a column that is dropped."""
    default: str | None = None
    """Text of a constant default; None if there is none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaMark:
    """A node's position in the list: the last step that it has performed."""

    version: int = 0
    guid: UUID | None = None
    """Identifier of the last step; None before the first step."""


NO_STEP = SchemaMark()


def mark_of(changes: Sequence[SchemaChange]) -> SchemaMark:
    """Return the mark of a node that has performed these changes."""
    return SchemaMark(version=changes[-1].version, guid=changes[-1].guid) if changes else NO_STEP


def missing_steps(
    above: str, changes: Sequence[SchemaChange], below: str, held: SchemaMark
) -> list[SchemaChange]:
    """Return the steps of a Publisher's list that a Subscriber lacks, in order.

    Args:
        above: the Publisher.
        changes: the Publisher's whole list.
        below: the Subscriber.
        held: the last step that the Subscriber has performed.

    Raises:
        MergeError: the Subscriber has performed a step that the Publisher does not know, because one of them was
            restored.
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
#: Each type accepts all values of the types before it.
_CHAINS = (("smallint", "integer", "bigint"), ("real", "double precision"))


def type_name(written: str) -> str:
    """Return a type that can be widened in the form of `format_type`; any other type as written."""
    text = re.sub(r"\s*([(,)])\s*", r"\1", " ".join(written.lower().split()))
    match = _TYPE.match(text)
    name = re.match(r"[a-z0-9]+", text)
    if name is None or (match is None and name[0] not in _NAMES):
        return text
    full = _NAMES.get(name[0], name[0]) + text[name.end() :]
    return re.sub(r"^numeric\((\d+)\)", r"numeric(\1,0)", full)


def widens(old: str, new: str) -> bool:
    """Return whether a type accepts all values of another, each with the same text except for padding.

    Args:
        old: as `format_type` returns it.
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
