"""Tests of validations during changes: transactions in progress are no difference, damage and skipped changes are."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import pytest
from psycopg import AsyncConnection

from tests.loopback.workload import Client, Ledger
from tests.loopback.workload import make as make_workload
from tests.validation.ends import ends
from twopc.drivers.points import Points
from twopc.errors import DeliveryError, SubscriptionError
from twopc.propagation import record_values
from twopc.publisher.distribution import clean_up, kept
from twopc.publisher.validation import subscribed_articles
from twopc.sim.topology import Topology
from twopc.sim.validation import LOOKS_MAX, validate
from twopc.sql.checksum import ChecksumTexts
from twopc.subscriber.distribution_agent import Profile
from twopc.subscriber.validation import Values, by_column, repair
from twopc.validation import ArticleVerdict, Key, parse_key

MakeTopology = Callable[..., Awaitable[Topology]]
TABLE = """
create table item (id int primary key, n int);
insert into item select g, 0 from generate_series(1, 20) g;
"""


async def wired(make_topology: MakeTopology, **options: Any) -> Topology:
    profile = options.pop("profile", None)
    topology = await make_topology(**options)
    await topology.execute("pub", TABLE)
    await topology.publish("item")
    for subscriber in topology.subscribers:
        await topology.subscribe(subscriber, profile=profile)
    return topology


async def judged(topology: Topology, subscriber: str = "sub1", **options: Any) -> ArticleVerdict:
    (found,) = await validate(
        ends(topology, subscriber), advance=lambda: topology.sync(subscriber), **options
    )
    return found


@pytest.mark.parametrize(
    ("commit", "point"),
    [
        ("presumed_abort", "coordinator.before_commit(pub)"),
        ("presumed_abort", "coordinator.before_commit(sub1)"),
        ("presumed_abort", "coordinator.after_commit(pub)"),
        ("presumed_abort", "coordinator.after_commit(sub1)"),
        ("last_agent", "coordinator.after_prepare(pub)"),
    ],
)
async def test_between_two_sites(make_topology: MakeTopology, commit: str, point: str) -> None:
    """An own transaction that only one site has committed is no difference: inserted, changed, deleted rows."""
    points, found = Points(), []
    topology = await wired(make_topology, subscribers=("sub1",), points=points)

    async def look(_: str) -> None:
        found.append(await judged(topology))

    points.arm(point, look)
    async with topology.transaction("sub1", commit=commit) as transaction:
        await transaction.execute("update item set n = 1 where id < 5")
        await transaction.execute("delete from item where id = 7")
        await transaction.execute("update item set id = 100 where id = 8")
        await transaction.execute("insert into item values (101, 1)")
    assert [verdict.passed for verdict in found] == [True]
    last = await judged(topology)
    assert last.passed
    assert not last.undecided
    assert last.actual.rows == 20


async def test_a_branch_that_does_not_end_is_told(make_topology: MakeTopology) -> None:
    """If a branch stays prepared at the Publisher, the validation fails with an error that refers to `indoubt`."""
    points = Points()
    topology = await wired(make_topology, subscribers=("sub1",), points=points)

    async def look(_: str) -> None:
        with pytest.raises(
            SubscriptionError, match=r"to finish its branches at the Publisher.*indoubt"
        ):
            await judged(topology, timeout_s=4)

    points.arm("coordinator.before_commit(pub)", look)
    async with topology.transaction("sub1", commit="last_agent") as transaction:
        await transaction.execute("update item set n = 1")
    assert (await judged(topology)).passed


async def test_damage_among_writers(make_topology: MakeTopology) -> None:
    """Exactly the damaged rows are found and repaired while clients write."""
    topology = await make_topology(subscribers=("sub1", "sub2"))
    await make_workload(topology)
    await topology.execute(
        "pub", "insert into item (id, token) select -g, 0 from generate_series(1, 50) g"
    )
    await topology.start_agents()
    await topology.sync()
    ledger, clients = Ledger(), []
    for number, node in enumerate(["sub1", "pub"], 1):
        clients.append(Client(topology, node, ledger, number=number, seed="damage"))
    try:
        for turn in range(1, 4):
            await topology.execute(
                "sub2",
                "begin; set local session_replication_role = replica;"
                f"delete from item where id = -{turn}; update item set n = 9 where id = -{turn + 10};"
                f"insert into item (id, token) values (-{turn + 100}, 0); commit",
            )
            for client in clients * 5:
                await client.run_once()
            found = await validate(ends(topology, "sub2"), repair=True)
            item, line = found
            assert set(item.named()) == {
                f"missing (id = -{turn})",
                f"extra (id = -{turn + 100})",
                f"changed (id = -{turn + 10})",
            }
            assert len(item.repaired) == 3
            assert line.passed
            for client in clients * 5:
                await client.run_once()
    finally:
        await topology.stop_agents()
        for client in clients:
            await client.close()
    await topology.sync()
    await topology.assert_converged("item", "line")
    assert ledger.transactions > 20


async def test_a_skipped_transaction_is_found(make_topology: MakeTopology) -> None:
    """A skipped transaction, one of whose rows is missing at the Subscriber (20598), is found by validation."""
    topology = await wired(
        make_topology, subscribers=("sub1",), profile=Profile(skip_errors=("20598",))
    )
    await topology.execute(
        "sub1",
        "begin; set local session_replication_role = replica; delete from item where id = 3; commit",
    )
    await topology.execute("pub", "update item set n = 5 where id in (3, 4)")
    await topology.sync()
    found = await judged(topology, repair=True)
    # the transaction was skipped as a whole
    assert found.named() == ["missing (id = 3)", "changed (id = 4)"]
    assert (await judged(topology)).passed
    await topology.assert_converged("item")


async def test_repair_lets_a_stopped_agent_go_on(make_topology: MakeTopology) -> None:
    """If the agent has stopped with an error, validation fails with the same error."""
    topology = await wired(make_topology, subscribers=("sub1",))
    await topology.execute(
        "sub1",
        "begin; set local session_replication_role = replica; delete from item where id = 3; commit",
    )
    await topology.execute("pub", "update item set n = 5 where id = 3")
    with pytest.raises(DeliveryError, match="20598"):
        await topology.sync()
    with pytest.raises(DeliveryError, match="20598"):
        await judged(topology)


async def test_clean_up_waits_for_a_validation(make_topology: MakeTopology) -> None:
    """Clean-up keeps all stored transactions until a validation, which reads them, has ended."""
    topology = await wired(make_topology, subscribers=("sub1",))
    await topology.execute("pub", "update item set n = 1")
    await topology.sync()
    node = topology.node(topology.distribution)
    async with (
        await node.connect() as reading,
        await node.connect() as cleaning,
        await AsyncConnection.connect(node.app_dsn) as stranger,
    ):
        # any role may take any advisory lock, so that of another role has no effect
        await stranger.execute("select pg_advisory_lock(hashtext('msrepl retention'), 0)")
        async with kept(reading):
            done = await clean_up(cleaning)
            assert (done.held, done.transactions) == (True, 0)
        done = await clean_up(cleaning)
        assert not done.held
        assert done.transactions >= 1


async def test_a_row_that_never_rests_is_undecided(make_topology: MakeTopology) -> None:
    """A row that was changed at every look is undecided, neither equal nor different; the others are decided."""
    topology = await wired(make_topology, subscribers=("sub1",))

    async def advance() -> None:
        await topology.execute("pub", "update item set n = n + 1 where id = 3")
        await topology.sync()

    (found,) = await validate(ends(topology, "sub1"), advance=advance)
    assert found.passed
    assert found.undecided == (("3",),)
    assert found.actual.rows == 19
    assert found.looks == LOOKS_MAX


async def test_only_what_is_as_it_was_found_is_repaired(make_topology: MakeTopology) -> None:
    """A row that has changed at either node since it was found, or is being changed, is not repaired."""
    topology = await wired(make_topology, subscribers=("sub1",))
    await topology.execute(
        "sub1",
        "begin; set local session_replication_role = replica;"
        "delete from item where id = 1; update item set n = 9 where id in (2, 3, 4); commit",
    )
    found = await judged(topology)
    assert len(found.differences) == 4
    (article,) = await subscribed_articles(await topology.admin("distribution"), "pub", "sub1")
    texts = ChecksumTexts(article.article)
    publisher = await topology.admin("pub")
    fetched: list[list[Key]] = []

    async def fetch(keys: Sequence[Key]) -> Mapping[Key, tuple[int, Values]]:
        if keys == [("1",)]:  # requested again once it is inserted: it has been deleted meanwhile
            await topology.execute("pub", "delete from item where id = 1")
        fetched.append(sorted(keys))
        cursor = await publisher.execute(
            texts.rows_by_key(values=True), by_column(article.article, keys)
        )
        return {
            parse_key(key): (
                checksum,
                [None if v is None else v.decode() for v in record_values(row.encode())],
            )
            for key, checksum, row in await cursor.fetchall()
        }

    await topology.execute("pub", "update item set n = 7 where id = 2")
    await topology.execute(
        "sub1",
        "begin; set local session_replication_role = replica; update item set n = 8 where id = 3; commit",
    )
    async with await topology.node("sub1").connect() as connection:
        done = await repair(connection, article.article, found.differences, fetch)
    assert done == [("4",)]
    assert fetched == [[("1",), ("2",), ("4",)], [("1",)]]
    rows = await topology.execute("sub1", "select id, n from item where id < 5 order by id")
    assert rows == [(2, 9), (3, 8), (4, 0)]

    async with await topology.node("sub1").connect() as other:
        await other.execute(
            "begin; set local session_replication_role = replica; delete from item where id = 3"
        )
        async with await topology.node("sub1").connect() as connection:
            assert await repair(connection, article.article, found.differences, fetch) == []
        await other.execute("rollback")


@pytest.mark.parametrize("form", ["CALL", "SCALL", "MCALL", "XCALL", "SQL"])
async def test_every_format_tells_which_rows_it_touches(
    make_topology: MakeTopology, form: str
) -> None:
    """Commands of every format identify the rows that they change between two looks, also by hostile keys."""
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute(
        "pub",
        """
        create table item (a text, "b'" int, n int, primary key ("b'", a));
        insert into item select 'it''s "' || g || '", \\ NULL', g, 0 from generate_series(1, 20) g;
        """,
    )
    single = form if form in ("CALL", "SQL") else "CALL"
    await topology.publish(
        "item",
        propagate={"ins": single, "upd": form, "del": form if form == "XCALL" else single},
    )
    await topology.subscribe("sub1")
    turns = iter(range(1, 3))

    async def advance() -> None:
        for turn in turns:  # one turn for each call
            await topology.execute(
                "pub",
                f"""
                insert into item values ('NULL', 100 + {turn}, 0);
                update item set n = n + 1 where "b'" = {turn};
                update item set a = a || ')', "b'" = 200 + {turn} where "b'" = 4 + {turn};
                delete from item where "b'" = 10 + {turn};
                """,
            )
            break
        await topology.sync()

    (found,) = await validate(ends(topology, "sub1"), advance=advance)
    assert found.passed
    assert not found.undecided
    assert found.looks > 1
    assert found.actual.rows == 20
    await topology.assert_converged("item")


async def test_a_filter_of_the_subscription(make_topology: MakeTopology) -> None:
    """A Subscriber is compared with its own partition, into and out of which rows move."""
    topology = await make_topology(subscribers=("sub1", "sub2"))
    await topology.execute("pub", TABLE)
    await topology.publish("item")
    await topology.subscribe("sub1", filters={"item": "n = 0 and id <= 10"})
    await topology.subscribe("sub2")
    await topology.execute(
        "pub", "update item set n = 1 where id in (1, 2); insert into item values (0, 0)"
    )
    await topology.execute("pub", "update item set n = 0 where id = 2")
    found = await judged(topology, "sub1")
    assert (found.passed, found.actual.rows) == (True, 10)
    assert (await judged(topology, "sub2")).actual.rows == 21
    await topology.execute(
        "sub1",
        "begin; set local session_replication_role = replica; insert into item values (15, 0); commit",
    )
    assert (await judged(topology, "sub1", repair=True)).named() == ["extra (id = 15)"]
    assert (await judged(topology, "sub1")).passed
