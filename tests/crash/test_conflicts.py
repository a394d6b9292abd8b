"""M32: Tests of conflicts, and of lost answers with values that the Publisher generates.

A statement with one stale row is refused as a whole at both sites. Generated values are stored
exactly once.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tests.crash.here import Here, wires_to
from tests.fix_link import Wire
from tests.grid.cells import Kind
from tests.grid.rig import PUBLISHER, SITES, SUBSCRIBER, Rig
from twopc.drivers import Transaction
from twopc.errors import ConflictError, RejectedError
from twopc.protocol import VARIANTS
from twopc.sim.topology import Topology

CHANGE_MANY = "update account set balance = balance - 1 where id = any(%s)"


async def publisher_changes(rig: Rig, row: int) -> None:
    """Change a row at the Publisher; the change is not delivered to the Subscriber here."""
    await asyncio.to_thread(
        rig.fetch, PUBLISHER, "update account set balance = 7 where id = %s", (row,)
    )


async def rows_of(rig: Rig, query: str, *params: Any) -> dict[str, list[tuple[Any, ...]]]:
    """Return the rows at both sites."""
    return {site: await asyncio.to_thread(rig.fetch, site, query, params) for site in SITES}


async def nothing_is_left(rig: Rig, here: Here, gid: str) -> None:
    """Check that nothing is prepared, committed or decided of this transaction."""
    state = await asyncio.to_thread(rig.look, here.seen.name, here.seen.row)
    for held in state.sites.values():
        assert held.prepared == ()
        assert not [m for m, is_fence in held.markers if m.startswith(f"{gid}:") and not is_fence]
    # abort decisions are removed in groups, later
    assert not [d for d in state.decisions if gid.endswith(f":{d[1]}") and d[2] != "abort"]


@pytest.mark.sample(1, by=("commit",))
@pytest.mark.parametrize("shipping", ["eager", "lazy"])
@pytest.mark.parametrize("commit", VARIANTS)
async def test_one_stale_row_refuses_them_all(rig: Rig, commit: str, shipping: str) -> None:
    here = Here(rig, Kind(commit=commit, shipping=shipping))
    rows = [rig.fresh_row() for _ in range(10)]
    query = "select id, balance, msrepl_tran_version from account where id = any(%s) order by id"
    await publisher_changes(rig, rows[6])
    before = await rows_of(rig, query, rows)

    async with here.open() as coordinator:
        with pytest.raises(ConflictError) as caught:
            async with coordinator.transaction(SUBSCRIBER, commit=commit, shipping=shipping) as tx:
                await tx.execute(CHANGE_MANY, (rows,))
        assert await rows_of(rig, query, rows) == before
        await nothing_is_left(rig, here, tx.gid)
        # The other rows can still be changed.
        rest = rows[:6] + rows[7:]
        async with coordinator.transaction(SUBSCRIBER, commit=commit, shipping=shipping) as tx:
            cursor = await tx.execute(CHANGE_MANY, (rest,))
            assert cursor.rowcount == len(rest)

    error = caught.value
    assert error.definite
    assert (error.kind, error.sqlstate, error.number) == ("version_mismatch", "40001", 20515)
    assert {name: str(value) for name, value in error.key.items()} == {"id": str(rows[6])}
    assert tx.outcome == "committed"
    after = await rows_of(rig, query, rest)
    assert after[PUBLISHER] == after[SUBSCRIBER]
    assert {balance for _, balance, _ in after[PUBLISHER]} == {99}
    # when the coordinator has closed, no decision is left
    assert (await asyncio.to_thread(rig.look, here.seen.name, here.seen.row)).decisions == ()


# -- values that the Publisher generates -----------------------------------------------------------

TICKET = (
    "create table ticket (id bigint generated always as identity primary key, note text not null,"
    " stamp text not null default 'none')"
)
STAMP = (
    "create function stamp() returns trigger language plpgsql as"
    " $$ begin new.stamp := 'seen by the Publisher'; return new; end $$",
    "create trigger stamp before insert or update on ticket for each row execute function stamp()",
)


class Tickets:
    """A table whose keys and stamps the Publisher generates, with the link through a proxy."""

    def __init__(self, topology: Topology, wire: Wire) -> None:
        self.topology = topology
        self.wire = wire

    async def all(self) -> dict[str, list[tuple[Any, ...]]]:
        """Return every ticket at both sites."""
        query = "select id, note, stamp, msrepl_tran_version from ticket order by id"
        return {site: await self.topology.execute(site, query) for site in SITES}

    @asynccontextmanager
    async def transaction(self, commit: str) -> AsyncIterator[Transaction]:
        """Run one transaction at the Subscriber."""
        async with self.topology.transaction(SUBSCRIBER, commit=commit) as transaction:
            yield transaction

    async def insert(self, note: str, commit: str) -> tuple[int, str]:
        """Insert a ticket; return the key and the stamp that the application sees."""
        async with self.transaction(commit) as transaction:
            cursor = await transaction.execute(
                "insert into ticket (note) values (%s) returning id", (note,)
            )
            (key,) = await cursor.fetchone() or (0,)
            shown = await transaction.execute("select stamp from ticket where id = %s", (key,))
            (stamp,) = await shown.fetchone() or ("",)
        return int(key), str(stamp)


@pytest.fixture
async def tickets(rig: Rig) -> AsyncIterator[Tickets]:
    """Return the tickets of a separate topology on the rig's servers."""
    names = {PUBLISHER: "tickets", SUBSCRIBER: "tickets", "distribution": "tickets_log"}
    for node, database in names.items():
        await asyncio.to_thread(rig.servers[node].create_database, database)
    dsns = {node: rig.servers[node].dsn(database) for node, database in names.items()}
    async with (
        wires_to(rig, PUBLISHER) as wires,
        Topology(
            subscribers=(SUBSCRIBER,), dsns=dsns, name="conflicts", distribute=False
        ) as topology,
    ):
        for statement in (TICKET, *STAMP):
            await topology.execute(PUBLISHER, statement)
        await topology.publish("ticket")
        await topology.subscribe(SUBSCRIBER)
        wire = wires[PUBLISHER]
        await topology.execute(
            SUBSCRIBER,
            f"alter server msrepl_publisher options (set host '127.0.0.1', set port '{wire.port}')",
        )
        yield Tickets(topology, wire)
    for node, database in names.items():
        await asyncio.to_thread(rig.servers[node].drop_database, database)


