"""Witness of an audit: triggers at each Subscriber that note what agents actually do.

With a row trigger that fires for agents, they call their procedures row by row: the witness is for tests and
inspections, and is removed afterwards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import psycopg
from psycopg import sql

from twopc.lsn import lsn_value
from twopc.sim.spark.audit import witness_calls
from twopc.sim.spark.source.facts import Facts, connected
from twopc.sql.render import render

#: Sorts after the names of other triggers.
_TRIGGER = "~~delivery_witness"
_MARK = """
insert into msrepl.delivery_witness (source_schema, source_object, operation, key)
select %(schema)s, %(table)s, 'since', array[coalesce(min(transaction_timestamp), '0/0')::text]
from msrepl.msreplication_subscriptions
"""
_SINCE = """
select source_schema, source_object, min(key[1]::pg_lsn)::text from msrepl.delivery_witness
where operation = 'since' group by 1, 2
"""
_TAKER = re.compile(r"apply_(\d+)_call")
_POSITION = "select min(transaction_timestamp)::text from msrepl.msreplication_subscriptions"
_SEEN = """
select id, xid::text::bigint as xid, source_schema, source_object, operation, key, version, at
from msrepl.delivery_witness w
where operation <> 'since' and not exists (
    -- a call before the mark of its routine, which some of them may have made unseen
    select from msrepl.delivery_witness m
    where w.operation = 'call' and m.operation = 'since' and m.source_schema = 'msrepl'
        and m.source_object = w.source_object and pg_visible_in_snapshot(w.xid, m.key[2]::pg_snapshot))
order by id
"""
_FUNCTIONS = """
select p.proname from pg_proc p where p.pronamespace = 'msrepl'::regnamespace and p.proname ~ '^delivery_witness_[0-9]+$'
"""

Connection = psycopg.Connection[Any]


def install(subscribers: Mapping[str, str], facts: Facts) -> list[str]:
    """Start noting what agents do; tables that have a witness keep it.

    Args:
        subscribers: node to administrator's connection string.

    Returns:
        The Subscribers that now have a witness.

    Raises:
        PipelineError: a Subscriber cannot be reached, or a transaction there does not end.
    """
    done = []
    for subscriber, dsn in subscribers.items():
        with connected(dsn, subscriber) as connection:
            connection.execute(render("twopc.sim.spark.audit", "witness_table").encode())
            witness_calls.install(
                connection, subscriber
            )  # first, so that changes made by calls are recognised
            with connection.transaction():
                for article in _subscribed(facts, subscriber):
                    _watch(connection, article)
        done.append(subscriber)
    return done


def _subscribed(facts: Facts, subscriber: str) -> Iterable[Mapping[str, Any]]:
    """Return the newest shape of each article to which a Subscriber subscribes."""
    numbers = {row["article_id"] for row in facts.subscriptions if row["subscriber"] == subscriber}
    newest = {row["article_id"]: row for row in facts.articles if row["article_id"] in numbers}
    return newest.values()


def _watch(connection: Connection, article: Mapping[str, Any]) -> None:
    table = sql.Identifier(article["source_schema"], article["source_object"])
    known = connection.execute(
        "select 1 from pg_trigger where tgrelid = %s::regclass and tgname = %s",
        (table.as_string(connection), _TRIGGER),
    ).fetchone()
    if known is not None:
        return
    # the trigger's lock waits for the agent's transaction, and blocks the next one until this one ends
    for text in texts(article):
        connection.execute(text.encode())
    connection.execute(
        _MARK, {"schema": article["source_schema"], "table": article["source_object"]}
    )


def texts(article: Mapping[str, Any]) -> list[str]:
    """Return the SQL texts of the function and the trigger for one article, a row of `shapes.ARTICLES`."""
    table = sql.Identifier(article["source_schema"], article["source_object"])
    columns: Sequence[str] = article["columns"]
    key = [columns[at] for at in article["key"]]
    version = None if article["version"] is None else columns[article["version"]]
    function = sql.Identifier("msrepl", f"delivery_witness_{article['article_id']}")
    return [
        render(
            "twopc.sim.spark.audit", "witness_function",
            function=function,
            source_schema=sql.Literal(article["source_schema"]),
            source_object=sql.Literal(article["source_object"]),
            new_key=_texts("new", key), old_key=_texts("old", key),
            new_version=_text("new", version), old_version=_text("old", version),
        ),
        render(
            "twopc.sim.spark.audit", "witness_trigger",
            trigger=sql.Identifier(_TRIGGER), table=table, function=function,
        ),
    ]  # fmt: skip


def _text(row: str, column: str | None) -> sql.Composable:
    """Return a column's text as the log has it: `format` uses the type's output function."""
    if column is None:
        return sql.SQL("null")
    return sql.SQL("pg_catalog.format('%s', {}.{})").format(sql.SQL(row), sql.Identifier(column))


def _texts(row: str, columns: Sequence[str]) -> sql.Composable:
    return sql.SQL("array[{}]").format(sql.SQL(", ").join(_text(row, each) for each in columns))


def remove(subscribers: Mapping[str, str]) -> list[str]:
    """Remove every witness completely. Return the Subscribers that had one."""
    done = []
    for subscriber, dsn in subscribers.items():
        with connected(dsn, subscriber) as connection:
            if not witness_calls.is_there(connection, "delivery_witness"):
                continue
            witness_calls.put_back(connection, subscriber)
            _forget(connection)
        done.append(subscriber)
    return done


def _forget(connection: Connection) -> None:
    """Drop triggers, functions and the witness's table, after calls are no longer noted."""
    with connection.transaction():
        for (name,) in connection.execute(_FUNCTIONS).fetchall():
            function = sql.Identifier("msrepl", name)
            connection.execute(sql.SQL("drop function {}() cascade").format(function))
        witness_calls.remove(connection)
        connection.execute("drop table msrepl.delivery_witness")


def read(
    subscriber: str, dsn: str, facts: Facts
) -> tuple[list[tuple[Any, ...]], list[tuple[Any, ...]]]:
    """Read a Subscriber's notes, and the positions between which they are complete, in one snapshot.

    Returns:
        Rows of `shapes.WITNESSED`, and of `frames.WATCHED`; both empty if the Subscriber has no witness.
    """
    with connected(dsn, subscriber) as connection, connection.transaction():
        connection.execute("set transaction isolation level repeatable read read only")
        if not witness_calls.is_there(connection, "delivery_witness"):
            return [], []
        position = connection.execute(_POSITION).fetchone()
        upto = lsn_value(position[0]) if position is not None and position[0] else 0
        since = {(schema, table): lsn_value(at) for schema, table, at in connection.execute(_SINCE)}
        watched = [
            (subscriber, row["article_id"], since[row["source_schema"], row["source_object"]], upto)
            for row in _subscribed(facts, subscriber)
            if (row["source_schema"], row["source_object"]) in since
        ]
        for taker in sorted(witness_calls.takers(connection)):
            number = _TAKER.fullmatch(taker)
            if number is not None and ("msrepl", taker) in since:
                watched.append((subscriber, int(number[1]), since["msrepl", taker], upto))
        return [(subscriber, *row) for row in connection.execute(_SEEN)], watched
