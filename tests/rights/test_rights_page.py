"""docs/rights.md is correct: a fresh topology has these privileges, and each role can do exactly that."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg import AsyncConnection, sql

from tests.rights.__main__ import PAGE
from tests.rights.table import NODES, one_of_everything, page, role_names
from twopc.server import EmbeddedServer
from twopc.sim.topology import Topology

_ROUTINES = """
select n.nspname, p.proname, p.prokind = 'p', pg_get_function_identity_arguments(p.oid),
       array(select format_type(t, null) from unnest(p.proargtypes) as t)
from pg_proc as p join pg_namespace as n on n.oid = p.pronamespace
where n.nspname like 'msrepl%' and p.prorettype <> all ('{trigger,event_trigger}'::regtype[])
order by 1, 2, 4
"""
_RELATIONS = """
select n.nspname, c.relname, c.relkind::text from pg_class as c join pg_namespace as n on n.oid = c.relnamespace
where (n.nspname like 'msrepl%' or n.nspname = 'public') and c.relkind in ('r', 'v', 'S') order by 1, 2
"""
_ROW = re.compile(r"\| (.*?) \| (.*?) \| (.*?) \|\Z")


@pytest.fixture
async def topology() -> AsyncIterator[Topology]:
    """Create a topology on a separate server, because roles left by other topologies would be on the page."""
    with EmbeddedServer.start() as server:
        async with one_of_everything(server) as made:
            yield made


def rights_of(role: str, node: str) -> dict[str, set[str]]:
    """Return a role's privileges at a node according to the page: objects by privilege, including those of PUBLIC."""
    found: dict[str, set[str]] = {}
    section = PAGE.read_text(encoding="utf-8").split(f"## At {node}\n")[1].split("\n## ")[0]
    groups = {role, "PUBLIC"} | (
        {"application", "link of store"} if role == "coordinator" else set()
    )
    for line in section.splitlines():
        row = _ROW.match(line)
        if row is not None and row[1] in groups:
            found.setdefault(row[2], set()).update(row[3].split(", "))
    return found


async def is_denied(connection: AsyncConnection, statement: sql.Composable, name: str) -> bool:
    """Return whether a statement fails because the privilege on `name` is missing; roll it back."""
    try:
        async with connection.transaction(force_rollback=True):
            await connection.execute("set local statement_timeout = '5s'")
            await connection.execute(statement)
    except psycopg.errors.InsufficientPrivilege as error:
        text = error.diag.message_primary or ""
        return text.startswith("permission denied for") and (
            text.endswith(f" {name}") or " schema " in text
        )
    except psycopg.Error:
        return False
    return False


async def test_the_page_is_what_a_fresh_topology_has(topology: Topology) -> None:
    assert await page(topology) == PAGE.read_text(encoding="utf-8"), "make rights writes it anew"


@pytest.mark.parametrize("node", NODES)
async def test_each_role_tries_everything(topology: Topology, node: str) -> None:
    """Each role, and a role without privileges, can use exactly the routines and tables that the page names."""
    known = {name: role for role, name in (await role_names(topology)).items()}
    await topology.execute("pub", "create role nobody_at_all login")
    try:
        known["nobody"] = "nobody_at_all"
        async with await topology.node(node).connect() as connection:
            for name, role in known.items():
                if name != "administrator" and not name.startswith(("owner", "table", "calls")):
                    await tries(connection, role, rights_of(name, node), f"{name} at {node}")
    finally:
        await topology.execute("pub", "drop role nobody_at_all")


async def tries(
    connection: AsyncConnection, role: str, said: dict[str, set[str]], who: str
) -> None:
    """Assert that a role can do exactly what the page says."""
    cursor = await connection.execute(_ROUTINES.encode())
    routines = await cursor.fetchall()
    cursor = await connection.execute(_RELATIONS.encode())
    relations = await cursor.fetchall()
    schemas = {
        one.removeprefix("schema ") for one in said.get("usage", ()) if one.startswith("schema")
    }
    schemas |= {"public"}
    await connection.execute(sql.SQL("set session authorization {}").format(sql.Identifier(role)))
    try:
        for schema, name, is_procedure, _, types in routines:
            call = sql.SQL("call {}({})" if is_procedure else "select {}({})").format(
                sql.Identifier(schema, name),
                sql.SQL(", ").join(sql.SQL(f"null::{one}") for one in types),
            )
            shown = f"{name}() procedure" if is_procedure else f"{name}()"
            may = schema in schemas and shown in said.get("execute", ())
            assert await is_denied(connection, call, name) is not may, (who, schema, shown)
        for schema, name, kind in relations:
            shown = f"table {name}" if schema == "public" else name
            where = sql.Identifier(schema, name)
            for privilege, text in (
                ("select", "select from {} limit 0"),
                ("insert", "insert into {} default values"),
                ("delete", "delete from {} where false"),
                ("truncate", "truncate {}"),
                ("usage", "select nextval({})"),
            ):
                if (kind == "S") != (privilege == "usage") or (
                    kind == "v" and privilege != "select"
                ):
                    continue
                value = sql.Literal(where.as_string(None)) if privilege == "usage" else where
                statement = sql.SQL(text).format(value)
                objects = said.get(privilege, set())
                may = schema in schemas and shown in objects
                in_part = any(one.startswith(f"{name}(") for one in objects)
                if may or not in_part:
                    assert await is_denied(connection, statement, name) is not may, (
                        who,
                        privilege,
                        shown,
                    )
    finally:
        await connection.execute("reset session authorization")
