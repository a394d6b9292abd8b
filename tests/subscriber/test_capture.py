"""Calls that a Subscriber's triggers send, and the rows at both ends afterwards."""

from __future__ import annotations

from tests.fix_topology import ACCOUNT, ROWS, MakePair


async def test_one_call_per_statement(make_pair: MakePair) -> None:
    """A statement is sent as one call, however many rows it changes."""
    pair = await make_pair(ACCOUNT, ROWS, publish=["account"])

    calls = await pair.run(
        "update account set balance = balance + 1",
        "delete from account where id > 3",
        "insert into account values (10, 1), (11, 2), (12, 3)",
    )

    assert calls == 3
    assert len(await pair.same("account")) == 6
