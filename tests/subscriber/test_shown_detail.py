"""An error shows the Publisher's values only to roles that may read them at the Subscriber."""

from __future__ import annotations

import json
from typing import Any

import psycopg
import pytest

from tests.fix_topology import MakePair, Pair

ACCOUNT = "create table account (id int primary key, code text unique, secret text, balance int)"
ROWS = "insert into account select g, 'c' || g, 's' || g, 100 from generate_series(1, 5) as g"
#: Statements that the Publisher refuses after its row 3 was changed and a row 50 was inserted.
REFUSED = {
    "version": "update account set balance = balance + 1 where id = 3",
    "delete": "delete from account where id = 3",
    "clash": "update account set code = 'x' where id = 2",
    "insert": "insert into account (id, code) values (50, 'y')",
}


async def made(make_pair: MakePair, *, row_security: bool = False) -> Pair:
    """Return a pair whose Publisher has values that the Subscriber has not received."""
    pair = await make_pair(ACCOUNT, ROWS, publish=["account"])
    if row_security:
        node = pair.topology.node("sub1")
        for statement in (
            f'alter role "{node.agent_role}" bypassrls',
            "alter table account enable row level security",
            f'create policy app on account to "{node.app_role}" using (true)',
        ):
            await pair.topology.execute("sub1", statement)
        await pair.topology.regenerate("account")
    for statement in (
        "update account set secret = 'told', balance = 7 where id = 3",
        "insert into account values (50, 'x', 'told', 5)",
        "alter table account add constraint small check (balance < 1000)",
    ):
        await pair.topology.execute("pub", statement)
    return pair


async def hide(pair: Pair, role: str) -> None:
    """From now on, allow a role to read only two columns."""
    for statement in (
        f'revoke select on account from "{role}"',
        f'grant select (id, balance) on account to "{role}"',
    ):
        await pair.topology.execute("sub1", statement)


def facts(error: psycopg.Error) -> Any:
    """Return the facts in DETAIL, and assert that the error does not contain hidden values."""
    assert "told" not in str(error)
    assert str(error.diag.message_hint).startswith("20512")
    return json.loads(str(error.diag.message_detail))


@pytest.mark.parametrize("shipping", ["eager", "lazy"])
async def test_columns_that_a_role_may_not_select(make_pair: MakePair, shipping: str) -> None:
    pair = await made(make_pair)
    await hide(pair, pair.topology.node("sub1").app_role)
    for statement in REFUSED.values():
        told = facts(await pair.refused(statement, shipping=shipping))
        assert set(told["publisher_row"]) == {"id", "balance"}
        assert (told["number"], told["article"]) == (20515, "account")


async def test_the_role_that_was_taken(make_pair: MakePair) -> None:
    """After SET ROLE, the privileges of the current role decide, and not those of the session's role."""
    pair = await made(make_pair)
    app = pair.topology.node("sub1").app_role
    role = f"{app}_less"
    try:
        for statement in (
            f'create role "{role}"; grant "{role}" to "{app}"; grant update, insert, delete on account to "{role}"',
            f'grant select (id, balance) on account to "{role}"',
        ):
            await pair.topology.execute("sub1", statement)
        await pair.begin()
        await pair.execute(f'set local role "{role}"')
        told = facts(await pair.fails(REFUSED["version"]))
        await pair.rollback()
        assert set(told["publisher_row"]) == {"id", "balance"}
        error = await pair.refused(REFUSED["version"])
        assert json.loads(str(error.diag.message_detail))["publisher_row"]["secret"] == "told"
    finally:
        await pair.topology.execute("sub1", f'drop owned by "{role}"; drop role "{role}"')


async def test_rows_under_row_security(make_pair: MakePair) -> None:
    """Under row security no values are shown, because the role's access to the Publisher's row is unknown."""
    pair = await made(make_pair, row_security=True)
    for statement in REFUSED.values():
        told = facts(await pair.refused(statement))
        assert told["publisher_row"] is None
        assert told["key"] is not None


async def test_the_servers_own_words(make_pair: MakePair) -> None:
    """PostgreSQL's error for a CHECK, with the failing row of the Publisher, does not show hidden columns."""
    pair = await made(make_pair)
    await hide(pair, pair.topology.node("sub1").app_role)
    error = await pair.refused("update account set balance = 5000 where id = 1")
    assert error.sqlstate == "23514"
    assert "small" in str(error)
    assert "s1" not in str(error)
