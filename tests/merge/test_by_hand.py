"""Conflicts resolved by hand: a new change that travels, or a refusal that says why; an administrator who is asked."""

from __future__ import annotations

import pytest

from tests.fix_merge import customer
from twopc.errors import MergeError
from twopc.merge.decision import ConflictType
from twopc.sim.merge import MergeTopology
from twopc.sim.merge.conflicts import MergeConflict


async def conflict_of(topology: MergeTopology, change: str, other: str) -> MergeConflict:
    """A conflict about customer 2, which the first change has won at the Publisher."""
    await topology.execute("pub", change)
    await topology.execute("anna", other)
    assert (await topology.sync("anna")).conflicts == 1
    return (await topology.conflicts("customer"))[-1]


UPDATE = "update customer set phone = '{}', credit = {} where id = 2"
DELETE = "delete from customer where id = 2"


async def test_each_way(merge_shop: MergeTopology) -> None:
    """Winner, loser and other values, of updates; a deletion that comes after all, and a row that comes back."""
    conflict = await conflict_of(merge_shop, UPDATE.format("2", 20), UPDATE.format("3", 30))
    await merge_shop.resolve(conflict, keep="winner")
    [done] = await merge_shop.conflicts()
    assert (done.type, done.loser and done.loser["phone"]) == (ConflictType.RESOLVED_BY_HAND, "3")
    with pytest.raises(MergeError, match="was resolved before"):
        await merge_shop.resolve(conflict, keep="loser")

    conflict = await conflict_of(merge_shop, UPDATE.format("4", 40), UPDATE.format("5", 50))
    await merge_shop.resolve(conflict, keep="loser", forget=True)
    with pytest.raises(MergeError, match="no conflict"):
        await merge_shop.resolve(conflict, keep="loser")
    await merge_shop.settle()
    for node in ("pub", "anna", "ben"):
        assert await customer(merge_shop, node, 2) == ("5", 50)

    conflict = await conflict_of(merge_shop, UPDATE.format("6", 60), UPDATE.format("7", 70))
    for row, message in (
        ({"credit": -1}, "customer_credit_check"),
        ({"fax": 1}, "no column 'fax'"),
    ):
        with pytest.raises(MergeError, match=message):
            await merge_shop.resolve(conflict, row=row)
    await merge_shop.resolve(conflict, row={"phone": "6 or 7"})
    await merge_shop.settle()
    assert await customer(merge_shop, "ben", 2) == ("6 or 7", 60)

    conflict = await conflict_of(merge_shop, UPDATE.format("8", 80), DELETE)
    await merge_shop.settle()
    await merge_shop.resolve(conflict, keep="loser")
    await merge_shop.settle()
    assert await merge_shop.execute("ben", "select id from customer") == [(1,)]
    await merge_shop.assert_converged()


async def test_a_row_that_is_gone(merge_shop: MergeTopology) -> None:
    """If a deletion has won, the row comes back; if it was deleted since, the conflict cannot be resolved so."""
    conflict = await conflict_of(merge_shop, UPDATE.format("2", 20), UPDATE.format("3", 30))
    await merge_shop.execute("pub", DELETE)
    with pytest.raises(MergeError, match="not there any more"):
        await merge_shop.resolve(conflict, keep="loser")
    with pytest.raises(MergeError, match="which row to keep"):
        await merge_shop.resolve(conflict)
    await merge_shop.resolve(conflict, keep="winner")
    await merge_shop.execute("anna", UPDATE.format("9", 90))
    await merge_shop.sync("anna")
    [conflict] = [c for c in await merge_shop.conflicts() if c.type is ConflictType.DELETE_WINS]
    await merge_shop.resolve(conflict, keep="loser")
    await merge_shop.settle()
    await merge_shop.assert_converged()
    assert await customer(merge_shop, "ben", 2) == ("9", 90)
