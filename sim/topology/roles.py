"""Dropping of our roles from a server, with the objects that they own and the privileges that they hold.

Only a database itself can drop what a role has there, so each of these databases must be a node.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import AsyncConnection, sql

from twopc import names
from twopc.errors import ConfigurationError
from twopc.sql import path
from twopc.sql.render import compose

if TYPE_CHECKING:
    from twopc.sim.topology.nodes import Node

_OTHER_DATABASES = """
select distinct d.datname::text
from pg_shdepend s
join pg_roles r on r.oid = s.refobjid and s.refclassid = 'pg_authid'::regclass
join pg_database d on d.oid = s.dbid
where r.rolname = any (%s) and d.datname <> all (%s)
order by 1
"""
_EXISTING_ROLES = """
select rolname from pg_roles
where rolname = any (%s) or exists (select from unnest(%s::text[]) as t where starts_with(rolname, t))
order by 1
"""


async def refuse_elsewhere(nodes: Sequence[Node], roles: Sequence[str]) -> None:
    """Refuse roles that have objects or privileges in databases of their server other than these nodes'.

    Raises:
        ConfigurationError: names the databases.
    """
    if any(node.embedded for node in nodes):
        return  # their databases are dropped before the roles
    async with await admin_of(nodes) as admin:
        rows = await admin.execute(
            _OTHER_DATABASES, (list(roles), [node.database for node in nodes])
        )
        others = [database for (database,) in await rows.fetchall()]
    if others:
        raise ConfigurationError(
            f"roles of ours have rights in database {', '.join(map(repr, others))} on the server of "
            f"{nodes[0].name!r}: name that database's node as well"
        )


async def drop(nodes: Sequence[Node], roles: Sequence[str]) -> None:
    """Drop roles from the server of these nodes.

    Raises:
        ConfigurationError: a role has objects or privileges in a database that is not a node.
    """
    owners = [names.role("owner", node.database) for node in nodes if node.embedded]
    async with await admin_of(nodes) as admin:
        rows = await admin.execute(
            _EXISTING_ROLES, (list(roles), [names.table_roles(owner) for owner in owners])
        )
        left = [sql.Identifier(role) for (role,) in await rows.fetchall()]
        for node in nodes:
            if not node.embedded:
                # only within a database can its objects and privileges be dropped
                async with await node.connect() as here:
                    for role in left:
                        # keep tables that an application has created as one of these roles
                        await here.execute(
                            sql.SQL("reassign owned by {} to current_user").format(role)
                        )
                        await here.execute(sql.SQL("drop owned by {} cascade").format(role))
        texts: list[sql.Composable] = []
        for role in left:
            # privileges that belong to no database, such as SET ON PARAMETER
            texts.append(compose("twopc", "drop_rights", role=role))
            texts.append(sql.SQL("drop role {}").format(role))
        try:
            await admin.execute(sql.SQL(";").join(texts))
        except psycopg.errors.DependentObjectsStillExist as error:
            raise ConfigurationError(
                f"{error.diag.message_primary}: {error.diag.message_detail}; name that database's node "
                "as well"
            ) from error


async def admin_of(nodes: Sequence[Node]) -> AsyncConnection[Any]:
    """Connect as administrator to the server of these nodes, of which embedded ones need not exist yet."""
    first = nodes[0]
    maintenance = first.database if not first.embedded else "postgres"
    dsn = first.server.superuser_dsn(maintenance)
    return await AsyncConnection.connect(dsn, autocommit=True, options=path.options(dsn))
