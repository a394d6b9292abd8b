"""Rows that are held until no statement is open any more, and their net effect.

Implements the effects of
subscriber/sql/{enter_statement,leave_statement,hold_*,release_held,close_statement,send_held}.sql. Within one
statement a referential action or a user's trigger may change or delete a row again. The links from version to
version are therefore followed, and each row is sent once, children before their parents.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.replication.articles import ModelArticle
from twopc.sim.model.replication.behaviour import Behaviour
from twopc.sim.model.replication.calls import DeferKeys, Operation, SyncCall
from twopc.sim.model.replication.link import Link
from twopc.sim.model.values import Values

_OPEN, _HELD = "msrepl.open_statements", "msrepl.held_rows"


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldRow:
    """A row that a statement has changed."""

    article: str
    place: int
    """Number of the statement, among those that were open together."""
    old_link: Values | None
    """Identity of the old row (table, key and version); None if it was inserted."""
    new_link: Values | None
    """Identity of the new row; None if it was deleted."""
    old_key: Values | None
    """Old key and version."""
    old: Values | None
    """Old row, as sent."""
    new: Values | None
    moved: bool
    """Whether an update has changed columns to which foreign keys with actions refer."""


def enter(tx: OpenTx, table: str, operation: str) -> None:
    """``msrepl.enter_statement``: register the start of a statement."""
    state = tx.setting(_OPEN) or "0"
    number = int(state.partition(";")[0]) + 1
    rest = state[state.index(";") :] if ";" in state else ""
    tx.set(_OPEN, f"{number}{rest};{table} {operation} {number}", local=True)


def leave(tx: OpenTx, table: str, operation: str, *, ends: bool, may_act: bool) -> int:
    """``msrepl.leave_statement``: return the number under which the rows must be held; 0 if they may be sent."""
    state = tx.setting(_OPEN) or ""
    match = re.search(f";{re.escape(table)} {operation} ([0-9]+)", state)
    others = state if match is None else state[: match.start()] + state[match.end() :]
    if ends and match is not None:
        tx.set(_OPEN, others, local=True)
    if ";" not in others and not may_act and not tx.setting(_HELD):
        return 0
    return int(match[1]) if match is not None else 1


def hold(tx: OpenTx, link: Link, rows: Sequence[HeldRow]) -> None:
    """Keep the rows of a statement."""
    if not rows:
        return
    link.numbers += 1
    number = str(link.numbers)
    link.held[number] = tuple(rows)
    tx.set(_HELD, f"{tx.setting(_HELD) or ''} {number}".strip(), local=True)


def released(tx: OpenTx, link: Link) -> list[HeldRow]:
    """``msrepl.release_held``: return the held rows, once no statement is open."""
    if ";" in (tx.setting(_OPEN) or ""):
        return []
    tx.set(_OPEN, "", local=True)
    numbers = (tx.setting(_HELD) or "").split()
    if numbers:
        tx.set(_HELD, "", local=True)
    return [row for number in numbers for row in link.held.pop(number, ())]


@dataclass(slots=True, kw_only=True)
class _Net:
    """The net effect of a row's changes."""

    article: str
    place: int
    first: HeldRow
    last: HeldRow
    moved: bool

    @property
    def operation(self) -> Operation:
        """Operation that is sent."""
        if self.first.old_link is None:
            return "ins"
        return "del" if self.last.new_link is None else "upd"


def net_effect(rows: Sequence[HeldRow]) -> list[_Net]:
    """Return the net effect of each row; rows that were inserted and deleted again are left out."""
    by_old = {row.old_link: row for row in rows if row.old_link is not None}
    made = {row.new_link for row in rows if row.new_link is not None}
    results = []
    for row in rows:
        if row.old_link is not None and row.old_link in made:
            continue
        net = _Net(article=row.article, place=row.place, first=row, last=row, moved=row.moved)
        while net.last.new_link is not None and net.last.new_link in by_old:
            after = by_old[net.last.new_link]
            net.place, net.moved = max(net.place, after.place), net.moved or after.moved
            net.last = after
        if net.first.old_link is not None or net.last.new_link is not None:
            results.append(net)
    return results


def calls(
    rows: Sequence[HeldRow], articles: Mapping[str, ModelArticle], behaviour: Behaviour
) -> list[SyncCall]:
    """``msrepl.send_held``: return the calls to send, in the order that foreign keys require."""
    nets = net_effect(rows)
    above = _parents_of({net.article for net in nets}, articles)
    groups: dict[tuple[str, Operation, int, bool], list[_Net]] = {}
    for net in nets:
        up = above[net.article]
        entangled = any(other != net.article and net.article in above[other] for other in up)
        wave = net.place if entangled and net.operation != "ins" else 0
        last = net.article in up and net.operation == "upd" and net.moved
        groups.setdefault((net.article, net.operation, wave, last), []).append(net)

    def order(group: tuple[str, Operation, int, bool]) -> tuple[object, ...]:
        article, operation, wave, last = group
        up = above[article]
        rank = len(up - {article})
        first = operation == "del" if article in up else operation == "upd"
        inserts = operation == "ins"
        number = list(articles).index(article)
        return inserts, rank if inserts else -rank, last, first, -wave, number

    chosen = sorted(groups, key=order) if behaviour.children_first() else list(groups)
    return [_call(articles[group[0]], group[1], groups[group]) for group in chosen]


def in_message(made: Sequence[SyncCall]) -> list[SyncCall | DeferKeys]:
    """Return calls as parts of a message; several calls are enclosed in deferral of the Publisher's foreign keys."""
    if len(made) < 2:
        return [*made]
    return [DeferKeys(defer=True), *made, DeferKeys(defer=False)]


def _call(article: ModelArticle, operation: Operation, nets: Sequence[_Net]) -> SyncCall:
    old: tuple[Values | None, ...] = ()
    new: tuple[Values | None, ...] = ()
    if operation == "upd":
        old = tuple(net.first.old_key for net in nets)
    elif operation == "del":
        old = tuple(net.first.old for net in nets)
    if operation != "del":
        new = tuple(net.last.new for net in nets)
    return SyncCall(
        operation=operation, article=article.name, old=tuple(one for one in old if one is not None),
        new=tuple(one for one in new if one is not None),
    )  # fmt: skip


def _parents_of(changed: set[str], articles: Mapping[str, ModelArticle]) -> dict[str, set[str]]:
    """Return, for each changed table, the other changed tables to which it refers directly or indirectly."""
    direct = {
        name: {key.parent.name for key in articles[name].references} & changed
        for name in sorted(changed)
    }
    above = {name: set(results) for name, results in direct.items()}
    while True:
        grown = {
            name: result | {up for one in sorted(result) for up in direct[one]}
            for name, result in above.items()
        }
        if grown == above:
            return above
        above = grown
