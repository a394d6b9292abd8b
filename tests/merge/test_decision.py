"""Decisions about incoming rows: the documented stories, and the SQL twin on drawn pairs."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.fix_server import Database
from tests.merge.nodes import tracked
from twopc.merge.decision import (
    CLIENT_PRIORITY,
    ConflictType,
    MergeDecision,
    RowVersion,
    Side,
    Verdict,
    decide,
    priority_of,
)
from twopc.merge.lineage import pack, packed, unpack, unpacked

A, B, C, D = 1, 2, 3, 4
PUBLISHER = 9
NOW = {"replica": PUBLISHER, "resolves": True}


def version(*columns: int | None, gone: bool = False, **lineage: int) -> RowVersion:
    """A row version by replica and, of each column, whose version it has."""
    replicas = {"a": A, "b": B, "c": C, "d": D, "p": PUBLISHER}
    known = {replicas[name]: number for name, number in lineage.items()}
    return RowVersion(
        lineage=known,
        gone=gone,
        columns=tuple(c and (c, known[c]) for c in columns) if columns else None,
    )


@dataclass
class Site:
    """The Publisher of the documented example, and who wrote what it holds."""

    servers: dict[int, float]
    held: RowVersion
    writer: int = PUBLISHER
    decisions: list[MergeDecision] = field(default_factory=list)

    def upload(self, writer: int, incoming: RowVersion) -> MergeDecision:
        """A Subscriber sends its version of the row."""
        made = decide(
            self.held, incoming, **NOW, column_tracking=False,
            held_priority=priority_of(self.writer, self.servers),
            priority=self.servers.get(writer, CLIENT_PRIORITY),
        )  # fmt: skip
        self.held = made.version
        if made.verdict in (Verdict.APPLY, Verdict.REPLACE):
            self.writer = writer
        return made


def test_priority_story() -> None:
    """The documented example: Publisher A (100), B (75), C (50), and D, a client, in four phases."""
    servers = {B: 75.0, C: 50.0}
    # A has changed the row: B loses against it
    site = Site(servers, version(p=1))
    assert site.upload(B, version(b=1)).verdict is Verdict.KEEP
    # nobody has changed it at A: C is accepted
    site = Site(servers, version())
    assert site.upload(C, version(c=1)).verdict is Verdict.APPLY
    # C's change keeps its priority of 50 at A, so that B wins later
    accepted = site.upload(B, version(b=1))
    assert (accepted.verdict, accepted.conflict) == (Verdict.REPLACE, ConflictType.UPDATE_UPDATE)
    # D's change is A's own once it is accepted, so that B loses
    site = Site(servers, version())
    assert site.upload(D, version(d=1)).verdict is Verdict.APPLY
    assert site.upload(B, version(b=1)).verdict is Verdict.KEEP


def test_the_first_of_two_equal_ones_wins() -> None:
    """Of two clients, and of two servers with one priority."""
    for servers in ({}, {B: 50.0, C: 50.0}):
        site = Site(servers, version())
        site.upload(B, version(b=1))
        assert site.upload(C, version(c=1)).verdict is Verdict.KEEP


@pytest.mark.parametrize(
    ("held", "incoming", "verdict", "conflict"),
    [
        (version(A, None, a=1), version(None, B, b=1), Verdict.MERGE, None),
        (version(A, None, a=1), version(B, None, b=1), Verdict.REPLACE, ConflictType.UPDATE_UPDATE_COLUMN),
        (version(gone=True, a=1), version(B, None, b=1), Verdict.REPLACE, ConflictType.UPDATE_WINS),
        (version(A, None, a=1), version(gone=True, b=1), Verdict.REPLACE, ConflictType.DELETE_WINS),
        (version(gone=True, a=1), version(gone=True, b=1), Verdict.KEEP, None),
        (version(gone=True, a=2), version(A, None, a=1), Verdict.SKIP, None),
        (version(gone=True, a=2), version(B, B, a=2, b=3), Verdict.APPLY, None),
    ],
)  # fmt: skip
def test_with_column_tracking(
    held: RowVersion, incoming: RowVersion, verdict: Verdict, conflict: ConflictType | None
) -> None:
    """Different columns meet; the same one is a conflict; a deletion concerns all of them."""
    made = decide(held, incoming, **NOW, column_tracking=True, held_priority=1, priority=2)
    assert (made.verdict, made.conflict) == (verdict, conflict)


def test_what_went_back_is_a_change() -> None:
    """A column of the loser that goes back has the resolver's version: whoever has seen the loser's is told."""
    held, incoming = version(A, A, a=1), version(B, None, b=1)
    made = decide(held, incoming, **NOW, column_tracking=True, held_priority=1, priority=2)
    assert made.version.columns == ((PUBLISHER, 2), (PUBLISHER, 2))
    assert made.version.lineage == {A: 1, B: 1, PUBLISHER: 2}


def drawn(chance: random.Random, columns: int) -> RowVersion:
    """A version that some of four replicas have made, with or without columns."""
    lineage = {
        replica: chance.choice((1, 2, 3, 2**31 - 2))
        if chance.random() < 0.1
        else chance.randint(1, 3)
        for replica in chance.sample((A, B, PUBLISHER, 2**32 - 1), chance.randint(1, 3))
    }
    made = tuple(
        chance.choice((None, *lineage.items())) if chance.random() < 0.7 else None
        for _ in range(columns)
    )
    return RowVersion(
        lineage=lineage,
        gone=chance.random() < 0.25,
        columns=made if chance.random() < 0.9 else None,
    )


def as_json(row: RowVersion | None) -> dict[str, Any]:
    """How the SQL twin reads it."""
    if row is None:
        return {"gone": None, "lineage": None, "colv": None}
    colv = None if row.columns is None else [pack(*c) if c else 0 for c in row.columns]
    return {"gone": row.gone, "lineage": packed(row.lineage), "colv": colv}


_TWIN = """
select d.verdict, d.conflict, coalesce(d.taken, '{}'), d.gone, d.lineage, d.colv
from jsonb_array_elements(%s::jsonb) with ordinality as j(v, place)
cross join lateral (select
    array(select e::int8 from jsonb_array_elements_text(nullif(j.v -> 'held' -> 'lineage', 'null')) as e) as lineage,
    case when j.v -> 'held' -> 'colv' <> 'null'
         then array(select e::int8 from jsonb_array_elements_text(j.v -> 'held' -> 'colv') as e) end as colv) as h
