"""Checks of the rights of a role in a database.

A check yields findings and changes nothing, and any role may run it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import LiteralString

from twopc.doctor.finding import Finding, Level, RoleOfNode, statement
from twopc.doctor.node import ExaminedNode
from twopc.names import LINK_SCHEMA


@dataclass(frozen=True, slots=True, kw_only=True)
class _Right:
    """A right that a role needs unless it is a superuser."""

    what: str
    why: str
    nodes: tuple[RoleOfNode, ...]
    query: LiteralString
    """Query that returns one row and column, true if the role has the right."""
    remedy: LiteralString
    level: Level = "error"


_RIGHTS = (
    _Right(
        what="CREATE in the database",
        why="our schema cannot be made",
        nodes=("publisher", "subscriber", "distribution"),
        query="SELECT has_database_privilege(current_database(), 'CREATE') AS has",
        remedy="GRANT CREATE ON DATABASE {database} TO {role};",
    ),
    _Right(
        what="CREATEROLE",
        why="link and owner roles cannot be made",
        nodes=("publisher", "subscriber"),
        query="SELECT rolcreaterole AS has FROM pg_roles WHERE rolname = current_user",
        remedy="ALTER ROLE {role} CREATEROLE;",
    ),
    _Right(
        what="REPLICATION",
        why="the log reader cannot have a slot",
        nodes=("publisher",),
        query="SELECT rolreplication AS has FROM pg_roles WHERE rolname = current_user",
        remedy="ALTER ROLE {role} REPLICATION;",
    ),
    _Right(
        what="pg_log_standby_snapshot",
        why="the log reader reads old WAL again at each look",
        nodes=("publisher",),
        query="SELECT has_function_privilege('pg_log_standby_snapshot()', 'EXECUTE') AS has",
        remedy="GRANT EXECUTE ON FUNCTION pg_catalog.pg_log_standby_snapshot() TO {role};",
    ),
    _Right(
        what="session_replication_role",
        why="the agents' changes would fire the triggers again",
        nodes=("subscriber",),
        query="SELECT has_parameter_privilege('session_replication_role', 'SET') AS has",
        remedy="GRANT SET ON PARAMETER session_replication_role TO {role};",
    ),
    _Right(
        what="pg_monitor",
        why="who waits for whom is not to be seen",
        nodes=("publisher", "subscriber"),
        query="SELECT pg_has_role('pg_monitor', 'USAGE') AS has",
        remedy="GRANT pg_monitor TO {role};",
        level="warning",
    ),
    _Right(
        what="pg_signal_backend",
        why="the victim of a deadlock across servers cannot be cancelled",
        nodes=("publisher", "subscriber"),
        query="SELECT pg_has_role('pg_signal_backend', 'USAGE') AS has",
        remedy="GRANT pg_signal_backend TO {role};",
        level="warning",
    ),
)


def rights(node: ExaminedNode) -> Iterator[Finding]:
    """Check the rights that commands and agents need."""
    if is_superuser(node):
        yield Finding(level="ok", what="rights", state=f"{node.role} is a superuser")
        return
    for right in _RIGHTS:
        if node.role_of_node not in right.nodes:
            continue
        if node.row(right.query)["has"]:
            yield Finding(level="ok", what=right.what, state=f"{node.role} has it")
        else:
            names = {"role": node.role, "database": node.database}
            holes = {hole: name for hole, name in names.items() if f"{{{hole}}}" in right.remedy}
            yield Finding(
                level=right.level,
                what=right.what,
                state=f"{node.role} lacks it: {right.why}",
                remedy=statement(right.remedy, **holes),
            )


def dblink(node: ExaminedNode) -> Iterator[Finding]:
    """Check that dblink is installed where only a Subscriber's triggers can use it to reach the Publisher."""
    if node.role_of_node != "subscriber":
        return
    row = node.row(
        "SELECT (SELECT nspname FROM pg_extension e JOIN pg_namespace n ON n.oid = extnamespace"
        "  WHERE extname = 'dblink') AS schema,"
        " EXISTS (SELECT FROM pg_available_extensions WHERE name = 'dblink') AS available"
    )
    if row["schema"] is not None:
        yield from _installed_dblink(node, row["schema"])
    elif not row["available"]:
        yield Finding(
            level="error",
            what="dblink",
            state="not among the files of this server",
            remedy="install PostgreSQL's contrib package on its machine",
        )
    elif is_superuser(node):
        yield Finding(level="ok", what="dblink", state="available, subscribing installs it")
    else:
        yield Finding(
            level="error",
            what="dblink",
            state="not installed, which only a superuser can change",
            remedy=statement("CREATE SCHEMA IF NOT EXISTS {};\n", LINK_SCHEMA)
            + statement("CREATE EXTENSION dblink SCHEMA {};", LINK_SCHEMA),
        )


def _installed_dblink(node: ExaminedNode, schema: str) -> Iterator[Finding]:
    if schema != LINK_SCHEMA:
        yield Finding(
            level="error",
            what="dblink",
            state=f"installed in schema {schema}, where others use it too",
            remedy=statement("CREATE SCHEMA IF NOT EXISTS {};\n", LINK_SCHEMA)
            + statement("ALTER EXTENSION dblink SET SCHEMA {};", LINK_SCHEMA),
        )
        return
    open_to_all = node.row(
        "SELECT count(*) AS functions FROM pg_proc p"
        " JOIN pg_depend d ON d.classid = 'pg_proc'::regclass AND d.objid = p.oid"
        "  AND d.refclassid = 'pg_extension'::regclass AND d.deptype = 'e'"
        " JOIN pg_extension e ON e.oid = d.refobjid"
        " WHERE extname = 'dblink' AND has_function_privilege('public', p.oid, 'EXECUTE')"
    )["functions"]
    if open_to_all:
        revoke = "REVOKE EXECUTE ON ALL FUNCTIONS IN SCHEMA {} FROM PUBLIC;"
        yield Finding(
            level="error",
            what="dblink",
            state=f"{open_to_all} of its functions are open to PUBLIC:"
            " every role can act at the Publisher over an open link",
            remedy=statement(revoke, schema),
        )
    else:
        yield Finding(level="ok", what="dblink", state=f"installed in {schema}")
    usage = "SELECT has_foreign_data_wrapper_privilege('dblink_fdw', 'USAGE') AS has"
    if not node.row(usage)["has"]:
        yield Finding(
            level="error",
            what="dblink_fdw",
            state=f"{node.role} may not use it: the link cannot be defined",
            remedy=statement("GRANT USAGE ON FOREIGN DATA WRAPPER dblink_fdw TO {};", node.role),
        )


def is_superuser(node: ExaminedNode) -> bool:
    """Return whether the role that is used is a superuser."""
    row = node.row("SELECT rolsuper FROM pg_roles WHERE rolname = current_user")
    return bool(row["rolsuper"])
