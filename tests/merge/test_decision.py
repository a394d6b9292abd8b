"""Decisions about incoming rows: the documented examples, and the SQL function on random rows."""

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
    """Return a row version: its lineage, and for each column the replica that changed it last."""
    replicas = {"a": A, "b": B, "c": C, "d": D, "p": PUBLISHER}
    known = {replicas[name]: number for name, number in lineage.items()}
    return RowVersion(
        lineage=known,
        gone=gone,
        columns=tuple(c and (c, known[c]) for c in columns) if columns else None,
    )


@dataclass
class Site:
    """The Publisher of the documented example, and the replica whose row version it holds."""

    servers: dict[int, float]
    held: RowVersion
    writer: int = PUBLISHER
    decisions: list[MergeDecision] = field(default_factory=list)

    def upload(self, writer: int, incoming: RowVersion) -> MergeDecision:
        """Decide about a row version that a Subscriber uploads."""
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
    """The winners are those of the documented example.

    Publisher A has priority 100, B 75 and C 50; D is a client.
    """
    servers = {B: 75.0, C: 50.0}
    # A has changed the row: B loses.
    site = Site(servers, version(p=1))
    assert site.upload(B, version(b=1)).verdict is Verdict.KEEP
    # A has not changed the row: C's change is applied.
    site = Site(servers, version())
    assert site.upload(C, version(c=1)).verdict is Verdict.APPLY
    # C's change keeps its priority of 50 at A, so that B wins later.
    accepted = site.upload(B, version(b=1))
    assert (accepted.verdict, accepted.conflict) == (Verdict.REPLACE, ConflictType.UPDATE_UPDATE)
    # D's change has A's priority once it is applied, so that B loses.
    site = Site(servers, version())
    assert site.upload(D, version(d=1)).verdict is Verdict.APPLY
    assert site.upload(B, version(b=1)).verdict is Verdict.KEEP


def test_the_first_of_two_equal_ones_wins() -> None:
    """Of two changes with equal priority, from clients or servers, the first one uploaded wins."""
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
    """Different columns are merged, one column conflicts, and a deletion affects all columns."""
    made = decide(held, incoming, **NOW, column_tracking=True, held_priority=1, priority=2)
    assert (made.verdict, made.conflict) == (verdict, conflict)


def test_what_went_back_is_a_change() -> None:
    """A column of the loser that is reset gets the resolver's version.

    A replica that has received the loser's change therefore receives the reset, too.
    """
    held, incoming = version(A, A, a=1), version(B, None, b=1)
    made = decide(held, incoming, **NOW, column_tracking=True, held_priority=1, priority=2)
    assert made.version.columns == ((PUBLISHER, 2), (PUBLISHER, 2))
    assert made.version.lineage == {A: 1, B: 1, PUBLISHER: 2}


def drawn(chance: random.Random, columns: int) -> RowVersion:
    """Return a random row version, changed by up to three of four replicas."""
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
    """Return a row version in the form that the SQL function reads."""
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
    """`msrepl.merge_decide` decides as `decide` does on 4,000 random pairs; in full 100,000.

    The rows of a pair were changed concurrently or not.
    """
    chance = random.Random(f"merge decisions {number}")
    cases = []
    for _ in range(4000):
        columns, added = chance.randint(1, 4), chance.choice((0, 0, 1, 2))  # columns added later
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
    assert len(seen) >= 9  # every verdict and every type of conflict


def test_entries_round_trip() -> None:
    """The largest replica and version fit into 64 bits, and survive packing and unpacking."""
    largest = (2**32 - 1, 2**31 - 1)
    assert unpack(pack(*largest)) == largest
    assert pack(*largest) < 2**63
    assert unpacked(packed({1: 2, 3: 4})) == {1: 2, 3: 4}