cross join lateral (select
    array(select e::int8 from jsonb_array_elements_text(j.v -> 'row' -> 'lineage') as e) as lineage,
    case when j.v -> 'row' -> 'colv' <> 'null'
         then array(select e::int8 from jsonb_array_elements_text(j.v -> 'row' -> 'colv') as e) end as colv) as i
cross join lateral msrepl.merge_decide(
    (j.v -> 'held' ->> 'gone')::boolean, h.lineage, h.colv, (j.v ->> 'held_priority')::real,
    (j.v -> 'row' ->> 'gone')::boolean,
    i.lineage, msrepl.merge_unforgotten(i.colv, i.lineage, h.lineage,
        array(select e::int8 from jsonb_array_elements_text(j.v -> 'others') as e), (j.v ->> 'lowest')::integer),
    (j.v ->> 'priority')::real, 9, (j.v ->> 'column_tracking')::boolean, (j.v ->> 'resolves')::boolean,
    (j.v ->> 'is_same')::boolean, j.v ->> 'choice', (j.v ->> 'is_present')::boolean,
    (j.v ->> 'is_confirmed')::boolean, (j.v ->> 'lowest')::integer) as d
order by j.place
"""


@pytest.mark.sample(1)
@pytest.mark.parametrize("number", range(25))
async def test_the_sql_twin(fresh_database: Database, number: int) -> None:
    """It decides as `decide` does, about 4,000 drawn pairs of rows that were changed on their own or not; in full 100,000."""
    chance = random.Random(f"merge decisions {number}")
    cases = []
    for _ in range(4000):
        columns, added = chance.randint(1, 4), chance.choice((0, 0, 1, 2))  # since one was written
        held = (
            drawn(chance, columns + chance.choice((0, added))) if chance.random() < 0.95 else None
        )
        options = {
            "resolves": chance.random() < 0.8,
            "column_tracking": chance.random() < 0.6,
            "held_priority": chance.choice((0, 50, 75, 100)),
            "priority": chance.choice((0, 50, 75)),
            "is_same": chance.random() < 0.5,
            "choice": chance.choice((None, None, *Side)),
            "is_present": chance.random() < 0.5,
            "others": chance.choice(((), (1, PUBLISHER))),
            "lowest": chance.choice((0, 0, 7)),
            "is_confirmed": chance.random() < 0.2,
        }
        row = held if held is not None and chance.random() < 0.1 else drawn(chance, columns + added)
        cases.append((held, row, options))
    asked = json.dumps(
        [{"held": as_json(held), "row": as_json(row), **options} for held, row, options in cases]
    )
    async with tracked(fresh_database) as node:
        cursor = await node.connection.execute(_TWIN, (asked,))
        found = await cursor.fetchall()
    seen = set()
    for (held, row, options), answer in zip(cases, found, strict=True):
        made = decide(held, row, replica=PUBLISHER, **options)
        after = as_json(made.version)
        expected = (
            made.verdict.value, made.conflict, list(made.taken), after["gone"], after["lineage"], after["colv"]
        )  # fmt: skip
        assert (*answer[:4], sorted(answer[4]), answer[5]) == expected, (held, row, options)
        seen.add((made.verdict, made.conflict))
    assert len(seen) >= 9  # every verdict, and every type of conflict


def test_entries_round_trip() -> None:
    """The largest replica and version fit into 64 bits."""
    largest = (2**32 - 1, 2**31 - 1)
    assert unpack(pack(*largest)) == largest
    assert pack(*largest) < 2**63
    assert unpacked(packed({1: 2, 3: 4})) == {1: 2, 3: 4}
