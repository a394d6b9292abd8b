"""The Publisher's vote: only the expected command tag is a yes, and a no leaves nothing behind."""

from __future__ import annotations

import psycopg
import pytest

from tests.fix_link import Eyes, facts_of
from tests.fix_topology import ACCOUNT, BALANCES, ROWS, MakePair, Pair
from twopc.errors import ConflictError, from_sqlstate

pytestmark = [pytest.mark.immediate, pytest.mark.rewinds]

UPDATE = "update account set balance = 1 where id = 1"

both_ways = pytest.mark.parametrize("shipping", ["eager", "lazy"])


async def no(pair: Pair, vote: str = "") -> psycopg.Error:
    """Return the error of a vote that must be no, and roll back at both ends."""
    with pytest.raises(psycopg.Error) as caught:
        await pair.app.execute((vote or pair.vote()).encode())
    refused = await pair.app.execute(f"prepare transaction '{pair.gid}:sub1'".encode())
    assert refused.statusmessage == "ROLLBACK", "the Subscriber prepared after a no"
    await pair.execute("select msrepl.reset_link()")
    return caught.value


async def assert_nothing_left(pair: Pair, eyes: Eyes) -> None:
    """Assert that neither end has a change, a prepared branch, a marker or a lock."""
    for node in ("pub", "sub1"):
        assert eyes.prepared(pair.topology.node(node).database) == []
        rows = await pair.topology.execute(node, BALANCES)
        assert rows == [(g, 100) for g in range(1, 6)]
        markers = "select count(*) from msrepl.branch_marker where not fence"
        assert await pair.topology.execute(node, markers) == [(0,)]
    # the link of a closed session ends a little later
    await pair.topology.execute(
        "pub", "set local lock_timeout = '30s'; select from account for update"
    )


async def assert_usable(pair: Pair, shipping: str) -> None:
    """Assert that the same session can continue with the same link."""
    assert await pair.run("update account set balance = 7 where id = 4", shipping=shipping) == 1
    await pair.same("account")


@both_ways
async def test_an_answer_that_is_nothing_is_a_no(pair: Pair, eyes: Eyes, shipping: str) -> None:
    """NULL, which equals neither yes nor no, is a no."""
    await pair.begin(shipping=shipping)
    await pair.execute(UPDATE)
    await pair.topology.execute(
        "sub1",
        "create or replace function msrepl_link.dblink_exec(text, text) returns text"
        " language sql as 'select null::text'",
    )

    error = await no(pair)

    assert error.sqlstate == "40000"
    assert "did not prepare: its answer was nothing" in str(error)
    await pair.app.close()
    await assert_nothing_left(pair, eyes)


async def test_another_tag_is_a_no(pair: Pair, eyes: Eyes) -> None:
    """The tag ROLLBACK, with which PREPARE of an ended or failed transaction succeeds, is a no."""
    await pair.app.close()
    pair.app = await pair.topology.node("sub1").connect()  # may write into the marker
    await pair.begin(shipping="lazy")
    await pair.execute(UPDATE)
    await pair.execute(
        "with changed as (update msrepl.branch_marker set pending = 'rollback --' returning ctid)"
        " select set_config('msrepl.marker', ctid::text, true) from changed"
    )

    error = await no(pair)

    assert error.sqlstate == "40000"
    assert "its answer was ROLLBACK" in str(error)
    await assert_nothing_left(pair, eyes)
    await assert_usable(pair, "lazy")


@both_ways
async def test_another_id_than_the_captured_one(pair: Pair, eyes: Eyes, shipping: str) -> None:
    """Changing msrepl.gid within the transaction cannot split it over two branches."""
    await pair.begin(shipping=shipping)
    await pair.execute(UPDATE)
    captured = pair.gid
    pair.gid = f"{captured}9"
    await pair.execute(f"set local msrepl.gid = '{pair.gid}'")
    await pair.execute("update account set balance = 2 where id = 2")

    error = await no(pair)

    assert error.sqlstate == "25000"
    assert f"captured changes as {captured}:sub1, not as {captured}9:sub1" in str(error)
    await assert_nothing_left(pair, eyes)
    await assert_usable(pair, shipping)


