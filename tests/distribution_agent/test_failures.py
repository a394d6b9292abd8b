"""Tests of commands that cannot be applied: which one failed, what stops, is skipped, or is retried."""

from __future__ import annotations

import psycopg
import pytest

from tests.distribution_agent.ends import AGENT, PUBLISHER, Ends, dele, ins, upd
from tests.propagation.here import mask
from twopc.drivers import Points
from twopc.errors import DeliveryError, SubscriptionError
from twopc.publisher.distribution import clean_up

TABLE = "create table t (id integer primary key, v text, n integer)"
MISSING = upd(None, "z", None, 99, mask(3, 2))


async def test_a_missing_row_stops_the_agent(ends: Ends) -> None:
    await ends.subscribe(TABLE, originator_id=None)
    await ends.store(ins(1, "a", 1))
    bad = await ends.store(ins(2, "b", 2), MISSING, ins(3, "c", 3))
    await ends.store(ins(4, "d", 4))
    agent = ends.agent()
    with pytest.raises(DeliveryError) as caught:
        await agent.run_once()
    error = caught.value
    assert (error.number, error.sqlstate, error.node) == (20598, "P0002", "sub1")
    assert (error.seqno, error.definite) == (bad.seqno, True)
    assert error.command == "{CALL sp_msupd_t (,'z',,99,0x02)}"
    for part in (bad.seqno, "command 2", "table t", "id = 99", error.command, "20598"):
        assert part in str(error)
    assert await ends.rows("t", "id") == [(1,)], "what came before is there, nothing of the culprit"
    status, failed = await ends.status(), (await ends.history("failed"))[0]
    assert (status["runstatus"], status["last_error"]) == ("failed", str(error))
    assert (failed["error"], failed["xact_seqno"]) == ("20598", bad.seqno)
    assert failed["command"] == error.command

    await ends.sub.execute(b"insert into t values (99, 'mended', 0)")
    assert (await agent.run_once()).transactions == 2
    assert [row[0] for row in await ends.rows("t", "id")] == [1, 2, 3, 4, 99]
    await agent.close()
    assert (await ends.status())["runstatus"] == "succeeded"
    assert (await ends.status())["last_error"] is None


async def test_skipping_drops_the_whole_transaction_and_records_it(ends: Ends) -> None:
    await ends.subscribe(TABLE, originator_id=None)
    bad = []
    for n in range(6):
        await ends.store(ins(10 * n, "good", n))
        bad.append(await ends.store(ins(10 * n + 1, "goes too", n), MISSING))
    agent = ends.agent(skip_errors=("20598",))
    delivered = await agent.run_once()
    await agent.close()
    assert (delivered.skipped, delivered.transactions) == (6, 6)
    assert await ends.rows("t", "id") == [(10 * n,) for n in range(6)]
    skipped = await ends.history("skipped")
    assert [row["xact_seqno"] for row in skipped] == [each.seqno for each in bad]
    assert {row["error"] for row in skipped} == {"20598"}
    assert {row["command"] for row in skipped} == {"{CALL sp_msupd_t (,'z',,99,0x02)}"}
    assert await ends.position() == ends.at


async def test_what_fails_in_a_long_backlog_is_met_in_a_batch_of_the_usual_size(ends: Ends) -> None:
    """A failing command in a long backlog is found in a batch of the usual size.

    Therefore only few transactions are retried individually; those before and after it
    are delivered.
    """
    await ends.subscribe(TABLE, originator_id=None)
    await ends.store_all([[ins(n, "good", n)] for n in range(1500)])
    bad = await ends.store(upd(None, "z", None, 9999, mask(3, 2)))
    await ends.store_all([[ins(n, "good", n)] for n in range(1500, 2000)])
    agent = ends.agent(skip_errors=("20598",), commit_batch_size=50)
    delivered = await agent.run_once()
    await agent.close()
    assert (delivered.skipped, delivered.transactions) == (1, 2000)
    assert await ends.rows("t", "count(*), max(id)") == [(2000, 1999)]
    assert [row["xact_seqno"] for row in await ends.history("skipped")] == [bad.seqno]
    # one large batch, thirty usual ones before the failing one, its transactions individually,
    # the rest
    assert delivered.batches < 100


@pytest.mark.parametrize(
    ("index", "number", "other"),
    [("alter table t add unique (n)", 2627, 2601), ("create unique index on t (n)", 2601, 2627)],
)
async def test_duplicates_have_the_numbers_of_the_original(
    ends: Ends, index: str, number: int, other: int
) -> None:
    """A duplicate has SQL Server's number: 2627 for a constraint, 2601 for a unique index."""
    await ends.subscribe(TABLE, originator_id=None)
    await ends.sub.execute(index.encode())
    await ends.store(ins(1, "a", 5))
    await ends.store(ins(2, "b", 5))
    await ends.store(ins(3, "c", 7))
    with pytest.raises(DeliveryError) as caught:
        await ends.agent(skip_errors=(str(other),)).run_once()
    assert (caught.value.number, caught.value.sqlstate) == (number, "23505")


