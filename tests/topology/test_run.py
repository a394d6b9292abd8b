"""`Topology.run`: a whole transaction of one statement."""

from __future__ import annotations

import pytest

from sim import Topology
from tests.topology.test_topology import BALANCES, shop
from twopc.errors import RejectedError
from twopc.server import Server

MORE = "update account set balance = balance + 1 where id = $1"


@pytest.mark.parametrize("isolation", ["read committed", "repeatable read", "serializable"])
async def test_a_level_holds_from_the_first_time_on(server: Server, isolation: str) -> None:
    """The first message prepares the statement as well, and BEGIN must come before that."""
    async with Topology(server=server, subscribers=("store_a",)) as topology:
        await shop(topology)

        for _ in range(2):
            await topology.run("store_a", MORE, (1,), isolation=isolation)

        assert (await topology.execute("pub", BALANCES))[0] == (1, 102)


async def test_a_statement_may_end_in_a_comment(server: Server) -> None:
    """What follows it in the message is no part of the comment."""
    async with Topology(server=server, subscribers=("store_a",)) as topology:
        await shop(topology)

        done = await topology.run("store_a", MORE + " -- a bonus", (1,))

        assert (done.tag, done.rowcount) == ("UPDATE 1", 1)


@pytest.mark.parametrize("times", [1, 2])
async def test_several_statements_are_refused_as_a_whole(server: Server, times: int) -> None:
    """Each answer would be taken for another's: nothing of it may stay, prepared or done."""
    several = (
        "update account set balance = 0 where id = 1; update account set balance = 0 where id = 2"
    )
    async with Topology(server=server, subscribers=("store_a",)) as topology:
        await shop(topology)

        for _ in range(times):
            with pytest.raises(RejectedError, match="several commands"):
                await topology.run("store_a", several)

        assert await topology.in_doubt() == []
        for node in ("pub", "store_a"):
            assert {balance for _, balance in await topology.execute(node, BALANCES)} == {100}
