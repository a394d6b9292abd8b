"""The link when the network loses a message or its answer: at a statement, and at PREPARE."""

from __future__ import annotations

import asyncio

import psycopg
import pytest

from tests.fix_link import ApartPair, MakeApart, Wire, facts_of, holding, until
from tests.fix_topology import ACCOUNT, BALANCES, ROWS


@pytest.fixture
async def pair(make_apart: MakeApart, wire: Wire) -> ApartPair:
    """Return a pair whose link is open and goes through the wire."""
    pair = await make_apart(ACCOUNT, ROWS, publish=["account"])
    await pair.put(wire)
    await pair.run("update account set balance = 0 where id = 5")
    return pair


def assert_broke(error: psycopg.Error, sqlstate: str = "08006") -> None:
    """Assert that the error is one of the link's."""
    assert error.sqlstate == sqlstate, error
    assert facts_of(error)["kind"] == "publisher_unreachable"


@pytest.mark.parametrize("what", ["request", "answer"])
@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_wire_cut_at_the_first_message(
    pair: ApartPair, wire: Wire, what: str, shipping: str
) -> None:
    """The first message is repeated over a new link, and the change is made once.

    If the first message has arrived, its transaction has ended with the old link.
    """
    setattr(wire, f"lost_{what}", b"call ")

    assert await pair.run("update account set balance = 1 where id = 1", shipping=shipping) == 1

    assert wire.times_cut == 1
    assert (1, 1) in (await pair.rows(BALANCES))[0]
    await pair.same("account")


@pytest.mark.parametrize("what", ["request", "answer"])
async def test_wire_cut_at_a_later_message(pair: ApartPair, wire: Wire, what: str) -> None:
    """If a later message is lost, the earlier ones are lost too, and the transaction fails."""
    await pair.begin()
    await pair.execute("update account set balance = 1 where id = 1")
    setattr(wire, f"lost_{what}", b"call ")

    assert_broke(await pair.fails("update account set balance = 2 where id = 2"))
    await pair.rollback()

    await pair.same("account")
    assert {(1, 100), (2, 100)} <= set((await pair.rows(BALANCES))[0])


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_answer_to_prepare_is_lost(pair: ApartPair, wire: Wire, shipping: str) -> None:
    """A new link finds the branch prepared, so the vote is yes."""
    await pair.begin(shipping=shipping)
    await pair.execute("update account set balance = 1 where id = 1")
    await pair.execute("update account set balance = 2 where id = 2")
    wire.lost_answer = b"prepare transaction"

    calls = await pair.prepare()
    assert pair.eyes.prepared(pair.database) == [f"{pair.gid}:pub"]
    await pair.finish(calls)

    assert wire.times_cut == 1
    assert {(1, 1), (2, 2)} <= set((await pair.rows(BALANCES))[0])
    await pair.same("account")


async def test_prepare_itself_is_lost_with_all_calls_in_it(pair: ApartPair, wire: Wire) -> None:
    """With lazy shipping the whole branch is in the message, so it is sent again."""
    await pair.begin(shipping="lazy")
    await pair.execute("update account set balance = 1 where id = 1")
    wire.lost_request = b"prepare transaction"

    await pair.commit()

    assert wire.times_cut == 1
    assert (1, 1) in (await pair.rows(BALANCES))[0]
    await pair.same("account")


async def test_prepare_itself_is_lost_after_calls(pair: ApartPair, wire: Wire) -> None:
    """With eager shipping the calls are lost with the old link, so the vote is no."""
    await pair.begin()
    await pair.execute("update account set balance = 1 where id = 1")
    wire.lost_request = b"prepare transaction"

    with pytest.raises(psycopg.Error) as caught:
        await pair.prepare()

    assert_broke(caught.value)
    assert pair.eyes.prepared(pair.database) == []
    await pair.rollback()
    assert (1, 100) in (await pair.rows(BALANCES))[0]
    await pair.same("account")


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_answer_to_prepare_is_lost_and_nobody_can_ask(
    pair: ApartPair, wire: Wire, shipping: str
) -> None:
    """A vote that cannot be determined is a no; the coordinator finishes a branch that is prepared."""
    await pair.begin(shipping=shipping)
    await pair.execute("update account set balance = 1 where id = 1")
    wire.lost_answer = b"prepare transaction"
    wire.is_down = True

    with pytest.raises(psycopg.Error) as caught:
        await pair.prepare()

    assert_broke(caught.value, "08001")
    assert "committed at either site" in str(caught.value.diag.message_hint)
    assert pair.eyes.prepared(pair.database) == [f"{pair.gid}:pub"]
    await pair.rollback()  # at the Publisher too
    wire.is_down = False
    assert await pair.run("update account set balance = 2 where id = 1") == 1
    await pair.same("account")


async def test_prepare_is_still_under_way_when_it_is_sent_again(
    make_apart: MakeApart, wire: Wire
) -> None:
    """A PREPARE that still waits at the Publisher when its connection is cut can succeed later.

    The second PREPARE cannot know this, so the error is one of the link's, and the coordinator
    asks the Publisher.
    """
    pair = await make_apart(ACCOUNT, ROWS, publish=["account"])
    await pair.put(wire)
    # a backend that neither times out nor notices that its client is gone
    await pair.set_link(options="-c lock_timeout=0 -c client_connection_check_interval=0")
    await pair.run("update account set balance = 0 where id = 5")
    await pair.topology.execute(
        "sub1", "alter server msrepl_publisher options (set options '-c lock_timeout=300')"
    )
    async with holding(pair):
        await pair.begin(shipping="lazy")
        await pair.execute("update account set balance = 2 where id = 2")
        task = asyncio.create_task(pair.fails(pair.vote()))
        await pair.eyes.waiting_link(pair)
        wire.cut()
        error = await task

    assert_broke(error)
    branch = [f"{pair.gid}:pub"]
    await until(lambda: pair.eyes.prepared(pair.database) == branch, "the first to prepare")
    await pair.rollback()  # at the Publisher too
    await pair.same("account")
