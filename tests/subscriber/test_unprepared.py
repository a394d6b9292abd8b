"""A commit that bypasses the coordinator is refused, because its changes would be at one site only."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.errors import ObjectNotInPrerequisiteState

from tests.by_hand import ByHand
from tests.fix_topology import MakePair, Pair

pytestmark = [pytest.mark.immediate, pytest.mark.rewinds]

TABLE = """
create table item (id int primary key, n int);
insert into item select g, 0 from generate_series(1, 3) as g;
"""
HERE = (
    "create table here (n int)",
    "grant all on here to public",
    "create procedure commits() language plpgsql as"
    " $$ begin update item set n = 1 where id = 1; commit; end $$",
    "create function immediately() returns void language plpgsql as"
    " $$ begin set constraints all immediate; end $$",
    "grant execute on all routines in schema public to public",
)
UPDATE = "update item set n = n + 1 where id = 1"
GID = "twopc:by-hand:1:1"
NAMED = "{named}"
LAZY = "set local msrepl.shipping = 'lazy'"


@pytest.fixture
async def pair(make_pair: MakePair) -> Pair:
    """A plain table, and the client's own objects at the Subscriber."""
    return await make_pair(TABLE, publish=["item"], at_subscriber=HERE)


async def naming(pair: Pair) -> str:
    """Return the statements that name a transaction, as a coordinator would that does nothing else."""
    coordinator = ByHand("by-hand")
    await pair.topology.execute("sub1", coordinator.introduction)
    return coordinator.naming(GID, pair.app.info.backend_pid)


async def both(pair: Pair) -> list[list[tuple[object, ...]]]:
    """Return the table's rows at the Publisher and at the Subscriber."""
    query = "select id, n from item order by id"
    return [await pair.topology.execute(node, query) for node in ("pub", "sub1")]


@pytest.mark.parametrize(
    "statements",
    [
        ["begin", NAMED, UPDATE, "commit"],
        ["begin", NAMED, UPDATE, UPDATE, "end"],
        ["begin", NAMED, LAZY, UPDATE, "commit"],
        ["begin", NAMED, UPDATE, "savepoint a", UPDATE, "rollback to a", "commit"],
        ["begin", NAMED, UPDATE, "prepare transaction 'twopc:by-hand:1:1:sub1'"],
        ["begin", NAMED, UPDATE, "/* /* */ */ prepare transaction 'other'"],
        ["begin", NAMED, UPDATE, "/* /* */ */ commit; begin"],
        [f"begin; {NAMED}; {UPDATE}; commit"],
        ["begin", NAMED, UPDATE, "set local msrepl.marker = '(0,0)'", "commit"],
        ["begin", NAMED, UPDATE, "reset all", "commit"],
        ["begin", NAMED, UPDATE, "set constraints all immediate", "commit"],
        ["begin", NAMED, UPDATE, "set/**/constraints all immediate", "commit"],
        ["begin", NAMED, "set constraints all immediate", UPDATE, "commit"],
        ["begin", NAMED, "set constraints all immediate", UPDATE, "set constraints all immediate", UPDATE, "commit"],
        ["begin", NAMED, UPDATE, "select immediately()", "select immediately()", "commit"],
        ["begin", NAMED, UPDATE, "set constraints all immediate", "set local msrepl.gid = ''", "commit"],
        ["begin", NAMED, UPDATE, "savepoint a", "set constraints all immediate", "rollback to a", "commit"],
        ["begin", NAMED, UPDATE, "set constraints all immediate; commit"],
        ["session", NAMED, UPDATE],
        ["session", NAMED, "call commits()"],
    ],
)  # fmt: skip
async def test_a_commit_past_the_coordinator_is_refused(pair: Pair, statements: list[str]) -> None:
    before = await both(pair)
    named = await naming(pair)
    if statements[0] == "session":
        named, statements = named.replace("local", "session"), statements[1:]
    *first, last = [one.replace(NAMED, named) for one in statements]
    for statement in first:
        await pair.app.execute(statement.encode())
    with pytest.raises(
        ObjectNotInPrerequisiteState, match="not prepared at the Publisher"
    ) as caught:
        await pair.app.execute(last.encode())
    assert "twopc:by-hand:1:1:sub1" in str(caught.value)
    assert "msrepl.prepare_publisher" in (caught.value.diag.message_hint or "")
    await pair.app.execute("rollback; reset all; select msrepl.reset_link()")
    assert await both(pair) == before
    for node in ("pub", "sub1"):
        assert await pair.topology.execute(node, "select gid from pg_prepared_xacts") == []
        assert await pair.topology.execute(node, "select gid from msrepl.branch_marker") == []
    await pair.run(UPDATE)
    there, here = await both(pair)
    assert there == here != before[0]


@pytest.mark.parametrize("protocol", ["simple", "extended"])
async def test_whatever_protocol_it_comes_by(pair: Pair, protocol: str) -> None:
    await pair.app.execute("begin")
    await pair.app.execute((await naming(pair)).encode())
    await pair.app.execute(UPDATE)
    with pytest.raises(ObjectNotInPrerequisiteState):
        await pair.app.execute("commit", binary=protocol == "extended", prepare=False)


@pytest.mark.parametrize(
    "statements",
    [
        ["set constraints all immediate", UPDATE],
        [UPDATE, "set constraints all immediate", UPDATE],
        [UPDATE, "select immediately()", UPDATE],
        [UPDATE, *["set constraints all immediate", UPDATE] * 12],
        [
            UPDATE,
            "do $$ begin for turn in 1 .. 6 loop perform immediately(); end loop; end $$",
            UPDATE,
        ],
        [LAZY, UPDATE, "set constraints all immediate", UPDATE],
        ["savepoint a", UPDATE, "rollback to a"],
        ["insert into here values (1)"],
        ["insert into here values (1)", "set constraints all immediate"],
        [UPDATE, "savepoint a", UPDATE, "release a"],
    ],
)
async def test_who_has_the_publisher_prepare_is_let_through(
    pair: Pair, statements: list[str]
) -> None:
    for agent in (False, True):
        await pair.begin()
        for statement in statements:
            await pair.execute(statement)
        if agent:
            cursor = await pair.app.execute(pair.vote())
            ((calls,),) = await cursor.fetchall()
            await pair.app.execute("commit")
            if calls:
                await pair.topology.execute("pub", f"commit prepared '{pair.gid}:pub'")
        else:
            await pair.commit()
        there, here = await both(pair)
        assert there == here


async def test_a_client_cannot_take_the_guard_away(pair: Pair) -> None:
    for statement in (
        "alter table msrepl.branch_marker disable trigger all",
        "drop trigger trg_mssync_guard_branches on msrepl.branch_marker",
        "set session_replication_role = replica",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            await pair.app.execute(statement.encode())
