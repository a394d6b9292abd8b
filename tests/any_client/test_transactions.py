"""Tests of transactions of any client: what each may execute, and that both sites become equal."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress

import psycopg
import pytest
from psycopg import errors as pg

from tests.any_client.conftest import Clients, beside_another
from tests.fix_topology import MakeTopology
from twopc.errors import SubscriptionError

UPDATE = "update account set balance = balance + 1 where id = 1"
ALL = "update account set balance = 0"
LATE = "set constraints all immediate"

#: Each history's statements, and the first account's balance after them.
HISTORIES: dict[str, tuple[list[str], int]] = {
    "autocommit": ([UPDATE], 101),
    "in a block": (["begin", UPDATE, UPDATE, "commit"], 102),
    "one message": ([f"begin; {UPDATE}; commit"], 101),
    "rolled back": (["begin", UPDATE, "rollback"], 100),
    "savepoint rolled back": (["begin", UPDATE, "savepoint a", UPDATE, "rollback to a", "commit"], 101),
    "all in a savepoint rolled back": (["begin", "savepoint a", UPDATE, "rollback to a", "commit"], 100),
    "again after its savepoint": (
        ["begin", "savepoint a", UPDATE, "rollback to a", UPDATE, "commit"],
        101,
    ),
    "released savepoint": (["begin", "savepoint a", UPDATE, "release a", UPDATE, "commit"], 102),
    "constraints immediate between": (["begin", UPDATE, LATE, UPDATE, "commit"], 102),
    "constraints immediate before": (["begin", LATE, UPDATE, UPDATE, "commit"], 102),
    "constraints immediate at the end": (["begin", UPDATE, LATE, "commit"], 101),
    "constraints immediate twice": (["begin", UPDATE, LATE, LATE, "commit"], 101),
    "constraints immediate often": (["begin", *[UPDATE, LATE] * 12, LATE, UPDATE, "commit"], 113),
    "constraints immediate twice in a message": (["begin", f"{UPDATE}; {LATE}; {LATE}", "commit"], 101),
    "lazy": (["set msrepl.shipping = 'lazy'", "begin", UPDATE, UPDATE, "commit"], 102),
    "lazy autocommit": (["set msrepl.shipping = 'lazy'", UPDATE], 101),
    "serializable": (["begin isolation level serializable", UPDATE, "commit"], 101),
    "repeatable read": (["begin isolation level repeatable read", UPDATE, "commit"], 101),
    "chain": (["begin", ALL, "commit and chain", UPDATE, "commit"], 1),
    "speaks of constraints": ([f"{UPDATE} returning 'set constraints all immediate'"], 101),
    "several tables": (
        ["begin", "insert into entry (account, amount) values (1, 5)", UPDATE, "commit"],
        101,
    ),
    "insert and delete": (["insert into account values (9, 1)", "delete from account where id = 9"], 100),
    "merge": (
        [
            "merge into account as a using (values (1, 7), (8, 8)) as v(id, n) on a.id = v.id"
            " when matched then update set balance = v.n"
            " when not matched then insert (id, balance) values (v.id, v.n)"
        ],
        7,
    ),
    "reads only": (["begin", "select * from account", "commit"], 100),
    "changes nothing": (["update account set balance = 0 where id = 77"], 100),
    "a block of code": (
        [
            f"do $$ begin {UPDATE}; begin {UPDATE}; raise exception 'x'; exception when others then null; end;"
            f" {UPDATE}; end $$"
        ],
        102,
    ),
    "a block that commits": ([f"do $$ begin {UPDATE}; commit; {UPDATE}; commit; end $$"], 102),
}  # fmt: skip


async def test_both_sites_come_to_the_same(clients: Clients) -> None:
    for name, (statements, balance) in HISTORIES.items():
        client = await clients.client()
        for statement in statements:
            await client.execute(statement.encode())
        await clients.settled()
        assert (await clients.balances())[0] == balance, name
        await client.execute("reset all; delete from entry; delete from account where id > 4")
        await client.execute("update account set balance = 100")
        # otherwise the next snapshot at the Publisher may be older than the reset rows
        await clients.settled()
        await client.close()


async def test_extended_protocol_and_pipelines(clients: Clients) -> None:
    """Prepared statements work, and several transactions in one pipeline."""
    for number in range(8):
        await clients.app.execute(
            "update account set balance = balance + %s where id = 1", (number,), prepare=True
        )
    async with clients.app.pipeline() as pipeline:
        for _ in range(3):
            await clients.app.execute(UPDATE)
            await pipeline.sync()
    await clients.settled()
    assert (await clients.balances())[0] == 100 + sum(range(8)) + 3


async def test_copy(clients: Clients) -> None:
    async with (
        clients.app.cursor() as cursor,
        cursor.copy("copy account (id, balance) from stdin") as copy,
    ):
        await copy.write(b"11\t1\n12\t2\n13\t3\n")
    await clients.settled()
    assert len(await clients.balances()) == 7


async def test_generated_values_are_the_publishers(clients: Clients) -> None:
    """RETURNING shows values that the Publisher generated."""
    await clients.topology.execute("pub", "alter table entry alter column id restart 700")
    cursor = await clients.app.execute(
        "insert into entry (account, amount) values (1, 1) returning id"
    )
    assert await cursor.fetchall() == [(700,)]
    await clients.settled()


async def test_a_stale_copy_is_refused_at_the_statement(clients: Clients) -> None:
    """A change of a stale row fails with the SQLSTATE and the facts that a coordinator's transaction gets."""
    await clients.topology.execute("pub", "update account set balance = 7 where id = 1")
    await clients.app.execute("begin")
    await clients.app.execute("update account set balance = 5 where id = 2")
    with pytest.raises(pg.SerializationFailure) as caught:
        await clients.app.execute(UPDATE)
    facts = json.loads(caught.value.diag.message_detail or "")
    assert (facts["kind"], facts["key"]) == ("version_mismatch", {"id": 1})
    await clients.app.execute("rollback")
    await clients.topology.sync()
    await clients.app.execute(UPDATE)
    await clients.settled()
    assert await clients.balances() == [8, 100, 100, 100]


