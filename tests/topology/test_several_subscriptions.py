"""Tests of a global transaction at two Subscribers: refused unless allowed, and then atomic."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from twopc.errors import (
    ConfigurationError,
    ConflictError,
    DeadlockError,
    LocalProtocolError,
    RejectedError,
)
from twopc.server import EmbeddedServer
from twopc.sim import Topology

BALANCES = "select id, balance from account order by id"
MARKERS = (
    "select gid, participants, originator from msrepl.branch_marker where not fence order by 1"
)
TAKE = "update account set balance = balance - 10 where id = %s"
VARIANTS = ("presumed_abort", "presumed_commit", "presumed_nothing")


@pytest.fixture
async def shops(server: EmbeddedServer) -> AsyncIterator[Topology]:
    """A topology of two Subscribers with five accounts; no branch may stay prepared."""
    async with Topology(server=server, subscribers=("a", "b")) as topology:
        await topology.execute(
            "pub", "create table account (id int primary key, balance int not null)"
        )
        await topology.execute(
            "pub", "insert into account select g, 100 from generate_series(1, 5) as g"
        )
        await topology.publish("account")
        for name in topology.subscribers:
            await topology.subscribe(name)
            await topology.execute(
                name, "create table diary (line text); grant all on diary to public"
            )
        yield topology
        assert await topology.in_doubt() == []


async def changed(topology: Topology, node: str) -> dict[int, int]:
    """Return the accounts whose balance is no longer 100."""
    rows = await topology.execute(node, BALANCES)
    return {key: balance for key, balance in rows if balance != 100}


def both(topology: Topology, **options: Any) -> Any:
    """Return a transaction at both Subscribers."""
    return topology.transaction("a", "b", several_subscriptions=True, **options)


async def test_refused_unless_allowed(shops: Topology) -> None:
    """The refusal names the option that allows it, and the option's effect on the mark."""
    with pytest.raises(ConfigurationError, match=r"mark.*several_subscriptions=True"):
        async with shops.transaction("a", "b"):
            pytest.fail("it began")


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
@pytest.mark.parametrize("commit", VARIANTS)
async def test_four_branches_commit_together(shops: Topology, shipping: str, commit: str) -> None:
    """Each Subscriber has a separate branch at the Publisher, with a separate mark."""
    async with both(shops, shipping=shipping, commit=commit) as transaction:
        await transaction.at("a").execute(TAKE, (1,))
        cursor = await transaction.at("b").execute(TAKE + " returning balance", (2,))
        assert await cursor.fetchone() == (90,)
        await transaction.at("b").execute(TAKE, (3,))

    assert await changed(shops, "a") == {1: 90}
    assert await changed(shops, "b") == {2: 90, 3: 90}
    assert await changed(shops, "pub") == {1: 90, 2: 90, 3: 90}
    gid = transaction.gid
    branches = await shops.execute("pub", MARKERS)
    assert [row[:2] for row in branches] == [
        (f"{gid}:pub", ["pub", "pub/b", "a", "b"]),
        (f"{gid}:pub/b", ["pub/b", "pub", "a", "b"]),
    ]
    assert len({row[2] for row in branches}) == 2
    assert [row[0] for row in await shops.execute("a", MARKERS)] == [f"{gid}:a"]
    assert [row[0] for row in await shops.execute("b", MARKERS)] == [f"{gid}:b"]


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_a_conflict_at_the_second_undoes_all(shops: Topology, shipping: str) -> None:
    """A conflict of one Subscriber's change rolls back all branches."""
    await shops.execute("pub", "update account set balance = 0 where id = 2")
    with pytest.raises(ConflictError) as caught:
        async with both(shops, shipping=shipping) as transaction:
            await transaction.at("a").execute(TAKE, (1,))
            await transaction.at("b").execute(TAKE, (2,))

    assert caught.value.kind == "version_mismatch"
    assert caught.value.node == "pub"
    assert await changed(shops, "a") == {}
    assert await changed(shops, "b") == {}
    assert await changed(shops, "pub") == {2: 0}


async def test_a_refusal_at_commit_undoes_all(shops: Topology) -> None:
    """A deferred constraint at one Subscriber rolls back all branches, although the other voted yes."""
    await shops.execute("b", "alter table diary add unique (line) deferrable initially deferred")
    with pytest.raises(RejectedError, match="duplicate key") as caught:
        async with both(shops) as transaction:
            await transaction.at("a").execute(TAKE, (1,))
            await transaction.at("b").execute(TAKE, (2,))
            await transaction.at("b").execute("insert into diary values ('x'), ('x')")

    assert caught.value.node == "b"
    for node in ("a", "b", "pub"):
        assert await changed(shops, node) == {}


async def test_an_exception_undoes_all(shops: Topology) -> None:
    """An exception of the application rolls back all branches."""
    with pytest.raises(KeyError):
        async with both(shops) as transaction:
            await transaction.at("a").execute(TAKE, (1,))
            await transaction.at("b").execute(TAKE, (2,))
            raise KeyError("the application's own")

    for node in ("a", "b", "pub"):
        assert await changed(shops, node) == {}


@pytest.mark.parametrize("commit", VARIANTS)
async def test_a_part_that_only_reads(shops: Topology, commit: str) -> None:
    """A Subscriber that only reads has no branch, and one with local changes has none at the Publisher."""
    async with both(shops, commit=commit) as transaction:
        await transaction.at("a").execute("select * from account")
        await transaction.at("b").execute(TAKE, (2,))
    assert await changed(shops, "pub") == {2: 90}

    async with both(shops, commit=commit) as transaction:
        await transaction.at("a").execute("insert into diary values ('here')")
        await transaction.at("b").execute("select 1")
    assert await shops.execute("a", "select line from diary") == [("here",)]

    async with both(shops, commit=commit):
        pass
    assert len(await shops.execute("pub", MARKERS)) == 1


