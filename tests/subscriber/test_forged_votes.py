"""Only a coordinator can name its transactions and request their votes, whatever an application knows or sets."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import psycopg
import pytest
from psycopg.errors import InsufficientPrivilege

from tests.by_hand import ByHand
from tests.drivers.bank import Bank
from tests.fix_topology import MakePair, Pair, share
from twopc.errors import TwopcError
from twopc.sim.topology import Topology

pytestmark = [pytest.mark.immediate, pytest.mark.rewinds]

MakeTopology = Callable[..., Awaitable[Topology]]
TABLE = """
create table item (id int primary key, n int);
insert into item select g, 0 from generate_series(1, 3) as g;
"""
OWN = ("create table own (n int)", "grant all on own to public")
UPDATE = "update item set n = n + 1 where id = 1"
#: Ends the transaction and begins another; to a parser of the text it is a comment.
HIDDEN = "/* /* */ commit; begin; -- */ commit; begin"


@pytest.fixture
async def pair(make_pair: MakePair) -> Pair:
    return await make_pair(TABLE, publish=["item"], at_subscriber=OWN)


async def attempts(pair: Pair, proof: str) -> None:
    """Make the attempts of a session that knows the gid of another transaction, and possibly a proof."""
    stranger = await psycopg.AsyncConnection.connect(
        pair.topology.node("sub1").app_dsn, autocommit=True
    )
    async with stranger:
        for statements in (
            [f"set local msrepl.gid = '{pair.gid}'", "update item set n = 7 where id = 2"],
            [f"set local msrepl.gid = '{pair.gid}'", "set local msrepl.shipping = 'lazy'", "insert into item values (9, 9)"],
            ["insert into own values (1)", f"call msrepl.prepare_publisher('{pair.gid}', null, '{proof}')"],
            ["insert into own values (1)", f"set local msrepl.gid = '{pair.gid}'",
             "set local msrepl.marker = '(0,0)'",
             f"call msrepl.prepare_publisher('{pair.gid}', null, '{proof}', array[]::text[])"],
        ):  # fmt: skip
            await stranger.execute("begin")
            for statement in statements[:-1]:
                await stranger.execute(statement.encode())
            with pytest.raises(InsufficientPrivilege, match="coordinator"):
                await stranger.execute(statements[-1].encode())
            await stranger.execute("rollback")


@pytest.mark.parametrize("at", ["before", "open", "prepared"])
async def test_nobody_decides_for_another(pair: Pair, at: str) -> None:
    """If a coordinator dies, nothing that another session did before, meanwhile or afterwards is a decision."""
    forged = ByHand(pair.topology.name)  # a key that the Subscriber does not know
    if at == "before":
        pair.gid = f"twopc:{pair.topology.name}:1:4711"
        await attempts(pair, forged.vote(pair.gid, pair.app.info.backend_pid).split("'")[3])
    else:
        await pair.begin()
        await pair.execute(UPDATE)
        own = (await pair.execute("show msrepl.proof"))[0][0]
        if at == "prepared":
            await pair.execute(pair.vote())
        await attempts(pair, own)
        await pair.app.close()
        await attempts(pair, own)
    markers = f"select from msrepl.branch_marker where gid = '{pair.gid}:sub1'"
    assert await pair.topology.execute("sub1", markers) == []
    told = await pair.topology.execute(
        "sub1", "select msrepl.fence_branch(%s, '{}')", (f"{pair.gid}:sub1",)
    )
    assert told == [("fenced",)]
    if at == "prepared":
        await pair.topology.execute("pub", f"rollback prepared '{pair.gid}:pub'")
    await pair.same("item")


@pytest.mark.parametrize("commit", ["presumed_abort", "presumed_commit", "last_agent"])
@pytest.mark.parametrize("way", ["given back", "kept", "rolled back", "another link"])
async def test_no_vote_before_the_coordinator_asks(
    make_topology: MakeTopology, commit: str, way: str
) -> None:
    """An application cannot vote, because rolling back to a savepoint would undo the vote at the Subscriber only."""
    topology = await make_topology(subscribers=("sub1",), distribute=False)
    await share(topology, "item", TABLE)
    async with topology.transaction("sub1", commit=commit) as transaction:
        await transaction.execute("savepoint a")
        await transaction.execute(UPDATE)
        vote = f"call msrepl.prepare_publisher('{transaction.gid}', null, current_setting('msrepl.proof'))"
        with pytest.raises(InsufficientPrivilege, match="only the coordinator"):
            await transaction.execute(vote)
        await transaction.execute("rollback to a")
        if way == "kept":
            await transaction.execute(UPDATE)
        if way == "another link":
            await transaction.execute("select msrepl.reset_link()")
        if way == "rolled back":
            await transaction.rollback()
    for node in ("pub", "sub1"):
        assert await topology.execute(node, "select gid from pg_prepared_xacts") == []
        assert await topology.execute(node, "select n from item where id = 1") == [(way == "kept",)]


@pytest.mark.parametrize("commit", ["presumed_abort", "last_agent"])
@pytest.mark.parametrize("first", ["insert into own values (1)", "select 1"])
async def test_a_hidden_commit_is_told(
    make_topology: MakeTopology, commit: str, first: str
) -> None:
    """A commit hidden from parsers is detected by the transaction's state at the server, not in statement texts."""
    topology = await make_topology(subscribers=("sub1",), distribute=False)
    await share(topology, "item", TABLE)
    for text in OWN:
        await topology.execute("sub1", text)
    with pytest.raises((TwopcError, psycopg.Error), match=r"ended|global transaction only"):
        async with topology.transaction("sub1", commit=commit) as transaction:
            await transaction.execute(first)
            await transaction.cursor().execute(HIDDEN.encode())
            await transaction.execute("insert into own values (2)")
    assert await topology.execute("sub1", "select n from own where n = 2") == []
    for node in ("pub", "sub1"):
        assert await topology.execute(node, "select gid from pg_prepared_xacts") == []
        assert await topology.execute(node, "select n from item where id = 1") == [(0,)]