async def test_a_long_command_is_shown_in_part(ends: Ends) -> None:
    await ends.subscribe(TABLE, originator_id=None)
    await ends.store(ins(1, "", 0), ins(1, "x" * 100_000, 0))
    with pytest.raises(DeliveryError, match=r"id = 1: .*\(1000\d\d characters\)") as caught:
        await ends.agent().run_once()
    assert len(str(caught.value)) < 3000


async def test_any_sqlstate_can_be_skipped(ends: Ends) -> None:
    await ends.subscribe(f"{TABLE}; alter table t add check (n > 0)", originator_id=None)
    await ends.store(ins(1, "a", -5))
    await ends.store(ins(2, "b", 5))
    agent = ends.agent(skip_errors=("23514",))
    assert (await agent.run_once()).skipped == 1
    assert (await ends.history("skipped"))[0]["error"] == "23514"
    assert await ends.rows("t", "id") == [(2,)]


async def test_the_culprit_in_a_large_transaction(ends: Ends) -> None:
    await ends.subscribe(TABLE, originator_id=None)
    await ends.store(*(ins(n, "", n) for n in range(1200)), dele(5000), ins(2000, "", 0))
    agent = ends.agent(block_commands=100, commit_batch_threshold=50)
    with pytest.raises(DeliveryError, match="command 1201, table t, id = 5000") as caught:
        await agent.run_once()
    assert caught.value.number == 20598
    assert await ends.rows() == []


async def test_a_transaction_that_fails_at_its_commit(ends: Ends) -> None:
    await ends.subscribe(
        f"{TABLE}; create function refuse() returns trigger language plpgsql as"
        " $$ begin raise exception 'not % today', new.id using errcode = 'MY001'; end $$;"
        " create constraint trigger refuse after insert on t deferrable initially deferred"
        " for each row when (new.n = 13) execute function refuse();"
        " alter table t enable always trigger refuse",
        originator_id=None,
    )
    await ends.store(ins(1, "a", 1))
    bad = await ends.store(ins(2, "b", 13))
    with pytest.raises(DeliveryError, match="not 2 today") as caught:
        await ends.agent().run_once()
    assert (caught.value.seqno, caught.value.sqlstate) == (bad.seqno, "MY001")
    assert caught.value.command == ""
    assert await ends.rows("t", "id") == [(1,)]


async def test_commands_that_nothing_takes(ends: Ends) -> None:
    """A command without a procedure, because the article's call format has changed meanwhile, fails."""
    await ends.subscribe(TABLE, methods={"upd": "NONE"}, originator_id=None)
    await ends.store(ins(1, "a", 1))
    await ends.store(upd(1, "b", 2, 1))
    with pytest.raises(DeliveryError, match="nothing takes commands of kind 2 of article 7"):
        await ends.agent().run_once()
    assert await ends.rows("t", "v") == [("a",)]


async def test_a_call_of_another_shape_says_what_to_do(ends: Ends) -> None:
    await ends.subscribe(TABLE, originator_id=None)
    await ends.store(ins(1, "a", 1, "one more"))
    with pytest.raises(DeliveryError, match="twopc regenerate t"):
        await ends.agent().run_once()


