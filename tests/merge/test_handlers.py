"""Handlers, compensation, and changes that stay at one node: one topology, a table for each."""

from __future__ import annotations

from collections.abc import AsyncIterator

import psycopg
import pytest

from twopc.merge.decision import ConflictType
from twopc.merge.encounters import MergeEncounter
from twopc.merge.handlers import Accept, Answer, MergeHandler, Reject, Replace
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

OPTIONS = {
    "handled": {"tracking": "column"},
    "compensated": {"compensate": True},
    "tried": {},
    "up": {"resolver": "upload_only"},
    "down": {"resolver": "download_only", "tracking": "column"},
    "kept": {"upload": "kept"},
    "refused": {"upload": "refused"},
    "undeleted": {"deletes": "kept"},
}


@pytest.fixture
async def office(server: EmbeddedServer) -> AsyncIterator[MergeTopology]:
    """A table for each of `OPTIONS`, with rows 1 to 3; the Publisher and Anna have other checks."""
    async with MergeTopology(server=server, subscribers=("anna",)) as topology:
        for table, options in OPTIONS.items():
            await topology.execute(
                "pub", f"create table {table} (id int primary key, v int, w int)"
            )
            await topology.execute(
                "pub", f"insert into {table} select i, i, i from generate_series(1, 3) as i"
            )
            await topology.publish(table, **options)
        await topology.subscribe("anna")
        for table in ("compensated", "tried"):
            await topology.execute("pub", f"alter table {table} add check (v < 100)")
            await topology.execute("anna", f"alter table {table} add check (v > -100)")
        yield topology


async def rows(topology: MergeTopology, node: str, table: str) -> list[tuple[int, ...]]:
    """Return keys and values of a table."""
    return await topology.execute(node, f"select id, v, w from {table} order by id")


async def test_a_change_that_fails(office: MergeTopology) -> None:
    """A failed change is compensated, upward and downward, or retried, depending on the article."""
    for table in ("compensated", "tried"):
        await office.execute("anna", f"insert into {table} values (4, 200, 0)")
        await office.execute("anna", f"update {table} set v = 300 where id = 1")
        await office.execute("pub", f"update {table} set v = -300 where id = 2")
    report = await office.sync("anna")
    assert (report.rejected, report.retried) == (3, 3)
    assert await rows(office, "anna", "compensated") == [(1, 1, 1), (2, 2, 2), (3, 3, 3)]
    assert (await office.sync("anna")).retried == 3
    assert await rows(office, "pub", "compensated") == [(1, 1, 1), (2, 2, 2), (3, 3, 3)]
    assert await rows(office, "anna", "tried") == [(1, 300, 1), (2, 2, 2), (3, 3, 3), (4, 200, 0)]
    found = {(c.table, c.type, c.loser and c.loser["v"]) for c in await office.conflicts()}
    assert found == {
        (table, kind, v)
        for table in ("compensated", "tried")
        for kind, v in ((ConflictType.UPLOAD_INSERT_FAILED, 200), (ConflictType.UPLOAD_UPDATE_FAILED, 300))
    }  # fmt: skip


async def test_one_way(office: MergeTopology) -> None:
    """One-way options keep changes from the other end.

    Changes are not downloaded, are undone, fail at the Subscriber, or stay there.
    """
    for table in ("up", "down", "kept"):
        await office.execute("anna", f"update {table} set v = 10 where id = 1")
        await office.execute("anna", f"insert into {table} values (4, 4, 4)")
        await office.execute("anna", f"delete from {table} where id = 3")
        await office.execute("pub", f"update {table} set w = 20 where id in (1, 2)")
    for statement in (
        "update refused set v = 1",
        "insert into refused values (9)",
        "delete from refused",
    ):
        with pytest.raises(psycopg.Error, match="20063"):
            await office.execute("anna", statement)
    await office.execute("pub", "update refused set v = 7 where id = 1")
    for node, number in (("anna", 1), ("pub", 2)):
        await office.execute(node, f"delete from undeleted where id = {number}")
    await office.execute("anna", "update undeleted set v = 8 where id = 3")
    for _ in range(2):
        await office.sync("anna")
    assert await rows(office, "pub", "up") == [(1, 10, 1), (2, 2, 20), (4, 4, 4)]
    assert await rows(office, "anna", "up") == [(1, 10, 1), (2, 2, 2), (4, 4, 4)]
    for node in ("pub", "anna"):
        assert await rows(office, node, "down") == [(1, 1, 20), (2, 2, 20), (3, 3, 3)]
    assert await rows(office, "pub", "kept") == [(1, 1, 20), (2, 2, 20), (3, 3, 3)]
    assert await rows(office, "anna", "kept") == [(1, 1, 20), (2, 2, 20), (4, 4, 4)]
    assert await rows(office, "anna", "refused") == [(1, 7, 1), (2, 2, 2), (3, 3, 3)]
    assert await rows(office, "pub", "undeleted") == [(1, 1, 1), (3, 8, 3)]
    assert await rows(office, "anna", "undeleted") == [(2, 2, 2), (3, 8, 3)]
    again = await office.sync("anna")
    assert (again.uploaded, again.downloaded, again.rejected) == (0, 0, 0)


