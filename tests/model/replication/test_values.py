"""Tests of facts as JSON, and of the net effect of a statement's changes."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest

from twopc.errors import KINDS, from_sqlstate
from twopc.sim.model.replication import facts
from twopc.sim.model.replication.pending_rows import HeldRow, net_effect
from twopc.sim.model.values import Values

VERSION = UUID(int=7)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "null"),
        (True, "true"),
        (3, "3"),
        (Decimal("20.00"), "20.00"),
        (Decimal("1E+3"), "1000"),
        ('a "word"', '"a \\"word\\""'),
        ("ä", '"ä"'),
        (date(2024, 1, 2), '"2024-01-02"'),
        (datetime(2024, 1, 2, 3, 4, tzinfo=UTC), '"2024-01-02T03:04:00+00:00"'),
        (VERSION, f'"{VERSION}"'),
        (b"\x01", '"\\\\x01"'),
        ([1, None], "[1, null]"),
        ({"a": Decimal("1.5")}, '{"a": 1.5}'),
    ],
)
def test_as_json(value: Any, text: str) -> None:
    """Values are shown as `to_jsonb` shows them."""
    assert facts.json_text(value) == text
    json.loads(facts.json_text(value))


def test_json_stays_json() -> None:
    """The value of a JSON column is not quoted again."""
    shown = facts.row_json([("id", "integer"), ("what", "jsonb")], (1, '{"a": [1]}'))
    assert json.loads(shown.text) == {"id": 1, "what": {"a": [1]}}


@pytest.mark.parametrize(
    "kind", [kind for kind, (_, number) in KINDS.items() if number in (20515, 21034)]
)
def test_every_kind_is_understood(kind: str) -> None:
    """Each kind of conflict in the model becomes the same exception as on a server."""
    state, number = KINDS[kind]
    key = facts.row_json([("id", "integer")], (1,))
    error = facts.conflict(kind, state, number, "account", key, "no", sent=VERSION, held=VERSION)
    found: Any = from_sqlstate(error.sqlstate, error.message, detail=error.detail, hint=error.hint)
    assert (found.kind, found.number, found.key) == (kind, number, {"id": 1})
    assert found.facts["subscriber_version"] == str(VERSION)
    assert found.hint.startswith("20512")


def row(
    place: int, old: int | None, new: int | None, key: int = 1, *, moved: bool = False
) -> HeldRow:
    """Return a row with these versions; None means that it did not exist."""

    def link(version: int | None) -> Values | None:
        return None if version is None else ("t", key, version)

    return HeldRow(
        article="t", place=place, old_link=link(old), new_link=link(new), moved=moved,
        old_key=None if old is None else (key, old), old=link(old), new=link(new),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "effects"),
    [
        ([row(1, None, 1)], [("ins", None, 1)]),
        ([row(1, 1, 2)], [("upd", 1, 2)]),
        ([row(1, 1, None)], [("del", 1, None)]),
        ([row(1, 1, 2), row(2, 2, 3)], [("upd", 1, 3)]),
        ([row(2, 2, 3), row(1, 1, 2)], [("upd", 1, 3)]),
        ([row(1, None, 1), row(2, 1, 2)], [("ins", None, 2)]),
        ([row(1, None, 1), row(2, 1, None)], []),
        ([row(1, 1, 2), row(2, 2, None)], [("del", 1, None)]),
        ([row(1, 1, 2), row(1, 5, 6, key=2)], [("upd", 1, 2), ("upd", 5, 6)]),
        ([row(1, 1, None), row(2, None, 9)], [("del", 1, None), ("ins", None, 9)]),
    ],
)
def test_net_effect(rows: list[HeldRow], effects: list[tuple[str, int | None, int | None]]) -> None:
    """The net effect contains each row once, from its first to its last version."""
    found = [
        (
            net.operation,
            net.first.old_link[-1] if net.first.old_link else None,
            net.last.new_link[-1] if net.last.new_link else None,
        )
        for net in net_effect(rows)
    ]
    assert found == effects


def test_net_effect_keeps_the_last_statement() -> None:
    """The net effect has the place of the last statement, and is moved if any change was."""
    (net,) = net_effect([row(1, 1, 2, moved=True), row(3, 2, 3)])
    assert (net.place, net.moved) == (3, True)
