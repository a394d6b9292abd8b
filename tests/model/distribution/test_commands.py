"""Tests that the model stores the same commands as the product, and that Subscribers get the same rows."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.distribution.blocks import LoggedTransaction, add, begin, commit
from tests.fix_topology import MakeTopology
from tests.model.distribution.test_system import Silent
from twopc.core import CommandScanner
from twopc.publisher.log_reader.rows import BLOCK_COMMANDS, blocks, parts
from twopc.sim.model.distribution.store import read_blocks
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.system import System, build
from twopc.sim.model.values import ModelSpec, Steps, SubscriberSpec, TableSpec

COLUMNS = {
    "region": "text", "id": "int", "name": "varchar(40)", "price": "numeric(10,2)", "born": "date", "seen": "timestamptz",
    "active": "boolean", "photo": "bytea", "n": "int",
}  # fmt: skip
FORMATS: dict[str, dict[str, str]] = {
    "scalled": {},
    "called": {"upd": "CALL"},
    "masked": {"upd": "MCALL"},
    "imaged": {"upd": "XCALL", "del": "XCALL"},
    "stated": {"ins": "SQL", "upd": "SQL", "del": "SQL"},
    "silent": {"ins": "CALL", "upd": "NONE", "del": "NONE"},
    "parted": {},
    "narrow": {},
}
PUBLISHED = ("region", "id", "price", "n")
TABLES = tuple(
    TableSpec(
        name=name, columns=COLUMNS, key=("region", "id"), propagate=propagate,
        filter="n >= 10 and name is distinct from 'hidden'" if name == "parted" else "",
        published=PUBLISHED if name == "narrow" else (),
    )
    for name, propagate in FORMATS.items()
)  # fmt: skip
STATEMENTS = (
    "insert into {} values ('eu', 1, 'it''s \"so\", (\\)', 12.5, '2024-02-29', '2024-02-29 12:00:00.25+00', true, '\\x00ff', 10)",
    "insert into {} values ('eu', 2, '', null, null, null, false, null, 5), ('us', 3, null, -0.01, null, null, null, '\\x', 50)",
    "update {} set price = price * 2, active = not active",
    "update {} set n = n + 5 where region = 'eu'",
    "update {} set id = id + 10, name = 'hidden' where region = 'us'",
    "update {} set photo = null, name = upper(name), region = 'eu' where id = 13",
    "update {} set name = name",
    "delete from {} where n = 15",
    "insert into {} (region, id) values ('eu', 99)",
)
_VERSION = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class Named:
    """Names row versions in the order of their appearance."""

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def __call__(self, text: str) -> str:
        """Return a text with names in place of row versions."""
        return _VERSION.sub(
            lambda found: self._known.setdefault(found[0], f"v{len(self._known) + 1}"), text
        )


def of_the_model() -> tuple[System, list[tuple[Any, ...]]]:
    """Return a model after all statements, and the commands that it has stored."""
    spec = ModelSpec(publisher="pub", subscribers=(SubscriberSpec(name="sub1"),), tables=TABLES)
    system = build(spec, kernel=SimpyKernel(), recorder=Silent())

    def office() -> Steps[None]:
        session = system.session("office", "pub")
        for name in FORMATS:
            for text in STATEMENTS:
                yield from session.begin()
                yield from session.execute(text.format(name), {})
                yield from session.commit()
        yield from system.sync()

    system.kernel.env.run(system.kernel.spawn(office(), "office"))
    assert system.distribution is not None
    articles, named = system.distribution.registry.articles, Named()
    return system, [
        (
            articles[command.article_id].article.name, command.type, hashkey, named(command.command),
        )
        for each in system.distribution.store.transactions
        for command, hashkey in zip(each.commands, each.hashkeys, strict=True)
    ]  # fmt: skip


async def test_the_same_commands_as_the_product(make_topology: MakeTopology) -> None:
    topology = await make_topology(subscribers=("sub1",))
    publisher = topology.publisher
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    for table in TABLES:
        await topology.execute(
            publisher, f"create table {table.name} ({columns}, primary key (region, id))"
        )
        await topology.publish(
            table.name, columns=table.published or None, row_filter=table.filter or None,
            propagate=dict(table.propagate),
        )  # fmt: skip
    await topology.subscribe("sub1")
    for name in FORMATS:
        for text in STATEMENTS:
            await topology.execute(publisher, text.format(name))
    await topology.sync()
    named = Named()
    stored = [
        (name, kind, hashkey, named(command))
        for name, kind, hashkey, command in await topology.execute(
            topology.distribution,
            """
            select a.source_object, c.type, c.hashkey, c.command from msrepl.msrepl_commands c
            join msrepl.msarticles a using (publisher_database_id, article_id)
            order by c.xact_seqno, c.command_id
            """,
        )
    ]
    system, modelled = of_the_model()
    assert modelled == stored
    for name in FORMATS:
        # without `seen`, whose text depends on the server's time zone; commands have it in UTC
        wanted = [
            column
            for column in (*COLUMNS, "msrepl_tran_version")
            if column != "seen" and (name != "narrow" or column in PUBLISHED)
        ]
        texts = ", ".join(f"t.{column}::text" for column in wanted)
        rows = await topology.execute(
            "sub1", f"select {texts} from {name} as t order by t.region, t.id"
        )
        held = [tuple(row.values()) for row in system.nodes["sub1"].rows(name, wanted)]
        there, here = Named(), Named()
        assert [tuple(here(str(value)) for value in row) for row in held] == [
            tuple(there(str(value)) for value in row) for row in rows
        ]


@pytest.mark.parametrize("count", [1, 3, BLOCK_COMMANDS, BLOCK_COMMANDS + 7, 3 * BLOCK_COMMANDS])
@pytest.mark.parametrize("left", [0, 1, 2])
def test_blocks_are_read_as_they_were_written(count: int, left: int) -> None:
    """Blocks are read as written, also those of a large transaction of which parts were stored before."""
    made = [(1, 1 + at % 3, at % 64, f"({at})") for at in range(count)]
    scanner, stored = CommandScanner(0, 1, pauses=True), count - count * left // 2
    begin(scanner, LoggedTransaction(2**40 + 8, 2**33, 7, originator=2, marks=1))
    add(scanner, made[:stored])
    early = parts(1, scanner).blocks
    scanner.forget_part(stored, len(early))
    add(scanner, made[stored:])
    commit(scanner)
    begin(scanner, LoggedTransaction(2**40 + 9, 5, 8))
    add(scanner, [(3, 1, 0, "()")])
    commit(scanner)
    found = read_blocks([*early, *blocks(1, scanner)])
    assert [(one.seqno, one.xid, one.time_us, one.originator, one.marks) for one in found] == [
        (2**40 + 8, 2**33, 7, 2, 1),
        (2**40 + 9, 5, 8, 0, 0),
    ]
    assert [each.command for each in found[0].commands] == [text for *_, text in made]
    assert [each.command_id for each in found[0].commands] == list(range(1, count + 1))
    assert {each.originator for each in found[0].commands} <= {2}
    assert found[0].hashkeys == tuple(at % 64 for at in range(count))
    assert [(each.article_id, each.type, each.command) for each in found[1].commands] == [
        (1, 3, "()")
    ]