async def test_only_one_agent_at_a_time(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A second agent says that it waits for the first one, which may have been killed; then it is refused."""
    monkeypatch.setattr("twopc.subscriber.distribution_agent.target._TAKE_OVER_MS", 1)
    await ends.subscribe(TABLE)
    first, second = ends.agent(), ends.agent()
    await first.open()
    with pytest.raises(
        DeliveryError,
        match=r"another distribution agent from 'pub' to 'sub1' .*; pid \d+, msrepl agent for pub, of role \w+\)",
    ) as caught:
        await second.open()
    assert caught.value.number == 21036
    assert caplog.messages == ["waiting for another agent of this subscription to end"]
    await first.close()
    await second.open()
    assert len(caplog.messages) == 1


@pytest.mark.parametrize("streams", [1, 2])
async def test_a_stranger_who_holds_its_locks_keeps_no_agent_away(
    ends: Ends, monkeypatch: pytest.MonkeyPatch, streams: int
) -> None:
    """An unrelated session that holds the agent's advisory locks neither stops it nor hides another agent."""
    monkeypatch.setattr("twopc.subscriber.distribution_agent.target._TAKE_OVER_MS", 1)
    await ends.subscribe(TABLE)
    await ends.sub.execute("create role stranger login password 'x'")
    subscriber = ends.subscriber
    try:
        stranger = await psycopg.AsyncConnection.connect(
            subscriber.server.dsn(subscriber.name, "stranger", "x"), autocommit=True
        )
        async with stranger:
            for lock in ("agent", "streams"):
                name = f"msrepl {lock} of {PUBLISHER}"
                await stranger.execute(
                    "select pg_advisory_lock(hashtext(%s), n) from generate_series(0, 99) as n",
                    (name,),
                )
            await ends.store(ins(1, "a", 1))
            await ends.agent(subscription_streams=streams).run_once()
            assert await ends.rows("t", "id") == [(1,)]
            with pytest.raises(DeliveryError, match="another distribution agent"):
                await ends.agent().open()
    finally:
        await ends.sub.execute("drop role stranger")


async def test_a_position_that_somebody_moved_is_never_written_over(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.store(ins(1, "a", 1))
    agent = ends.agent()
    await agent.open()
    later = await ends.store(ins(2, "b", 2))
    await ends.sub.execute(
        "update msrepl.msreplication_subscriptions set transaction_timestamp = %s", (later.seqno,)
    )
    assert (await agent.run_once()).transactions == 0, "it looks again, and finds nothing to do"
    assert await ends.rows() == []
    assert "the position of what pub distributes" in (await ends.history("retry"))[0]["message"]


async def test_a_deadlock_is_tried_again(ends: Ends) -> None:
    """An agent retries after a deadlock; here a trigger raises the error once."""
    await ends.subscribe(
        f"{TABLE}; create sequence tries; grant all on sequence tries to public;"
        " create function once() returns trigger language plpgsql as"
        " $$ begin if nextval('tries') = 1 then raise exception 'dead' using errcode = '40P01'; end if;"
        " return new; end $$;"
        " create trigger once before insert on t for each row execute function once();"
        " alter table t enable always trigger once"
    )
    await ends.store(ins(1, "a", 1))
    agent = ends.agent()
    assert (await agent.run_once()).transactions == 1
    assert [row["event"] for row in await ends.history()] == [
        "started", "retry", "started", "succeeded",
    ]  # fmt: skip


async def test_a_connection_that_breaks(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.store(ins(1, "a", 1))
    points = Points({})

    async def cut(_: str) -> None:
        await ends.sub.execute(
            "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
            " where datname = current_database() and application_name like 'msrepl agent%%'"
        )

    points.arm("agent.before_send", cut)
    agent = ends.agent(points=points)
    with pytest.raises(DeliveryError, match="try again"):
        await agent.run_once()
    assert await ends.rows() == []
    assert (await agent.run_once()).transactions == 1
    assert len(await ends.rows()) == 1


async def test_there_must_be_a_publisher(ends: Ends) -> None:
    await ends.admin.execute(b"delete from msrepl.mspublisher_databases")
    with pytest.raises(SubscriptionError, match="nothing of Publisher 'pub'"):
        await ends.agent().open()


async def test_a_database_that_is_not_ready(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.sub.execute(b"drop table msrepl.msreplication_subscriptions")
    before = (await (await ends.admin.execute("select clock_timestamp()")).fetchall())[0]
    with pytest.raises(DeliveryError, match="the agent cannot begin"):
        await ends.agent().run_once()
    began = (
        "select at - duration_ms * interval '1 ms' >= %s from msrepl.msdistribution_history "
        "where event = 'failed'"
    )
    assert await (await ends.admin.execute(began, before)).fetchall() == [(True,)]


async def test_a_distribution_database_that_refuses(ends: Ends) -> None:
    await ends.subscribe(TABLE)
    await ends.admin.execute(f"revoke select on msrepl.msrepl_blocks from {AGENT}".encode())
    with pytest.raises(DeliveryError, match="refuses the agent: permission denied"):
        await ends.agent().run_once()
    assert [row["event"] for row in await ends.history()] == ["started", "failed"]


@pytest.mark.parametrize("removed", [False, True])
async def test_a_subscriber_that_was_restored(ends: Ends, removed: bool) -> None:
    """An agent does not go on from an old position: removed transactions, and the Subscriber's own, are missing."""
    await ends.subscribe(TABLE, originator_id=None)
    agent = ends.agent()
    first = await ends.store(ins(1, "", 1))
    await agent.run_once()
    await ends.store(ins(2, "", 2))
    await agent.run_once()
    await agent.close()
    if removed:
        await clean_up(ends.admin)
    await ends.sub.execute("delete from t where id = 2")
    await ends.sub.execute(
        "update msrepl.msreplication_subscriptions set transaction_timestamp = %s", (first.seqno,)
    )
    await ends.store(ins(3, "", 3))
    with pytest.raises(DeliveryError, match=r"restored from a backup\? `twopc reinitialise sub1`"):
        await ends.agent().run_once()
    assert await ends.rows("t", "id") == [(1,)]