async def made(make_topology: MakeTopology, *at_subscriber: str) -> Topology:
    """Return a topology with a plain table, and the client's own objects at the Subscriber."""
    topology = await make_topology(subscribers=("sub1",), distribute=False)
    await share(topology, "item", TABLE)
    for text in (*OWN, *at_subscriber):
        await topology.execute("sub1", text)
    return topology


async def nothing_happened(topology: Topology) -> None:
    """Assert that recovery finds no transaction, no branch is prepared, and the row is unchanged."""
    assert await topology.recover() == []
    for node in ("pub", "sub1"):
        assert await topology.execute(node, "select gid from pg_prepared_xacts") == []
        assert await topology.execute(node, "select n from item where id = 1") == [(0,)]


#: Reads the vote's proof from the query in which it runs, votes, and rolls that back at this site.
VOTES_EARLY = r"""
create function votes_early() returns text language plpgsql as $$
declare
    words text[] := regexp_match(current_query(), 'prepare_publisher\(''([^'']*)'', null, ''([^'']*)''');
    calls int;
begin
    update item set n = 7 where id = 1;
    call msrepl.prepare_publisher(words[1], calls, words[2]);
    raise exception 'back';
exception when others then
    return sqlerrm;
end $$
"""


@pytest.mark.parametrize("commit", ["presumed_abort", "presumed_commit", "last_agent"])
async def test_no_vote_from_a_statement_beside_the_question(
    make_topology: MakeTopology, commit: str
) -> None:
    topology = await made(make_topology, VOTES_EARLY)
    votes = "insert into own values (1) returning votes_early()"
    done = await topology.run("sub1", votes, commit=commit)
    assert "not from within a statement" in done.rows[0][0]
    await nothing_happened(topology)


