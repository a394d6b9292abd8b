"""Answers of handlers: values that they leave alone, and answers that are always the same."""

from __future__ import annotations

from tests.fix_topology import share
from twopc.merge.encounters import MergeEncounter
from twopc.merge.handlers import Answer, MergeHandler, Reject, Replace
from twopc.server import EmbeddedServer
from twopc.sim.merge import MergeTopology

#: Values that Python lacks, or represents differently.
VALUES = """
doc = case id when 1 then '{"total": 12345678901234567890.123}' when 2 then '"1"' when 3 then 'null' else '{"a": 1e400}' end::jsonb,
odd = '{"b":1,  "a":2, "a":3}', span = '1 mon -3 days 04:05:06.7', many = array['{"a": "x\\"y"}'::jsonb, 'null'],
day = 'infinity', rate = 'NaN', small = '00ff'::bytea
"""
COLUMNS = "doc::text, odd::text, span::text, many::text, day::text, rate::text, small::text"


class Whole(MergeHandler):
    """A handler that answers with all values of the row, one of which is changed."""

    def row_updated(self, encounter: MergeEncounter) -> Answer:
        """Add one, and set a mark in the document of the first row."""
        assert encounter.incoming is not None
        if not encounter.is_upload:
            return None
        row = {**encounter.incoming, "n": encounter.incoming["n"] + 1}
        if row["id"] == 1:
            row |= {"doc": {**row["doc"], "seen": True}, "span": row["span"]}
        return Replace(row)


class Constant(MergeHandler):
    """A handler that gives the same answer for each row."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer

    def row_updated(self, encounter: MergeEncounter) -> Answer:
        """Return the answer."""
        return self._answer


async def test_values_that_are_left_alone(topology: MergeTopology) -> None:
    """A handler that answers with the whole row changes only the values that it has changed.

    Numbers in documents keep their digits.
    """
    await share(
        topology,
        "thing",
        "create table thing (id int primary key, n int, doc jsonb, odd json, span interval, many jsonb[],"
        " day date, rate float8, small bytea); insert into thing select i, 0 from generate_series(1, 4) as i",
        tracking="column",
    )
    topology.handlers["thing"] = Whole()
    await topology.execute("anna", f"update thing set n = 1, {VALUES}")
    query = f"select {COLUMNS} from thing order by id"
    before = await topology.execute("anna", query)
    report = await topology.sync("anna")
    assert (report.uploaded, report.retried) == (4, 0)
    await topology.assert_converged()
    assert await topology.execute("pub", "select distinct n from thing") == [(2,)]
    after = await topology.execute("pub", query)
    assert after[0][0] == '{"seen": true, "total": 12345678901234567890.123}'
    assert [after[0][1:], *after[1:]] == [before[0][1:], *before[1:]]


async def test_answers_that_are_always_the_same(server: EmbeddedServer) -> None:
    """Sessions end, and all nodes are alike.

    Rows that exchange values of a key are written together.
    """
    answers = {
        "noted": Replace({"note": "seen", "price": 1}),
        "rejected": Reject(),
        "seats": Replace({"note": "seen"}),
    }
    async with MergeTopology(server=server, subscribers=("anna", "ben")) as topology:
        for table, answer in answers.items():
            await topology.execute(
                "pub",
                f"create table {table} (id int primary key, place int unique, note char(9), price numeric(8,2))",
            )
            await topology.execute(
                "pub", f"insert into {table} values (1, 1, '', 0), (2, 2, '', 0)"
            )
            await topology.publish(table)
            topology.handlers[table] = Constant(answer)
        for name in ("anna", "ben"):
            await topology.subscribe(name)
        await topology.execute("anna", "update noted set place = 9 where id = 1")
        await topology.execute("pub", "update noted set place = 8 where id = 2")
        await topology.execute("anna", "update rejected set place = 9 where id = 1")
        await topology.execute("pub", "update rejected set place = 8 where id = 2")
        for place, number in ((10, 1), (1, 2), (2, 1)):
            await topology.execute("anna", f"update seats set place = {place} where id = {number}")
        await topology.settle()
        await topology.assert_converged()
        found = {
            table: await topology.execute(
                "ben", f"select place, trim(note), price::text from {table} order by id"
            )
            for table in answers
        }
        assert found == {
            "noted": [(9, "seen", "1.00"), (8, "seen", "1.00")],
            "rejected": [(1, "", "0.00"), (8, "", "0.00")],
            "seats": [(2, "seen", "0.00"), (1, "seen", "0.00")],
        }
