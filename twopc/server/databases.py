"""Creation and removal of databases, on any server.

This module must not depend on how the server was started.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, LiteralString

import psycopg
from psycopg import conninfo, errors, sql

from twopc.errors import ServerError
from twopc.names import KEEP
from twopc.server.polling import wait_for
from twopc.sql import path

_DROP_TIMEOUT_S = 10.0
_TERMINATE_MS = 5000

_IS_KEPT = """
select from pg_subscription as s join pg_database as d on d.oid = s.subdbid where s.subname = %s and d.datname = %s
"""

Answer = Callable[[str], bool]
"""Function that returns, for a gid, whether its prepared transaction may be rolled back."""

# file_copy takes 27 ms and wal_log 80 ms for an almost empty database.
_CREATE: LiteralString = "CREATE DATABASE {} STRATEGY file_copy"


def create_databases(admin_dsn: str, names: Sequence[str], template: str | None = None) -> None:
    """Create databases, as copies of `template` if given (which must have no connections).

    Raises `ServerError` if a name exists already, the template is missing or in use, or the role lacks the right.
    """
    with psycopg.connect(admin_dsn, autocommit=True, options=path.options(admin_dsn)) as admin:
        for name in names:
            _create(admin, name, template)


def _create(admin: psycopg.Connection[Any], name: str, template: str | None) -> None:
    statement = sql.SQL(_CREATE).format(sql.Identifier(name))
    if template is not None:
        statement += sql.SQL(" TEMPLATE {}").format(sql.Identifier(template))
    try:
        admin.execute(statement)
    except errors.DuplicateDatabase as error:
        raise ServerError(f"database {name!r} exists: choose another name, or drop it") from error
    except errors.InvalidCatalogName as error:
        raise ServerError(f"template database {template!r} does not exist") from error
    except errors.ObjectInUse as error:
        raise ServerError(
            f"template database {template!r} is in use: {error.diag.message_detail}"
        ) from error
    except errors.InsufficientPrivilege as error:
        grant = sql.SQL("ALTER ROLE {} CREATEDB;").format(sql.Identifier(admin.info.user))
        raise ServerError(
            f"database {name!r} cannot be created: {grant.as_string(None)}"
        ) from error


def drop_databases(
    admin_dsn: str, names: Sequence[str], *, may_roll_back: Answer | None = None
) -> None:
    """Drop databases, their sessions, their slots and the subscriptions that protect published ones; a database
    that does not exist is skipped.

    PostgreSQL does not drop a database with a prepared transaction. Prepared transactions for which `may_roll_back`
    returns true are rolled back; if there are others, or the argument is None, the database is left unchanged and
    `ServerError` names them.
    """
    with psycopg.connect(admin_dsn, autocommit=True, options=path.options(admin_dsn)) as admin:
        for name in names:
            own_dsn = conninfo.make_conninfo(admin_dsn, dbname=name)
            try:
                wait_for(
                    partial(_drop, admin, name, own_dsn, may_roll_back),
                    what=f"database {name!r} to be free",
                    timeout_s=_DROP_TIMEOUT_S,
                )
            except TimeoutError as error:
                raise ServerError(
                    f"database {name!r} stays in use: end its clients and subscriptions"
                ) from error


def _drop(
    admin: psycopg.Connection[Any], name: str, own_dsn: str, may_roll_back: Answer | None
) -> bool:
    """Drop the database; return False if a new client prevented it."""
    prepared = _prepared(admin, name)
    foreign = [gid for gid in prepared if not (may_roll_back and may_roll_back(gid))]
    if foreign:
        raise ServerError(
            f"database {name!r} holds prepared transactions that are not ours to end:"
            f" {', '.join(foreign)}; COMMIT PREPARED or ROLLBACK PREPARED them there first"
        )
    # Sessions are ended first: one of them may be about to prepare, or hold a slot.
    admin.execute(
        "SELECT pg_terminate_backend(pid, %s) FROM pg_stat_activity WHERE datname = %s",
        (_TERMINATE_MS, name),
    )
    let_go(admin, name, own_dsn)
    _roll_back(own_dsn, [g for g in _prepared(admin, name) if may_roll_back and may_roll_back(g)])
    try:
        admin.execute(
            sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
        )
    except errors.ObjectInUse:
        return False
    return True


def let_go(admin: psycopg.Connection[Any], name: str, own_dsn: str) -> bool:
    """Drop the subscription that protects a published database from being dropped; return whether it existed.

    Args:
        admin: connection to another database of the server.
        own_dsn: connection string of the database.
    """
    if not admin.execute(_IS_KEPT, (KEEP, name)).rowcount:
        return False
    with psycopg.connect(own_dsn, autocommit=True, options=path.options(own_dsn)) as connection:
        connection.execute(sql.SQL("DROP SUBSCRIPTION IF EXISTS {}").format(sql.Identifier(KEEP)))
    return True


def _prepared(admin: psycopg.Connection[Any], database: str) -> list[str]:
    rows = admin.execute(
        "SELECT gid FROM pg_prepared_xacts WHERE database = %s ORDER BY gid", (database,)
    )
    return [gid for (gid,) in rows]


def _roll_back(dsn: str, gids: list[str]) -> None:
    if not gids:
        return
    with psycopg.connect(dsn, autocommit=True, options=path.options(dsn)) as connection:
        for gid in gids:
            # Finished by another session meanwhile (42704) or being finished (55000): the caller checks again.
            with suppress(errors.UndefinedObject, errors.ObjectNotInPrerequisiteState):
                connection.execute(sql.SQL("ROLLBACK PREPARED {}").format(sql.Literal(gid)))