LINK_ANSWERS = {
    "the values": b"mssync_gen",
    "the call": b"sp_mssync_ins_ticket",
    "the vote": b"prepare transaction",
}


@pytest.mark.parametrize("commit", ["presumed_abort", "last_agent"])
async def test_what_the_publisher_made_is_stored_exactly_once(
    tickets: Tickets, commit: str
) -> None:
    """Generated values are stored once although the link's answer is lost and the application retries."""
    first = await tickets.insert("first", commit)
    assert first == (1, "seen by the Publisher")
    kept = {"first": first[0]}
    for what, text in LINK_ANSWERS.items():
        tickets.wire.lost_answer = text
        cuts = tickets.wire.times_cut
        try:
            key, stamp = await tickets.insert(what, commit)
        except RejectedError as error:
            assert error.definite
            key, stamp = await tickets.insert(what, commit)
        assert stamp == "seen by the Publisher"
        assert tickets.wire.times_cut == cuts + 1, f"{what}: no such message"
        kept[what] = key
    found = await tickets.all()
    assert found[PUBLISHER] == found[SUBSCRIBER]
    assert {note: key for key, note, _, _ in found[PUBLISHER]} == kept
    assert {stamp for _, _, stamp, _ in found[PUBLISHER]} == {"seen by the Publisher"}
    assert not [branch for branch in await tickets.topology.in_doubt() if branch.ours]
