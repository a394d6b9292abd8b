"""Removal of databases and roles that killed runs have left on an external server.

The owner of a database is derived from its name (`twopc.sim.topology.owner`). Only databases of processes that have
certainly ended are dropped.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import psycopg
from psycopg import sql

from twopc import names
from twopc.errors import ServerError
from twopc.log import get_logger
from twopc.names import BranchId
from twopc.server import EmbeddedServer
from twopc.sim.topology.nodes import AnyServer
from twopc.sim.topology.owner import Owner, owner_of

_log = get_logger(__name__)

#: Prefix of the comment of a database that was kept for inspection.
KEPT = "twopc: kept"
_DATABASES = """
select datname, coalesce(shobj_description(oid, 'pg_database'), '') from pg_database order by 1
"""


def sweep(server: AnyServer, *, kept: bool = False) -> list[str]:
    """Drop the databases that killed runs have left; return their names.

    Only databases whose process has certainly ended are dropped.

    Args:
        kept: also drop databases that were kept on purpose.
    """
    if isinstance(server, EmbeddedServer):
        return []  # an embedded server ends with its run
    dropped = []
    with psycopg.connect(server.conninfo, autocommit=True) as connection:
        # one at a time
        connection.execute("select pg_advisory_lock(hashtextextended('twopc sweep', 0))")
        rows = connection.execute(_DATABASES).fetchall()
        owners = {
            name: owner
            for name, report in rows
            if (owner := owner_of(name)) is not None and (kept or not report.startswith(KEPT))
        }
        gone = {name: owner for name, owner in owners.items() if owner.is_gone}
        for name, owner in gone.items():
            try:
                server.drop_database(name, may_roll_back=_of(owner.topology))
                dropped.append(name)
            except ServerError as error:
                _log.warning("a database of a killed run stays", error=str(error))
        left = {owner.topology for name, owner in gone.items() if name not in dropped}
        topologies = {owner.topology for owner in gone.values()} - left
        for topology in sorted(topologies):
            _drop_roles(
                connection, [each for each in gone.values() if each.topology == topology], gone
            )
    return dropped


def _of(topology: str) -> Any:
    """Return a predicate of gids: whether a branch may be rolled back with a topology's databases."""

    def may_roll_back(gid: str) -> bool:
        branch = BranchId.parse(gid)
        own = branch is not None and branch.global_id.coordinator == topology
        return own or gid.startswith("msrepl_agent:")

    return may_roll_back


def _drop_roles(
    connection: psycopg.Connection[Any], owners: list[Owner], databases: Mapping[str, Owner]
) -> None:
    """Drop the roles of a topology whose databases were dropped."""
    topology = owners[0].topology
    nodes = [each.node for each in owners]
    own = [name for name, owner in databases.items() if owner.topology == topology]
    roles = {names.role(kind, topology) for kind in ("app", "coordinator", "logreader", "agent")}
    roles |= {names.role("owner", database) for database in own}
    roles |= {names.role("link", database, node) for database in own for node in nodes}
    rows = connection.execute(
        "select rolname from pg_roles where rolname = any (%s)"
        " or exists (select from unnest(%s::text[]) as t where starts_with(rolname, t)) order by 1",
        (sorted(roles), [names.table_roles(names.role("owner", database)) for database in own]),
    ).fetchall()
    for (role,) in rows:
        name = sql.Identifier(role)
        connection.execute(sql.SQL("drop owned by {} cascade").format(name))
        connection.execute(sql.SQL("drop role {}").format(name))
