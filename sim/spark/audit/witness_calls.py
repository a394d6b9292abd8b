"""Witness of calls: at a Subscriber that receives calls of routines, each call is noted before it is made.

The function through which an agent makes a routine's calls is renamed. Until the witness is removed, a function
that notes the call and then calls the renamed one stands in its place.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg
from psycopg import sql

from twopc.names import SCHEMA
from twopc.server.polling import wait_for
from twopc.sim.spark.errors import PipelineError
from twopc.sql.render import render

#: Comment by which the functions that note calls are recognised.
_COMMENT = "Notes a call for an audit, then makes it"
_ASIDE = "_witnessed"
#: Timeout for transactions that began before calls were witnessed.
_END_TIMEOUT_S = 60.0
_TAKERS = """
select p.proname, array(
    select pg_get_userbyid(x.grantee)::text from aclexplode(p.proacl) x where x.grantee not in (0, p.proowner) order by 1)
from msrepl.msreplication_proc_articles a
join pg_proc p on p.pronamespace = 'msrepl'::regnamespace and p.proname = format('apply_%%s_call', a.article_id)
where a.takes_calls and coalesce(obj_description(p.oid, 'pg_proc'), '') <> %(comment)s order by 1
"""
_WITNESSED = """
select p.proname from pg_proc p
where p.pronamespace = 'msrepl'::regnamespace and obj_description(p.oid, 'pg_proc') = %(comment)s order by 1
"""
_SET_ASIDE = """
select regexp_replace(p.proname, '_witnessed$', ''), pg_get_functiondef(p.oid), obj_description(p.oid, 'pg_proc'),
    pg_get_userbyid(p.proowner)
from pg_proc p
where p.pronamespace = 'msrepl'::regnamespace and p.proname ~ '^apply_[0-9]+_call_witnessed$' order by 1
"""
_OLDER = """
select count(*) from pg_stat_activity
where datname = current_database() and pid <> pg_backend_pid() and backend_type = 'client backend'
    and xact_start <= %(since)s
"""
_MARK = """
insert into msrepl.delivery_witness (source_schema, source_object, operation, key)
select 'msrepl', %(taker)s, 'since',
    array[coalesce(min(transaction_timestamp), '0/0')::text, pg_current_snapshot()::text]
from msrepl.msreplication_subscriptions
"""

Connection = psycopg.Connection[Any]


def texts(taker: str, agents: Iterable[str]) -> str:
    """Return the SQL text of the function that replaces the one for a routine's calls.

    Args:
        agents: the roles that may execute that function.
    """
    return render(
        "twopc.sim.spark.audit", "witness_call",
        function=sql.Identifier(SCHEMA, taker),
        taker=sql.Literal(taker),
        witnessed=sql.Identifier(SCHEMA, f"{taker}{_ASIDE}"),
        agents=sql.SQL(", ").join(map(sql.Identifier, agents)),
        comment=sql.Literal(_COMMENT),
    )  # fmt: skip


def install(connection: Connection, subscriber: str) -> None:
    """Start noting calls, and mark the position from which none is missed; functions that note calls are kept.

    The witness's table must exist. Calls in progress may still use the original function: the mark is set only
    after they have ended, so that every call after the mark is noted.

    Raises:
        PipelineError: an earlier transaction does not end in time.
    """
    if not is_there(connection, "msreplication_proc_articles"):
        return
    with connection.transaction():
        rows = connection.execute(_TAKERS, {"comment": _COMMENT}).fetchall()
        if rows:
            connection.execute(render("twopc.sim.spark.audit", "witness_note").encode())
        for taker, agents in rows:
            _drop(connection, f"{taker}{_ASIDE}")  # left by a removed subscription
            connection.execute(_renamed(taker, f"{taker}{_ASIDE}"))
            connection.execute(texts(taker, agents).encode())
    if not rows:
        return
    _await_transactions(connection, subscriber)
    with connection.transaction():
        connection.execute("set transaction isolation level repeatable read")
        for taker, _ in rows:
            connection.execute(_MARK, {"taker": taker})


def _await_transactions(connection: Connection, subscriber: str) -> None:
    """Wait until every transaction now in progress has ended, as it may use the previous functions."""
    [(now,)] = connection.execute("select clock_timestamp()").fetchall()
    since = {"since": now}
    try:
        wait_for(
            lambda: connection.execute(_OLDER, since).fetchone() == (0,),
            what=f"transactions at {subscriber} that began before calls were witnessed, or while they were, to end",
            timeout_s=_END_TIMEOUT_S,
        )
    except TimeoutError as error:
        raise PipelineError(f"{error}: end them, remove the witness and begin again") from error


def put_back(connection: Connection, subscriber: str) -> None:
    """Stop noting calls. Calls in progress may still be noted until this function returns.

    Raises:
        PipelineError: an earlier transaction does not end in time.
    """
    with connection.transaction():
        witnessed = takers(connection)
        rows = [row for row in connection.execute(_SET_ASIDE).fetchall() if row[0] in witnessed]
        for taker, definition, comment, owner in rows:
            # replaces the noting function; a session that still runs it finds the original under its other name
            connection.execute(definition.replace(f"{taker}{_ASIDE}", taker, 1).encode())
            function = sql.Identifier(SCHEMA, taker)
            # it runs as its owner, and CREATE OR REPLACE keeps the previous owner
            text = sql.SQL("alter function {}(text) owner to {}")
            connection.execute(text.format(function, sql.Identifier(owner)))
            text = sql.SQL("comment on function {}(text) is {}")
            connection.execute(text.format(function, sql.Literal(comment)))
    if rows:
        _await_transactions(connection, subscriber)


def remove(connection: Connection) -> None:
    """Drop the remaining functions once calls are no longer noted (`put_back`)."""
    for taker, *_ in connection.execute(_SET_ASIDE).fetchall():
        _drop(connection, f"{taker}{_ASIDE}")
    connection.execute("drop function if exists msrepl.delivery_witness_note(text, text)")


def takers(connection: Connection) -> set[str]:
    """Return the functions that note their calls."""
    return {str(row[0]) for row in connection.execute(_WITNESSED, {"comment": _COMMENT})}


def is_there(connection: Connection, table: str) -> bool:
    """Return whether a Subscriber has a table of ours."""
    row = connection.execute(
        "select to_regclass(%s) is not null", (f"{SCHEMA}.{table}",)
    ).fetchone()
    return row is not None and bool(row[0])


def _renamed(name: str, to: str) -> sql.Composed:
    return sql.SQL("alter function {}(text) rename to {}").format(
        sql.Identifier(SCHEMA, name), sql.Identifier(to)
    )


def _drop(connection: Connection, name: str) -> None:
    function = sql.Identifier(SCHEMA, name)
    connection.execute(sql.SQL("drop function if exists {}(text)").format(function))
