"""Connection to a database, and execution of all checks.

This module must not depend on which results are good.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping
from typing import Any

import psycopg
from psycopg import conninfo, pq
from psycopg.rows import dict_row

from twopc import core
from twopc.doctor import checks, rights
from twopc.doctor.finding import Finding, RoleOfNode, statement
from twopc.doctor.node import Check, ExaminedNode
from twopc.errors import ServerError
from twopc.server.connection_strings import CONNECT_TIMEOUT_S, bounded, parse_dsn
from twopc.sql import path

_CHECKS: tuple[Check, ...] = (
    checks.writable,
    checks.wal_level,
    checks.prepared_slots,
    checks.replication_slots,
    rights.rights,
    rights.dblink,
    checks.link_password,
    checks.limits,
    checks.settings_of_roles,
    checks.prepared_transactions,
)

_ADVICE = {
    pq.Ping.OK: "correct user, password or database, or make them; pg_hba.conf must let this host in",
    pq.Ping.REJECT: "wait until the server has started",
    pq.Ping.NO_RESPONSE: "start the server, or correct host and port",
    pq.Ping.NO_ATTEMPT: "correct the connection string",
}


def core_finding() -> Finding:
    """Return whether `twopc.core` is compiled; if not, it works the same, more slowly."""
    if core.COMPILED:
        return Finding(level="ok", what="core", state="compiled")
    return Finding(
        level="warning",
        what="core",
        state=f"plain Python ({core.REASON}): log readers and agents take longer",
        remedy="where a C compiler and the headers of Python are installed, install twopc again",
    )


def examine(
    dsn: str, *, role_of_node: RoleOfNode, registered: Mapping[str, str] | None = None
) -> tuple[Finding, ...]:
    """Return the findings about the database that `dsn` names, as a node with the given role.

    `registered` are the slots that a Publisher's distribution databases know (`registered_slots`). The examination
    uses the role in the DSN, because that role will be used later. Problems of the server or the connection string
    raise no exception, and no password is shown.
    """
    try:
        parameters = parse_dsn(dsn)
    except ServerError as error:
        text, _, remedy = str(error).partition(": ")
        return (Finding(level="error", what="connection", state=text, remedy=remedy),)
    try:
        with _connect(parameters) as connection:
            version = checks.version_finding(connection.info.server_version)
            if version.level == "error":
                return (version,)  # other queries may not even be valid on this version
            node = ExaminedNode(
                connection=connection,
                role_of_node=role_of_node,
                asks_for_password=role_of_node != "publisher" or _asks_for_password(parameters),
                registered=registered,
            )
            return (version, *(finding for check in _CHECKS for finding in check(node)))
    except psycopg.Error as error:
        answer = pq.Ping.NO_RESPONSE
        if not isinstance(error, psycopg.errors.ConnectionTimeout):
            answer = pq.Ping(pq.PGconn.ping(_bounded(parameters).encode()))
        return (
            Finding(
                level="error",
                what="connection",
                state=_without_password(str(error), parameters),
                remedy=_ADVICE[answer],
            ),
        )


def registered_slots(dsns: Iterable[str]) -> dict[str, str] | None:
    """Return the slots that distribution databases know, each with the name of the Publisher's database; None if there are no such databases, or one of them cannot
    be read.
    """
    results: dict[str, str] = {}
    asked = False
    for dsn in dsns:
        try:
            with _connect(parse_dsn(dsn)) as connection:
                known = "SELECT to_regclass('msrepl.mspublisher_databases') IS NOT NULL AS known"
                if any(row["known"] for row in connection.execute(known)):
                    slots_known = "SELECT slot, publisher_db FROM msrepl.mspublisher_databases"
                    rows = connection.execute(slots_known)
                    results |= {row["slot"]: row["publisher_db"] for row in rows}
        except (psycopg.Error, ServerError):
            return None  # the examination of that database reports the reason
        asked = True
    return results if asked else None


def missing_grants(dsn: str, coordinator_role: str, roles: Iterable[str]) -> tuple[str, ...]:
    """Return the GRANT statements without which the coordinator's role cannot finish the branches of `roles`.

    A prepared transaction is finished by the role that prepared it, so the coordinator must be able to SET ROLE to
    every link and application role. Raises `ServerError` if the server does not answer or a role does not exist
    there.
    """
    parameters = parse_dsn(dsn)
    requested = sorted(set(roles))
    try:
        with _connect(parameters) as connection:
            known = {
                row["rolname"]
                for row in connection.execute(
                    "SELECT rolname FROM pg_roles WHERE rolname = ANY(%s)",
                    ([coordinator_role, *requested],),
                )
            }
            for role in (coordinator_role, *requested):
                if role not in known:
                    raise ServerError(
                        f"role {role!r} does not exist there: {statement('CREATE ROLE {};', role)}"
                    )
            missing = connection.execute(
                "SELECT r AS role FROM unnest(%s::name[]) r WHERE NOT pg_has_role(%s, r, 'SET')",
                (requested, coordinator_role),
            )
            return tuple(
                statement("GRANT {} TO {} WITH SET TRUE;", row["role"], coordinator_role)
                for row in missing
            )
    except psycopg.Error as error:
        raise ServerError(
            f"{_without_password(str(error), parameters)}: run `twopc doctor` on this DSN"
        ) from None


def _connect(parameters: dict[str, Any]) -> psycopg.Connection[dict[str, Any]]:
    dsn = _bounded(parameters)
    return psycopg.connect(
        dsn,
        autocommit=True,
        row_factory=dict_row,
        options=path.options(dsn, {"statement_timeout": "0"}),
    )


def _bounded(parameters: dict[str, Any]) -> str:
    return bounded(conninfo.make_conninfo(**parameters))


def _asks_for_password(parameters: dict[str, Any]) -> bool:
    """Return whether the server asks for a password of a role that no special rule names.

    A link role is such a role, and dblink refuses a role that was not asked for one. The function tries to connect:
    a server that requires a password asks even for that of a role that does not exist.
    """
    stranger = conninfo.make_conninfo(
        _bounded(parameters),
        user=f"msrepl_doctor_{secrets.token_hex(4)}",
        password="",
        passfile="/nonexistent",  # ~/.pgpass may contain a password for all roles
        connect_timeout=CONNECT_TIMEOUT_S,
    )
    connection = pq.PGconn.connect(stranger.encode())
    try:
        return connection.needs_password
    finally:
        connection.finish()


def _without_password(text: str, parameters: dict[str, Any]) -> str:
    password = parameters.get("password")
    shown = text.replace(str(password), "***") if password else text
    return "; ".join(line.strip() for line in shown.splitlines() if line.strip())