async def test_or_at_the_commit_if_it_is_sent_then(clients: Clients) -> None:
    await clients.topology.execute("pub", "update account set balance = 7 where id = 1")
    await clients.app.execute("set msrepl.shipping = 'lazy'")
    await clients.app.execute("begin")
    await clients.app.execute(UPDATE)
    with pytest.raises(pg.SerializationFailure):
        await clients.app.execute("commit")
    assert clients.app.info.transaction_status == psycopg.pq.TransactionStatus.IDLE
    await clients.topology.sync()
    await clients.settled()
    assert await clients.balances() == [7, 100, 100, 100]


async def test_who_reads_only_has_no_link(clients: Clients) -> None:
    """A transaction without changes opens no link, writes no marker and gets no transaction id."""
    await clients.app.execute("begin; select count(*) from account; commit")
    await clients.app.execute("update account set balance = 1 where id = 77")
    name = "select pid from pg_stat_activity where application_name like 'msrepl sub1 %'"
    assert await clients.rows("pub", name) == []
    assert await clients.rows("sub1", "select gid from msrepl.branch_marker") == []


async def test_a_prepare_is_seen_whatever_strings_mean(clients: Clients) -> None:
    """PREPARE TRANSACTION is recognised even if backslashes in the session's strings are escapes."""
    await clients.app.execute("set standard_conforming_strings = off")
    await clients.app.execute(f"begin; {UPDATE}".encode())
    with pytest.raises(pg.FeatureNotSupported, match="by its coordinator only"):
        await clients.app.execute("prepare transaction 'mine'")
    await clients.settled()


@pytest.mark.parametrize("verb", ["commit", "rollback"])
async def test_a_hidden_prepare_decides_nothing(clients: Clients, verb: str) -> None:
    """A PREPARE TRANSACTION that is not recognised is not refused; the Publisher's branch has its outcome."""
    await clients.app.execute(f"begin; {UPDATE}".encode())
    with suppress(pg.FeatureNotSupported):
        await clients.app.execute("/**/ prepare transaction 'mine'")
        for _ in range(2):
            await clients.topology.any_client.resolvers["sub1"].sweep()
        assert len(await clients.prepared()) == 1
        await clients.app.execute(f"{verb} prepared 'mine'".encode())
    await clients.settled()


async def test_another_role_within_the_transaction(clients: Clients) -> None:
    """The link uses the subscription's role, whichever role executes the statement."""
    await clients.topology.execute("sub1", "create role clerk_of_any")
    try:
        await clients.topology.execute("sub1", "grant select, update on account to clerk_of_any")
        app = clients.topology.node("sub1").app_role
        await clients.topology.execute("sub1", f'grant clerk_of_any to "{app}"')
        await clients.app.execute("begin")
        await clients.app.execute("set local role clerk_of_any")
        await clients.app.execute(UPDATE)
        await clients.app.execute("reset role")
        await clients.app.execute(UPDATE)
        await clients.app.execute("commit")
        await clients.settled()
        assert (await clients.balances())[0] == 102
    finally:
        await clients.topology.execute("sub1", "drop owned by clerk_of_any; drop role clerk_of_any")


