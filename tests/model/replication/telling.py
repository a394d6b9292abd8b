"""The results of a history as comparable lines."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from twopc.errors import ConflictError, TransactionError
from twopc.names import GlobalId
from twopc.sim.model.sql.types import as_text
from twopc.waits import Graph, OpenTransaction, Party, build

#: Facts that contain process ids or gids.
_FLEETING = {"holders"}
_SEVERAL = re.compile(r"\b(?!1 )\d+ of \d+ rows")
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


@dataclass
class Played:
    """Lines of the steps, and rows by node and table at the end."""

    lines: list[str] = field(default_factory=list)
    tables: dict[str, list[str]] = field(default_factory=dict)
    prepared: list[str] = field(default_factory=list)

    def text(self) -> str:
        """Return everything as text, with row versions renamed by first appearance."""
        known: dict[str, str] = {}
        parts = [*self.lines]
        for name, rows in self.tables.items():
            parts += [f"-- {name}", *rows]
        parts += [f"prepared: {gid}" for gid in self.prepared]
        whole = "\n".join(parts)
        return _UUID.sub(lambda found: known.setdefault(found[0], f"v{len(known) + 1}"), whole)


def told(tag: str, rows: Iterable[Sequence[Any]] | None) -> str:
    """Return the line of a result: its tag and rows."""
    if rows is None:
        return tag
    shown = [
        "(" + ", ".join("null" if v is None else as_text(v) for v in row) + ")" for row in rows
    ]
    return " ".join((tag, *shown))


def refused(error: TransactionError) -> str:
    """Return the line of an error: class, kind, SQLSTATE, node, SQL Server's number, and facts."""
    if _SEVERAL.search(str(error)):
        # which row is named depends on the order of the versions, and so on the gid
        return f"{type(error).__name__} | several rows | {error.node}"
    kind = getattr(error, "kind", "")
    parts = [type(error).__name__, kind, error.sqlstate, error.node, str(error.number or "")]
    facts = json.loads(error.detail) if error.detail.startswith("{") else None
    if isinstance(facts, dict):
        kept = {name: value for name, value in facts.items() if name not in _FLEETING}
        parts.append(json.dumps(kept, sort_keys=True))
    if (
        isinstance(error, ConflictError) and facts and kind != "not_in_partition"
    ):  # the message shows the filter
        parts.append(str(error))
    return " | ".join(parts)


def waiting(graph: Graph, server: str, pid: int, names: Mapping[Party, str]) -> list[str]:
    """Return for which sessions and branches a session waits, at either node."""
    found = {
        f"a branch of {names.get(edge.holder, 'nobody')}" if edge.holder_gid
        else names.get(edge.holder, "somebody")
        for edge in graph.edges.get(Party(server, pid), ())
    }  # fmt: skip
    return sorted(found)


def graph_of(
    sessions: Sequence[OpenTransaction],
    transactions: Mapping[GlobalId, tuple[tuple[str, int], ...]],
) -> Graph:
    """Return the wait graph."""
    return build(sessions, transactions)


class Notes:
    """Records what happens after each step."""

    def __init__(self, played: Played) -> None:
        self.played = played
        self.busy: dict[str, str] = {}
        """The step of each session that has not ended."""
        self.ended: dict[str, str] = {}
        """Results of ended steps that have no line yet."""

    def tell(self, step: str, waits: Mapping[str, Sequence[str]]) -> None:
        """Record a launched step, after every step has ended or waits."""
        lines, own = self.played.lines, step.partition(" ")[2]
        if step in self.ended:
            lines.append(f"{step}: {self.ended.pop(step)}")
        elif step:
            lines.append(f"{step} waits for {', '.join(waits.get(own, ())) or 'nobody'}")
        lines += [f"  then {other}: {self.ended.pop(other)}" for other in sorted(self.ended)]