async def test_no_id_at_all(pair: Pair, eyes: Eyes) -> None:
    """A vote without a gid is refused, because NULL must not name a branch."""
    for change in (UPDATE, "select pg_current_xact_id()", "select 1"):
        await pair.begin()
        await pair.execute(change)
        error = await no(pair, "call msrepl.prepare_publisher(null, null, 'x')")
        assert error.sqlstate == "22004"
        assert "the id of the global transaction is missing" in str(error)
    await assert_nothing_left(pair, eyes)


@both_ways
async def test_voting_twice(pair: Pair, eyes: Eyes, shipping: str) -> None:
    """A second vote is a no at once; the branch of the first is left to the coordinator."""
    await pair.begin(shipping=shipping)
    await pair.execute(UPDATE)
    await pair.execute(pair.vote())

    error = await no(pair)

    assert error.sqlstate == "25000"
    assert "was prepared at the Publisher already" in str(error)
    await pair.topology.execute("pub", f"rollback prepared '{pair.gid}:pub'")
    await assert_nothing_left(pair, eyes)
    await assert_usable(pair, shipping)


@both_ways
async def test_a_change_after_the_vote(pair: Pair, eyes: Eyes, shipping: str) -> None:
    """A change after the vote is refused, because it would not be part of any branch."""
    await pair.begin(shipping=shipping)
    await pair.execute(UPDATE)
    await pair.execute(pair.vote())

    error = await pair.fails("update account set balance = 2 where id = 2")
    await pair.rollback()

    assert error.sqlstate == "25000"
    assert "account was changed after this transaction was prepared" in str(error)
    await assert_nothing_left(pair, eyes)


@both_ways
async def test_a_deferred_trigger_that_changes_rows_after_the_vote(
    make_pair: MakePair, eyes: Eyes, shipping: str
) -> None:
    """A deferred trigger that makes changes within PREPARE TRANSACTION, too late to send, fails."""
    pair = await make_pair(
        ACCOUNT,
        ROWS,
        publish=["account"],
        at_subscriber=[
            "create table local_note (id int primary key)",
            """
            create function late() returns trigger language plpgsql as $$
            begin update public.account set balance = 3 where id = 3; return null; end $$
            """,
            """
            create constraint trigger late after insert on local_note
            deferrable initially deferred for each row execute function late()
            """,
        ],
    )
    app = pair.topology.node("sub1").app_role
    await pair.topology.execute("sub1", f'grant insert on local_note to "{app}"')
    await pair.begin(shipping=shipping)
    await pair.execute(UPDATE)
    await pair.execute("insert into local_note values (1)")
    await pair.execute(pair.vote())
    error = await pair.fails(f"prepare transaction '{pair.gid}:sub1'")
    assert error.sqlstate == "25000"
    assert "SET CONSTRAINTS ALL IMMEDIATE" in str(error.diag.message_hint)
    await pair.topology.execute("pub", f"rollback prepared '{pair.gid}:pub'")
    await assert_nothing_left(pair, eyes)

    # if it fires in time, its changes are sent with the others
    await pair.begin(shipping=shipping)
    await pair.execute(UPDATE)
    await pair.execute("insert into local_note values (1)")
    await pair.execute("set constraints all immediate")
    await pair.commit()
    assert {(1, 1), (3, 3)} <= set((await pair.rows(BALANCES))[0])
    await pair.same("account")


async def test_voting_outside_a_transaction(pair: Pair, eyes: Eyes) -> None:
    """A vote outside a transaction is refused."""
    await pair.begin()
    await pair.execute("commit")
    error = await pair.fails(pair.vote())
    assert error.sqlstate == "25000"
    assert "was ended by a statement" in str(error)
    await assert_nothing_left(pair, eyes)