@pytest.mark.parametrize(
    ("statements", "error", "words"),
    [
        (["begin", UPDATE, "prepare transaction 'mine'"], pg.FeatureNotSupported, "by its coordinator only"),
        (["begin", UPDATE, "reset all", UPDATE], pg.InvalidTransactionState, "RESET ALL has no place"),
        (["begin", UPDATE, "set local msrepl.marker = ''", UPDATE], pg.InvalidTransactionState, "Roll back and try"),
        (["begin", UPDATE, f"{LATE}; {LATE}; {UPDATE}"], pg.InvalidTransactionState, "after this transaction was prepared"),
        (["truncate entry"], psycopg.Error, "TRUNCATE"),
        (["select * from msrepl.any_client"], pg.InsufficientPrivilege, "any_client"),
        (["select msrepl.begin_any_client('account')"], pg.InsufficientPrivilege, "begin_any_client"),
    ],
    ids=["prepare", "reset all", "no marker", "changed after it was prepared", "truncate", "peep", "begin by hand"],
)  # fmt: skip
async def test_what_is_refused(
    clients: Clients, statements: list[str], error: type[Exception], words: str
) -> None:
    """After the refusal nothing of the transaction is left at either site."""
    app = clients.topology.node("sub1").app_role
    await clients.topology.execute("sub1", f'grant truncate on entry to "{app}"')
    *first, last = statements
    for statement in first:
        await clients.app.execute(statement.encode())
    with pytest.raises(error, match=words):
        await clients.app.execute(last.encode())
    await clients.app.execute("rollback")
    await clients.settled()
    assert await clients.balances() == [100] * 4


async def test_beside_transactions_of_a_coordinator(clients: Clients) -> None:
    """Any client and a coordinator change the same rows alternately, and no change is lost."""
    other = await clients.client()
    done = 0
    for number in range(20):
        await clients.topology.run("sub1", "update account set balance = balance + 1 where id = 2")
        connection = (clients.app, other)[number % 2]
        await connection.execute("update account set balance = balance + 1 where id = 2")
        done += 2
    await clients.settled()
    assert (await clients.balances())[1] == 100 + done


@beside_another
async def test_others_get_it_and_the_subscriber_itself_does_not(clients: Clients) -> None:
    """A transaction of any client is delivered to other Subscribers, and not back to its originator."""
    await clients.app.execute(UPDATE)
    await clients.settled()
    delivered = await clients.topology.sync()
    assert {name: each.transactions for name, each in delivered.items()} == {"sub1": 0, "sub2": 1}
    await clients.topology.settle()
    await clients.topology.assert_converged()


async def test_it_can_be_forbidden_again(clients: Clients) -> None:
    await clients.app.execute(UPDATE)
    await clients.topology.forbid_any_client("sub1")
    assert await clients.prepared() == []
    with pytest.raises(pg.InvalidTransactionState, match="changed in a global transaction only"):
        await clients.app.execute(UPDATE)
    await clients.topology.run("sub1", UPDATE)
    await clients.topology.allow_any_client("sub1")
    await clients.app.execute(UPDATE)
    await clients.settled()
    assert (await clients.balances())[0] == 103


async def test_where_nobody_subscribes(make_topology: MakeTopology) -> None:
    """Any client cannot be allowed before the node is subscribed, and no resolver is started."""
    topology = await make_topology(subscribers=("sub1",))
    with pytest.raises(SubscriptionError, match="`twopc subscribe` it first"):
        await topology.allow_any_client("sub1")
    assert topology.any_client.resolvers == {}


@beside_another
async def test_two_subscribers_make_versions_of_their_own(clients: Clients) -> None:
    """If any clients of two Subscribers change the same row, the later one gets the Publisher's current row."""
    await clients.topology.allow_any_client("sub2")
    await clients.app.execute("begin")
    await clients.app.execute(UPDATE)
    other = await clients.client("sub2")
    waiting = asyncio.create_task(other.execute("update account set balance = 7 where id = 1"))
    await clients.link_waits(other, "sub2")
    await clients.app.execute("commit")
    with pytest.raises(pg.SerializationFailure) as caught:
        await waiting
    facts = json.loads(caught.value.diag.message_detail or "")
    assert (facts["kind"], facts["key"]) == ("version_mismatch", {"id": 1})
    assert facts["publisher_row"]["balance"] == 101
    assert facts["subscriber_version"] != facts["publisher_version"]
    await clients.settled()


async def test_rows_pair_although_the_name_comes_between(clients: Clients) -> None:
    """A user's trigger may begin the global transaction after the first statement has stamped some rows."""
    await clients.topology.execute(
        "sub1",
        """
        create function writes_entry() returns trigger language plpgsql as $$
        begin
            insert into entry (account, amount) values (new.id, 1);
            return new;
        end $$;
        create trigger writes_entry before update on account for each row execute function writes_entry();
        """,
    )
    await clients.topology.activate("sub1")
    for _ in range(3):
        await clients.app.execute("update account set balance = balance + id")
    await clients.settled()
    assert await clients.balances() == [103, 106, 109, 112]
