"""Incoming rows that are applied unchanged: which rows these are, and how lineages are stored."""

from __future__ import annotations

import random
from collections.abc import Mapping
from uuid import UUID

import pytest

from tests.fix_server import Database
from tests.merge.nodes import tracked
from twopc.merge.decision import RowVersion, Verdict, decide
from twopc.merge.lineage import packed

ME, PEER = 7, 5
REPLICAS = (ME, PEER, 1, 8, 2**32 - 1)
_NEIGHBOUR = (
    "update msrepl.msmerge_replica set replica = 7",
    "insert into msrepl.sysmergesubscriptions (subscriber_server, replnickname, login) values ('anna', 5, session_user)",
)
_HOLD = """
insert into msrepl.msmerge_metadata (tablenick, rowguid, xid, gone, own, top, lineage)
select a.nickname, i.rowguid, pg_current_xact_id(), false, l.own, l.top, nullif(l.others, '{}')
from msrepl.sysmergearticles as a, unnest(%s::uuid[], %s::text[]) as i(rowguid, lineage),
     msrepl.merge_lineage_parts(i.lineage::int8[], 7) as l
"""
_APPLY = """
select t.* from msrepl.sysmergearticles as a, unnest(%s::uuid[], %s::text[]) with ordinality as i(rowguid, lineage, place),
    msrepl.merge_apply(a.artid, array[i.rowguid], array[false], array[i.lineage], array[null::text], array[5::int8],
                       array[format('(%%s,theirs)', i.place)], false) as t
order by i.place
"""
_STORED = """
select msrepl.merge_lineage(m.lineage, 7, m.own), m.own, m.top, m.lineage
from unnest(%s::uuid[]) with ordinality as i(rowguid, place) join msrepl.msmerge_metadata as m using (rowguid)
order by i.place
"""


def _drawn(chance: random.Random) -> dict[int, int]:
    """Return a random lineage of one to five replicas."""
    replicas = chance.sample(REPLICAS, chance.choice((1, 1, 2, 2, 3, 3, 4, 5)))
    return {replica: chance.choice((1, 2, 3, 2_000_000_000)) for replica in replicas}


def _onto(chance: random.Random, held: Mapping[int, int]) -> dict[int, int]:
    """Return a random lineage that includes all versions of another one."""
    versions = {replica: version + chance.choice((0, 0, 1)) for replica, version in held.items()}
    return {**_drawn(chance), **versions}


@pytest.mark.parametrize("number", range(3))
async def test_as_the_decision_says(fresh_database: Database, number: int) -> None:
    """Rows are applied, skipped or in conflict as `decide` says, and lineages are stored complete.

    This holds for any number of replicas.
    """
    chance = random.Random(f"merge taking {number}")
    guids = [UUID(int=place) for place in range(1, 401)]
    helds = [_drawn(chance) for _ in guids]
    rows = [_onto(chance, held) if chance.random() < 0.6 else _drawn(chance) for held in helds]
    rows = [held if chance.random() < 0.05 else row for held, row in zip(helds, rows, strict=True)]
    async with tracked(fresh_database, "create table item (id int primary key, t text)") as node:
        await node.publish("item")
        await node.run(
            *_NEIGHBOUR,
            "insert into item (id, t, rowguid) select n, 'ours', lpad(to_hex(n), 32, '0')::uuid"
            f" from generate_series(1, {len(guids)}) as n",
            "delete from msrepl.msmerge_metadata",
            "set session_replication_role = replica",
        )
        texts = [f"{{{','.join(map(str, packed(held)))}}}" for held in helds]
        await node.connection.execute(_HOLD, (guids, texts))
        texts = [f"{{{','.join(map(str, packed(row)))}}}" for row in rows]
        outcomes = await (await node.connection.execute(_APPLY, (guids, texts))).fetchall()
        stored = await (await node.connection.execute(_STORED, (guids,))).fetchall()
        contents = await node.run("select t from item order by id")
    seen = set()
    for held, row, outcome, after, (content,) in zip(
        helds, rows, outcomes, stored, contents, strict=True
    ):
        made = decide(
            RowVersion(lineage=held), RowVersion(lineage=row), replica=ME, resolves=True, column_tracking=False,
            held_priority=100, priority=0, is_same=False,
        )  # fmt: skip
        lineage, own, top, others = after
        if max(made.version.lineage.values()) > 2_000_000_000:  # versions this high are refused
            assert outcome[4], (held, row, outcome)
            continue
        seen.add(made.verdict)
        is_taken = made.verdict is Verdict.APPLY
        expected = (
            int(is_taken),
            int(made.verdict is Verdict.SKIP),
            int(made.conflict is not None),
        )
        assert (outcome[:3], outcome[4]) == (expected, []), (held, row, outcome)
        assert content == ("theirs" if is_taken else "ours"), (held, row)
        assert lineage == packed(made.version.lineage), (held, row)
        assert (own, top) == (made.version.lineage.get(ME, 0), max(made.version.lineage.values()))
        assert (others or []) == packed({r: v for r, v in made.version.lineage.items() if r != ME})
    assert seen == {Verdict.APPLY, Verdict.SKIP, Verdict.KEEP}