async def test_voting_after_an_error(pair: Pair, eyes: Eyes) -> None:
    """A failed transaction cannot vote; its PREPARE succeeds, and only the tag shows the failure."""
    await pair.begin()
    await pair.execute(UPDATE)
    await pair.fails("select 1 / 0")
    assert (await no(pair)).sqlstate == "25P02"
    await assert_nothing_left(pair, eyes)
    await assert_usable(pair, "eager")


@both_ways
async def test_deferred_foreign_key_at_the_publisher(
    make_pair: MakePair, eyes: Eyes, shipping: str
) -> None:
    """A deferred constraint that only the Publisher has is checked there at PREPARE."""
    pair = await make_pair(
        "create table region (id int primary key)",
        "insert into region values (1)",
        "create table account (id int primary key, balance int not null, region int default 1"
        " references region deferrable initially deferred)",
        ROWS,
        publish=["account"],
    )
    await pair.begin(shipping=shipping)
    await pair.execute("update account set region = 2 where id = 1")

    error = await no(pair)

    assert error.sqlstate == "23503"
    assert 'violates foreign key constraint "account_region_fkey"' in str(error)
    await assert_nothing_left(pair, eyes)
    await assert_usable(pair, shipping)


@both_ways
async def test_deferred_unique_key_at_the_publisher(
    make_pair: MakePair, eyes: Eyes, shipping: str
) -> None:
    """A row that the Subscriber has not received yet causes a conflict at PREPARE."""
    pair = await make_pair(
        "create table account (id int primary key, balance int not null,"
        " code int unique deferrable initially deferred)",
        ROWS,
        publish=["account"],
    )
    await pair.topology.execute("pub", "update account set code = 9 where id = 2")
    await pair.begin(shipping=shipping)
    await pair.execute("update account set code = 9 where id = 1")

    error = await no(pair)

    told = from_sqlstate(error.sqlstate or "", str(error), detail=error.diag.message_detail or "")
    assert isinstance(told, ConflictError)
    assert (told.kind, told.sqlstate, told.number) == ("update_exists", "23505", 20515)
    await assert_nothing_left(pair, eyes)
    assert await pair.run("update account set code = 8 where id = 1", shipping=shipping) == 1


async def test_serialization_failure_at_prepare(make_pair: MakePair, eyes: Eyes) -> None:
    """At SERIALIZABLE, a cycle with a transaction of the Publisher makes the vote no."""
    pair = await make_pair(
        ACCOUNT,
        ROWS,
        """
        create function look_at_all() returns trigger language plpgsql as $$
        begin perform sum(balance) from public.account; return null; end $$
        """,
        "create trigger look after update on account execute function look_at_all()",
        publish=["account"],
    )
    async with await pair.topology.node("pub").connect() as other:
        await other.execute("begin isolation level serializable")
        await other.execute("select sum(balance) from account")
        await pair.begin(isolation="serializable")
        await pair.execute(UPDATE)
        await other.execute("update account set balance = 100 where id = 2")
        await other.execute("commit")

    error = await no(pair)

    told = from_sqlstate(error.sqlstate or "", str(error), detail=error.diag.message_detail or "")
    assert isinstance(told, ConflictError)
    assert (told.kind, told.sqlstate) == ("serialization_failure", "40001")
    await assert_nothing_left(pair, eyes)


@both_ways
async def test_prepared_slots_exhausted(pair: Pair, eyes: Eyes, shipping: str) -> None:
    """A Publisher that cannot prepare more transactions votes no, with the server's own hint."""
    fillers: list[str] = []
    async with await pair.topology.node("distribution").connect() as filler:
        try:
            while True:
                gid = f"filler {len(fillers)}"
                await filler.execute("begin; select pg_current_xact_id()")
                try:
                    await filler.execute(f"prepare transaction '{gid}'".encode())
                except psycopg.errors.OutOfMemory:
                    break
                fillers.append(gid)
            await pair.begin(shipping=shipping)
            await pair.execute(UPDATE)
            error = await no(pair)
        finally:
            for gid in fillers:
                await filler.execute(f"rollback prepared '{gid}'".encode())

    assert error.sqlstate == "53200"
    assert "maximum number of prepared transactions reached" in str(error)
    assert "max_prepared_transactions" in str(error.diag.message_hint)
    await assert_nothing_left(pair, eyes)
    await assert_usable(pair, shipping)


