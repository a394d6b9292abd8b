"""Tests of `Topology.run`: a transaction of one statement."""

from __future__ import annotations

import pytest

from tests.topology.test_topology import BALANCES, shop
from twopc.errors import RejectedError
from twopc.server import EmbeddedServer
from twopc.sim import Topology

MORE = "update account set balance = balance + 1 where id = $1"


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
async def test_a_level_holds_from_the_first_time_on(server: EmbeddedServer, isolation: str) -> None:
    """The isolation level applies to the first run, whose message also prepares the statement."""
    async with Topology(server=server, subscribers=("store_a",)) as topology:
        await shop(topology)

        for _ in range(2):
            await topology.run("store_a", MORE, (1,), isolation=isolation)

        assert (await topology.execute("pub", BALANCES))[0] == (1, 102)


async def test_a_statement_may_end_in_a_comment(server: EmbeddedServer) -> None:
    """A comment at the end of a statement does not hide the rest of the message."""
    async with Topology(server=server, subscribers=("store_a",)) as topology:
        await shop(topology)

        done = await topology.run("store_a", MORE + " -- a bonus", (1,))

        assert (done.tag, done.rowcount) == ("UPDATE 1", 1)


@pytest.mark.parametrize("commit", ["presumed_abort", "presumed_commit", "last_agent"])
@pytest.mark.parametrize(
    "several",
    [
        "update account set balance = 0 where id = 1; update account set balance = 0 where id = 2",
        "update account set balance = 0 where id = 1; insert into own values (1)",
        "insert into own values (1); commit; insert into own values (2)",
        "insert into own values (1) /* /* */ ; commit; -- */ ; commit; insert into own values (2)",
    ],
)
async def test_several_statements_are_refused_as_a_whole(
    server: EmbeddedServer, several: str, commit: str
) -> None:
    """Several statements are refused, and nothing of them is committed or stays prepared.

    Otherwise the answers would be attributed to other statements.
    """
    async with Topology(server=server, subscribers=("store_a",)) as topology:
        await shop(topology)
        await topology.execute("store_a", "create table own (n int)")
        await topology.execute("store_a", "grant all on own to public")

        for _ in range(2):
            with pytest.raises(RejectedError, match=r"multiple commands|syntax error"):
                await topology.run("store_a", several, commit=commit)
        await topology.run("store_a", "insert into own values (3)", commit=commit)

        assert await topology.execute("store_a", "select n from own") == [(3,)]
        assert await topology.in_doubt() == []
        for node in ("pub", "store_a"):
            assert {balance for _, balance in await topology.execute(node, BALANCES)} == {100}