class Auditor(MergeHandler):
    """A handler that rejects negative values, limits large ones, and adds up in conflicts.

    It raises an error for 13.
    """

    def __init__(self) -> None:
        self.calls: list[str] = []

    def session_begins(self, publisher: str, subscriber: str) -> None:
        """Record the call."""
        self.calls.append(f"{publisher} and {subscriber}")

    def session_ends(self, publisher: str, subscriber: str) -> None:
        """Record the call."""
        self.calls.append("end")

    def row_inserted(self, encounter: MergeEncounter) -> Answer:
        """Judge an insert by its value."""
        return self._judge(encounter)

    def row_updated(self, encounter: MergeEncounter) -> Answer:
        """Judge an update by its value."""
        return self._judge(encounter)

    def _judge(self, encounter: MergeEncounter) -> Answer:
        assert encounter.incoming is not None
        value = encounter.incoming["v"]
        self.calls.append(f"{value} at {encounter.at}")
        if value == 13:
            raise LookupError("thirteen")
        if value < 0:
            return Reject()
        return Replace({"v": 999}) if value >= 1000 else None

    def row_deleted(self, encounter: MergeEncounter) -> Answer:
        """Reject the deletion of the first row."""
        assert encounter.held is not None
        return Reject() if encounter.held["id"] == 1 else Accept()

    def update_conflict(self, encounter: MergeEncounter) -> Answer:
        """Add both values."""
        assert encounter.held is not None and encounter.incoming is not None
        return Replace({"v": encounter.held["v"] + encounter.incoming["v"]})

    def delete_conflict(self, encounter: MergeEncounter) -> Answer:
        """Let the incoming change win."""
        return Accept()


async def test_a_handler(office: MergeTopology) -> None:
    """A handler is called for each row, at either end; a row for which it raises an error fails."""
    auditor = Auditor()
    office.handlers = {"handled": auditor}
    for statement in (
        "insert into handled values (4, -4, 4), (5, 5000, 5), (6, 13, 6), (7, 7, 7)",
        "delete from handled where id in (1, 2)",
    ):
        await office.execute("anna", statement)
    await office.execute("pub", "insert into handled values (8, 8000, 8), (9, -9, 9)")
    report = await office.sync("anna")
    assert (report.rejected, report.retried) == (3, 1)
    assert auditor.calls[0] == "pub and anna" and auditor.calls[-1] == "end"
    assert "8000 at anna" in auditor.calls and "7 at pub" in auditor.calls
    [failed] = [c for c in await office.conflicts("handled") if "thirteen" in c.reason]
    assert failed.loser is not None and failed.loser["v"] == 13
    await office.execute("anna", "update handled set v = 12 where id = 6")
    for _ in range(2):
        await office.sync("anna")
    expected = [(1, 1, 1), (3, 3, 3), (5, 999, 5), (6, 12, 6), (7, 7, 7), (8, 999, 8)]
    for node in ("pub", "anna"):
        assert await rows(office, node, "handled") == expected
    await office.execute("pub", "update handled set v = 30 where id = 3")
    await office.execute("pub", "update handled set v = 70 where id = 7")
    await office.execute("anna", "update handled set v = 31 where id = 3")
    await office.execute("anna", "delete from handled where id = 7")
    assert (await office.sync("anna")).conflicts == 2
    for node in ("pub", "anna"):
        assert (await rows(office, node, "handled"))[1] == (3, 61, 3)
        assert len(await rows(office, node, "handled")) == 5