@both_ways
async def test_a_gid_that_is_taken(pair: Pair, eyes: Eyes, shipping: str) -> None:
    """A gid that is in use in the cluster makes the vote no; the other transaction is unaffected."""
    await pair.begin(shipping=shipping)
    gid = f"{pair.gid}:pub"
    async with await pair.topology.node("pub").connect() as other:
        await other.execute("begin; select pg_current_xact_id()")
        await other.execute(f"prepare transaction '{gid}'".encode())
        await pair.execute(UPDATE)

        error = await no(pair)

        await other.execute(f"rollback prepared '{gid}'".encode())
    assert error.sqlstate == "42710"
    assert f'transaction identifier "{gid}" is already in use' in str(error)
    await assert_nothing_left(pair, eyes)
    await assert_usable(pair, shipping)


@both_ways
async def test_a_branch_that_recovery_has_fenced(pair: Pair, eyes: Eyes, shipping: str) -> None:
    """The fence that recovery has written for a gid refuses a late branch."""
    await pair.begin(shipping=shipping)
    await pair.topology.execute(
        "pub",
        "insert into msrepl.branch_marker (gid, xid, participants, fence)"
        f" values ('{pair.gid}:pub', pg_current_xact_id(), '{{}}', true)",
    )
    if shipping == "eager":
        error = await pair.fails(UPDATE)
        await pair.rollback()
    else:
        await pair.execute(UPDATE)
        error = await no(pair)

    assert error.sqlstate == "40000"
    assert "given up by recovery" in str(error)
    assert facts_of(error)["kind"] == "fenced"
    await assert_nothing_left(pair, eyes)


@pytest.mark.parametrize(
    ("forbidden", "says"),
    [
        ("create temp table scratch (n int)", "temporary"),
        ("notify somebody", "NOTIFY"),
        ("declare c cursor with hold for select 1", "WITH HOLD"),
    ],
)
@both_ways
async def test_statement_forbidden_before_prepare(
    pair: Pair, eyes: Eyes, shipping: str, forbidden: str, says: str
) -> None:
    """If the Subscriber's PREPARE fails after the Publisher's yes, that branch is rolled back."""
    await pair.begin(shipping=shipping)
    await pair.execute(UPDATE)
    await pair.execute(forbidden)
    [(calls,)] = await pair.execute(pair.vote())
    assert calls == 1

    error = await pair.fails(f"prepare transaction '{pair.gid}:sub1'")

    assert error.sqlstate == "0A000"
    assert says in str(error)
    assert eyes.prepared(pair.topology.node("pub").database) == [f"{pair.gid}:pub"]
    await pair.topology.execute("pub", f"rollback prepared '{pair.gid}:pub'")
    await assert_nothing_left(pair, eyes)
    await assert_usable(pair, shipping)


async def test_branch_without_changes_for_the_publisher(make_pair: MakePair, eyes: Eyes) -> None:
    """Changes of the Subscriber's own tables write a marker, and need no branch at the Publisher."""
    pair = await make_pair(
        ACCOUNT, ROWS, publish=["account"], at_subscriber=["create table own (n int)"]
    )
    app = pair.topology.node("sub1").app_role
    await pair.topology.execute("sub1", f'grant insert on own to "{app}"')
    await pair.begin()
    await pair.execute("insert into own values (1)")
    assert await pair.commit() == 0
    await pair.begin()
    await pair.execute("select * from account")
    assert await pair.execute(pair.vote()) == [(0,)]
    await pair.execute("commit")

    markers = "select participants, calls from msrepl.branch_marker"
    assert await pair.rows(markers) == ([], [([], 0)])
