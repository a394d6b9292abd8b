"""Tests of delivery: rows at the Subscriber, their commits, and what the agent reports."""

from __future__ import annotations

import pytest

from tests.distribution_agent.ends import Does, Ends, dele, ins, upd
from tests.propagation.here import mask
from twopc.lsn import lsn_text, lsn_value
from twopc.propagation import CommandType
from twopc.subscriber.distribution_agent import session

TABLE = "create table t (id integer primary key, v text, n integer)"
#: Records every change with its transaction, including changes of agents.
AUDIT = """
create table audit (n bigint generated always as identity, xid xid8 default pg_current_xact_id(),
    backend integer default pg_backend_pid(), operation text, id integer);
create function note() returns trigger language plpgsql security definer set search_path = public as
$$ begin insert into audit (operation, id) values (tg_op, coalesce(new.id, old.id)); return null; end $$;
create trigger note after insert or update or delete on t for each row execute function note();
alter table t enable always trigger note;
"""


async def test_commands_reach_the_table_in_order(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.store(ins(1, "a", 10), ins(2, "b", 20), ins(3, "c", 30))
    await ends.store(upd(None, "z", None, 1, mask(3, 2)), dele(2))
    await ends.store(ins(2, "again", None))
    agent = ends.agent()
    delivered = await agent.run_once()
    assert (delivered.transactions, delivered.commands, delivered.batches) == (3, 6, 1)
    assert delivered.position == agent.position == lsn_text(ends.at)
    assert await ends.rows() == [(1, "z", 10), (2, "again", None), (3, "c", 30)]
    assert await ends.position() == ends.at
    assert (await agent.run_once()).transactions == 0
    await agent.close()
    assert [row["event"] for row in await ends.history()] == ["started", "succeeded"]
    succeeded = (await ends.history("succeeded"))[0]
    assert (succeeded["transactions"], succeeded["commands"]) == (3, 6)
    assert succeeded["xact_seqno"] == lsn_text(ends.at)
    status = await ends.status()
    assert (status["delivered"], status["runstatus"]) == (lsn_text(ends.at), "succeeded")


@pytest.mark.parametrize(
    ("profile", "commits"),
    [({"commit_batch_size": 3}, 4), ({"commit_batch_threshold": 4}, 5), ({}, 1)],
)
async def test_source_transactions_share_commits(
    ends: Ends, profile: dict[str, int], commits: int
) -> None:
    await ends.subscribe(TABLE)
    await ends.sub.execute(AUDIT.encode())
    for n in range(10):
        await ends.store(ins(2 * n, "", 0), ins(2 * n + 1, "", 0))
    agent = ends.agent(**profile)
    assert (await agent.run_once()).batches == commits
    await agent.close()
    made = await ends.rows("audit", "n, xid::text, id")
    assert [number for _, _, number in made] == list(range(20))
    by_xid: dict[str, set[int]] = {}
    for _, xid, number in made:
        by_xid.setdefault(xid, set()).add(number // 2)
    assert len(by_xid) == commits
    assert sum(map(len, by_xid.values())) == 10, "no transaction is in two commits"


@pytest.mark.parametrize("as_set", [False, True])
async def test_a_large_transaction_in_blocks_is_one_commit(
    ends: Ends, as_set: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "_SET_MIN", 5 if as_set else 10**9)
    await ends.subscribe(TABLE)
    await ends.sub.execute(AUDIT.encode())
    await ends.store(ins(-1, "before", 0))
    await ends.store(*(ins(n, "x" * (n % 50), n) for n in range(1000)))
    await ends.store(ins(-2, "after", 0))
    agent = ends.agent(block_commands=90, block_bytes=2000, commit_batch_threshold=50)
    delivered = await agent.run_once()
    await agent.close()
    assert (delivered.transactions, delivered.commands, delivered.batches) == (3, 1002, 3)
    assert len(await ends.rows()) == 1002
    xids = {xid for (_, xid) in await ends.rows("audit where id >= 0", "n, xid::text")}
    assert len(xids) == 1


async def test_one_command_may_be_larger_than_a_block(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.store(*(ins(n, "y" * 100_000, n) for n in range(20)))
    agent = ends.agent(block_bytes=1000)
    assert (await agent.run_once()).commands == 20
    await agent.close()
    assert await ends.rows("t", "id, length(v)") == [(n, 100_000) for n in range(20)]


async def test_commands_of_other_articles_are_not_for_us(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.store(ins(1, "a", 1), ins(1, article_id=99))
    for _ in range(3):
        await ends.store(ins(5, article_id=99))
    agent = ends.agent(commit_batch_size=1)
    delivered = await agent.run_once()
    await agent.close()
    assert (delivered.transactions, delivered.commands, delivered.batches) == (4, 1, 1)
    assert await ends.position() == ends.at, "the position moves past what is for others"


async def test_own_transactions_do_not_come_back(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.subscribe("create table u (id integer primary key)", table="u", article_id=8)
    await ends.store(ins(1, "mine", 1), own=True)
    await ends.store(ins(2, "theirs", 2), originator=ends.other_originator_id)
    await ends.store(ins(3, "the Publisher's", 3))
    agent = ends.agent()
    delivered = await agent.run_once()
    await agent.close()
    assert (delivered.transactions, delivered.commands) == (2, 2)
    assert await ends.rows("t", "id") == [(2,), (3,)]


async def test_without_loopback_detection_they_do(ends: Ends) -> None:
    await ends.subscribe(TABLE, loopback_detection=False)
    await ends.subscribe("create table u (id integer primary key)", table="u", article_id=8)
    await ends.store(ins(1, "mine", 1), ins(1, article_id=8), own=True)
    agent = ends.agent()
    assert (await agent.run_once()).commands == 1
    await agent.close()
    assert (await ends.rows("t", "id"), await ends.rows("u")) == ([(1,)], [])


async def test_what_the_initial_copy_has_is_left_out(ends: Ends) -> None:
    before = await ends.store(ins(1, "in the copy", 1))
    running = await ends.store(ins(2, "committed while it was made", 2))
    seen = await ends.store(ins(3, "in the copy", 3))
    after = await ends.store(ins(4, "later", 4))
    await ends.subscribe(
        TABLE,
        subscription_seqno="0/0",
        copy_snapshot=f"{running.xid}:{seen.xid + 1}:{running.xid}",
        copy_seqno=seen.seqno,
    )
    assert before.xid < running.xid < seen.xid < after.xid
    agent = ends.agent()
    delivered = await agent.run_once()
    await agent.close()
    assert delivered.commands == 2
    assert await ends.rows("t", "id") == [(2,), (4,)]
    assert await ends.position() == ends.at


async def test_nothing_from_before_the_subscription(ends: Ends) -> None:
    old = await ends.store(ins(1, "old", 1))
    await ends.subscribe(TABLE, subscription_seqno=old.seqno)
    agent = ends.agent()
    await agent.run_once()
    assert await ends.position() == lsn_value(old.seqno), "it begins where the subscription does"
    await ends.store(ins(2, "new", 2))
    assert (await agent.run_once()).commands == 1
    await agent.close()
    assert await ends.rows("t", "id") == [(2,)]


async def test_an_inactive_subscription_gets_nothing(ends: Ends) -> None:
    await ends.subscribe(TABLE, status=1)
    await ends.store(ins(1, "a", 1))
    agent = ends.agent()
    assert (await agent.run_once()).transactions == 0
    assert await ends.position() == 0, "what it will need is not passed"
    await ends.admin.execute(b"update msrepl.mssubscriptions set status = 2")
    assert (await agent.run_once()).commands == 1
    await agent.close()


async def test_statements_and_calls_in_one_transaction(ends: Ends) -> None:
    await ends.subscribe(TABLE, methods={"upd": "SQL", "dele": "NONE"})
    update = Does(
        operation="upd",
        values=(),
        type=CommandType.SQL_UPDATE,
        text="update public.t set v = E'it''s \\\\ done' where id = '1'::integer",
    )
    await ends.store(ins(1, "a", 1), update, ins(2, "b", 2))
    agent = ends.agent()
    assert (await agent.run_once()).commands == 3
    await agent.close()
    assert await ends.rows("t", "id, v") == [(1, "it's \\ done"), (2, "b")]


async def test_many_articles(ends: Ends) -> None:
    """Commands of 25 articles in one transaction are delivered.

    The statement that finds each command's function is a binary tree.
    """
    for number in range(20, 45):
        await ends.subscribe(
            f"create table t{number} (id integer primary key)",
            table=f"t{number}",
            article_id=number,
        )
    await ends.store(*(ins(number, article_id=number) for number in range(20, 45)))
    agent = ends.agent()
    assert (await agent.run_once()).commands == 25
    await agent.close()
    for number in range(20, 45):
        assert await ends.rows(f"t{number}") == [(number,)]


async def test_a_tracer_token_is_noted_when_it_arrives(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.store(posted=[(CommandType.TRACER_TOKEN, {"id": 41})])
    await ends.store(ins(1, "a", 1), posted=[(CommandType.VALIDATION, {"id": 42, "x": "y z"})])
    agent = ends.agent()
    assert (await agent.run_once()).commands == 1
    await agent.close()
    cursor = await ends.admin.execute(
        b"select tracer_id, subscriber, subscriber_commit is not null from msrepl.mstracer_history"
    )
    assert await cursor.fetchall() == [(41, "sub1", True)]
    assert await ends.position() == ends.at


async def test_values_survive_any_setting_of_the_database(ends: Ends) -> None:
    await ends.subscribe(
        "create table t (id integer primary key, d date, m money, i interval, s timestamptz,"
        " b bytea, a text[])"
    )
    for setting in (
        "datestyle to 'SQL, DMY'",
        "intervalstyle to 'sql_standard'",
        "timezone to 'Asia/Kolkata'",
        "array_nulls to off",
        "standard_conforming_strings to off",
    ):
        await ends.sub.execute(f"alter database {ends.subscriber.name} set {setting}".encode())
    row = (
        1,
        "2024-03-04",
        "$1,234.50",
        "-1 days +02:03:00",
        "2024-03-04 05:06:07.8+00",
    )
    await ends.store(ins(*row, b"\x00\\", '{NULL,"\\\\",null}'))
    agent = ends.agent()
    await agent.run_once()
    await agent.close()
    found = await ends.rows(
        "t",
        "id, to_char(d, 'YYYY-MM-DD'), m::numeric, extract(epoch from i)::int,"
        " extract(epoch from s), b, array_to_string(a, '|', 'none')",
    )
    assert [str(value) for value in found[0][:5]] == [
        "1", "2024-03-04", "1234.50", "-79020", "1709528767.800000",
    ]  # fmt: skip
    assert found[0][5:] == (b"\x00\\", "none|\\|none")


async def test_triggers_that_are_not_for_replication_stay_still(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.sub.execute(AUDIT.replace("enable always", "enable").encode())
    await ends.store(ins(1, "a", 1))
    agent = ends.agent()
    await agent.run_once()
    await agent.close()
    assert (await ends.rows("audit"), len(await ends.rows())) == ([], 1)