@pytest.mark.parametrize("commit", ["presumed_abort", "presumed_commit", "last_agent"])
async def test_proofs_hold_for_one_session(make_topology: MakeTopology, commit: str) -> None:
    """A gid and its proof are valid in one session only, although other sessions of the same role can see them."""
    topology = await made(make_topology)
    stranger = await psycopg.AsyncConnection.connect(topology.node("sub1").app_dsn)
    async with stranger, topology.transaction("sub1", commit=commit) as transaction:
        await transaction.execute("insert into own values (1)")
        cursor = await transaction.execute("select current_setting('msrepl.proof')")
        row = await cursor.fetchone()
        assert row is not None
        await stranger.execute(
            f"set local msrepl.gid = '{transaction.gid}'; set local msrepl.proof = '{row[0]}'".encode()
        )
        with pytest.raises(InsufficientPrivilege, match="not begun here by its coordinator"):
            await stranger.execute(UPDATE)
        await stranger.rollback()
    await nothing_happened(topology)


async def test_a_vote_holds_for_one_session(pair: Pair) -> None:
    await pair.begin()
    own = await psycopg.AsyncConnection.connect(pair.topology.node("sub1").app_dsn)
    async with own:
        with pytest.raises(InsufficientPrivilege, match="only the coordinator"):
            await own.execute(pair.vote().encode())
    await pair.execute(UPDATE)
    await pair.commit()
    await pair.same("item")


#: Reports the query in which it runs, and makes this site vote no.
TELLS = """
create table seen (n int); grant all on seen to public;
create function tells() returns trigger language plpgsql as $$ begin raise exception '%', current_query(); end $$;
create constraint trigger tells after insert on seen deferrable initially deferred for each row execute function tells()
"""


@pytest.mark.parametrize("commit", ["presumed_abort", "last_agent"])
async def test_an_old_vote_decides_nothing(make_topology: MakeTopology, commit: str) -> None:
    """Repeating the vote of an earlier transaction in the same session decides nothing."""
    topology = await made(make_topology, TELLS)
    async with Bank(topology).coordinator() as coordinator:
        transaction = await coordinator.transaction("sub1", commit=commit).begin()
        gid, pid = transaction.gid, transaction.session.pid
        row = await (await transaction.execute("select current_setting('msrepl.proof')")).fetchone()
        assert row is not None
        await transaction.execute(UPDATE)
        await transaction.execute("insert into seen values (1)")
        with pytest.raises(TwopcError) as caught:
            await transaction.commit()
        vote = (
            f"call msrepl.prepare_publisher('{gid}', null, '{str(caught.value).split(chr(39))[3]}'"
        )
        again = await coordinator.transaction("sub1", commit=commit).begin()
        assert again.session.pid == pid
        session = again.session.connection
        for statement in (
            "rollback; reset all; begin",
            f"set local msrepl.gid = '{gid}'; set local msrepl.proof = '{row[0]}'",
            "savepoint a",
            UPDATE,
            f"{vote})",
            "rollback to a",
            "insert into own values (1)",
        ):
            await session.execute(statement.encode())
        await session.execute("savepoint b")
        with pytest.raises(InsufficientPrivilege):
            await session.execute((vote + ", '{elsewhere,pub}')").encode())
        for statement in ("rollback to b", f"{vote})", "commit"):
            await session.execute(statement.encode())
        await coordinator.recover()
        await again.rollback()
    await nothing_happened(topology)


#: Runs at COMMIT or PREPARE TRANSACTION, after the vote, and guesses the position of
#: the transaction's marker.
GUESSES = r"""
create table late (n int); grant all on late to public;
create function guesses() returns trigger language plpgsql as $$
begin
    for place in 1 .. 200 loop
        begin
            perform set_config('msrepl.marker', format('(0,%s)', place), true);
            update item set n = 7 where id = 1;
            return null;
        exception when invalid_transaction_state then
            null;
        end;
    end loop;
    raise exception 'no marker takes the call';
end $$;
create constraint trigger guesses after insert on late deferrable initially deferred
    for each row execute function guesses()
"""


@pytest.mark.parametrize("commit", ["presumed_abort", "presumed_commit", "last_agent"])
async def test_no_call_behind_a_vote_for_nothing(make_topology: MakeTopology, commit: str) -> None:
    """After a vote without a branch, calls are refused, because the Publisher would not prepare them."""
    topology = await made(make_topology, GUESSES)
    with pytest.raises(TwopcError, match="no marker takes the call"):
        await topology.run("sub1", "insert into late values (1)", commit=commit)
    await nothing_happened(topology)