async def test_a_swallowed_failure_is_a_no(shops: Topology) -> None:
    """A failed statement whose error the application swallowed makes its branch vote no."""
    with pytest.raises(RejectedError):
        async with both(shops) as transaction:
            await transaction.at("a").execute(TAKE, (1,))
            with pytest.raises(psycopg.errors.DivisionByZero):
                await transaction.at("b").execute("select 1 / 0")
    for node in ("a", "b", "pub"):
        assert await changed(shops, node) == {}


async def test_the_same_row_at_both_is_a_deadlock_with_itself(shops: Topology) -> None:
    """Changing the same row at both Subscribers is a deadlock within the transaction."""
    with pytest.raises(DeadlockError):
        async with both(shops) as transaction:
            await transaction.at("a").execute(TAKE, (1,))
            await transaction.at("b").execute(TAKE, (1,))
    assert await changed(shops, "pub") == {}


async def test_deadlocks_lead_from_one_part_to_the_other(shops: Topology) -> None:
    """A deadlock of two transactions, each of which waits at another Subscriber, is detected."""
    second = asyncio.Event()

    async def move(first: str, then: str, rows: tuple[int, int]) -> None:
        async with both(shops) as transaction:
            await transaction.at(first).execute(TAKE, (rows[0],))
            if second.is_set():
                ready.set()
            second.set()
            await ready.wait()
            await transaction.at(then).execute(TAKE, (rows[1],))

    ready = asyncio.Event()
    ended = await asyncio.gather(
        move("a", "b", (1, 2)), move("a", "b", (2, 1)), return_exceptions=True
    )
    assert [type(one) for one in ended if one is not None] == [DeadlockError]
    assert await changed(shops, "pub") == {1: 90, 2: 90}


async def test_statements_say_where(shops: Topology) -> None:
    """A statement, cursor or end without a Subscriber is refused, and the transaction can continue."""
    async with both(shops) as transaction:
        with pytest.raises(LocalProtocolError, match=r"a and b.*at\('a'\)"):
            await transaction.execute("select 1")
        with pytest.raises(LocalProtocolError, match="a and b"):
            transaction.cursor()
        with pytest.raises(ConfigurationError, match=r"'c'.*a, b"):
            transaction.at("c")
        for end in (transaction.at("a").commit, transaction.at("b").rollback):
            with pytest.raises(LocalProtocolError, match="alone"):
                await end()
        async with transaction.at("a").cursor() as cursor:
            await cursor.execute(TAKE, (1,))
    assert await changed(shops, "pub") == {1: 90}
    with pytest.raises(LocalProtocolError, match="ended"):
        await transaction.at("a").execute("select 1")


async def test_a_part_that_was_ended_past_the_coordinator(shops: Topology) -> None:
    """If the application ends one branch past the coordinator, the other one is rolled back."""
    with pytest.raises(LocalProtocolError, match="ended"):
        async with both(shops) as transaction:
            await transaction.at("a").execute(TAKE, (1,))
            await transaction.at("b").session.connection.execute("rollback")
    for node in ("a", "b", "pub"):
        assert await changed(shops, node) == {}


@pytest.mark.parametrize(
    ("names", "options", "said"),
    [
        (("a", "a"), {}, "once"),
        (("a", "c"), {}, "no Subscriber 'c'"),
        (("a", "b"), {"commit": "last_agent"}, "last agent"),
    ],
)
async def test_what_several_cannot_have(
    shops: Topology, names: tuple[str, ...], options: dict[str, str], said: str
) -> None:
    """An impossible transaction is refused before it begins."""
    with pytest.raises(ConfigurationError, match=said):
        async with shops.transaction(*names, several_subscriptions=True, **options):  # type: ignore[arg-type]
            pytest.fail("it began")


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
@pytest.mark.parametrize("branches", ['{"pub"}', '{"pub/b","pub","a","b"}', '{"pub/x","b"}'])
async def test_the_branches_are_the_coordinators_to_name(
    shops: Topology, shipping: str, branches: str
) -> None:
    """An application that changes the setting gets an error, and no branch that nothing would finish."""
    with pytest.raises(RejectedError, match=r"msrepl\.participants|captured changes for"):
        async with shops.transaction("b", shipping=shipping) as transaction:
            await transaction.execute(f"set local msrepl.participants = '{branches}'")
            await transaction.execute(TAKE, (1,))
    assert await changed(shops, "pub") == {}


def test_the_blocking_twin(server: EmbeddedServer) -> None:
    """The blocking topology has the same methods without an event loop."""
    with Topology.blocking(server=server, subscribers=("a", "b")) as topology:
        topology.execute("pub", "create table account (id int primary key, balance int)")
        topology.execute("pub", "insert into account values (1, 100), (2, 100)")
        topology.publish("account")
        for name in ("a", "b"):
            topology.subscribe(name)
        with topology.transaction("a", "b", several_subscriptions=True) as transaction:
            transaction.at("a").execute(TAKE, (1,))
            assert transaction.at("b").execute(TAKE + " returning id", (2,)).fetchone() == (2,)
        assert topology.execute("pub", BALANCES) == [(1, 90), (2, 90)]
