"""Rows that are held until the end of a statement are sent, or the transaction cannot commit."""

from __future__ import annotations

import psycopg
import pytest
from psycopg.errors import ForeignKeyViolation

from tests.any_client.conftest import TABLES
from tests.fix_topology import MakePair, Pair
from twopc.errors import TwopcError

pytestmark = pytest.mark.immediate

UPDATE = "update account set balance = 5 where id = 4"
#: Settings about open statements and held rows, which any role can change.
OPEN = "set msrepl.open_statements = '3;'"
AMONG_OTHERS = "set msrepl.open_statements = '1;99 DELETE 1'"
HELD = "set msrepl.held_rows = ''"


@pytest.fixture
async def pair(make_pair: MakePair) -> Pair:
    """A parent and its children, whose rows are held until the end of a statement."""
    return await make_pair(TABLES, publish=["account", "entry"])


@pytest.mark.sample(1, by=("changes", "who"))
@pytest.mark.parametrize("settings", [[OPEN], [AMONG_OTHERS]])
@pytest.mark.parametrize(
    "changes",
    [
        [UPDATE],
        ["delete from account where id = 4"],
        ["insert into account (id, balance) values (9, 9)"],
        [UPDATE, "set constraints all immediate"],
        ["set constraints all immediate", UPDATE],
    ],
)
@pytest.mark.parametrize("who", ["nobody", "any client"])
async def test_no_commit_without_a_coordinator(
    pair: Pair, settings: list[str], changes: list[str], who: str
) -> None:
    """Held rows that were not sent prevent a commit, also where any client may write."""
    if who == "any client":
        await pair.topology.allow_any_client("sub1")
    await pair.app.execute("begin")
    with pytest.raises(ForeignKeyViolation, match="held_rows_are_sent"):
        for statement in [*settings, *changes, "commit"]:
            await pair.app.execute(statement.encode())
    await pair.app.execute("rollback")
    await pair.equal("account", "entry")


@pytest.mark.parametrize("commit", ["presumed_abort", "last_agent"])
@pytest.mark.parametrize(
    "statements",
    [
        [OPEN, UPDATE, HELD],
        # sending them is rolled back
        [OPEN, UPDATE, "savepoint a", "reset msrepl.open_statements",
         "update account set balance = 6 where id = 3", "rollback to a", HELD],
    ],
)  # fmt: skip
async def test_no_commit_by_a_coordinator(pair: Pair, commit: str, statements: list[str]) -> None:
    with pytest.raises((TwopcError, psycopg.Error), match="held_rows_are_sent"):
        async with pair.topology.transaction("sub1", commit=commit) as transaction:
            for statement in statements:
                await transaction.execute(statement)
    await pair.equal("account", "entry")
    assert await pair.topology.execute("pub", "select gid from pg_prepared_xacts") == []


async def test_constraints_may_be_immediate(pair: Pair) -> None:
    """SET CONSTRAINTS by the application does not affect held rows."""
    await pair.run(
        "set constraints all immediate",
        "insert into entry (id, account, amount) values (1, 4, 1), (2, 4, 2)",
        "update account set id = 40 where id = 3",
        "with gone as (delete from entry where id = 1) delete from account where id = 2",
        "set constraints all immediate",
    )
    await pair.equal("account", "entry")
