"""A distribution database full of commands, generated in PostgreSQL: 1,000 in a block, ten in a transaction.

The first commands insert rows, one per key; the rest update them by SCALL, each key equally often.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
from psycopg import sql
from psycopg.conninfo import make_conninfo

from twopc.publisher.distribution.install import install_texts
from twopc.server import EmbeddedServer

KEYS_MAX = 1_000_000
BLOCK = 1_000
IN_TRANSACTION = 10
#: Distance of the LSNs of two transactions.
STEP = 256
ARTICLE = 1
_COLUMNS = [{"name": "id", "type": "bigint"}, {"name": "note", "type": "text"}, {"name": "n", "type": "integer"}]  # fmt: skip

# texts as twopc.propagation.record_text makes them: every value quoted, backslashes doubled
_FILL = r"""
insert into msrepl.msrepl_blocks
select 1, (min(lsn)), (max(lsn)), 0, count(distinct lsn), count(*), %(each)s,
    array_agg(distinct lsn order by lsn), null, null, null, null, null, null,
    array_agg(lsn order by n), array_agg(n %% %(each)s + 1 order by n), array_agg(%(article)s * 100 + kind order by n),
    array_agg(0 order by n), array_agg(hashint8(key) order by n), array_agg(text order by n)
from (
    select n, n / %(block)s as block, '0/0'::pg_lsn + (n / %(each)s + 1) * %(step)s as lsn, key, kind,
        case kind when 1 then format('("%%s","%%s","%%s")', key, note, n) else format('(,"%%s",,"%%s","\\x02")', note, key) end as text
    from generate_series(%(first)s::bigint, %(last)s::bigint) as n
    cross join lateral (
        select case when n < %(keys)s then n else n * 7919 %% %(keys)s end as key, case when n < %(keys)s then 1 else 2 end as kind
    ) as k
    cross join lateral (select repeat(md5(n::text), 2) || n as note) as t
) as c
group by block
"""
# the transactions of a block, derived from its positions
_TRANSACTIONS = """
update msrepl.msrepl_blocks set
    xids = array(select ((s - '0/0'::pg_lsn)::bigint / %(step)s)::text::xid8 from unnest(seqnos) as s),
    entry_times = array(select '2026-01-01Z'::timestamptz + (s - '0/0'::pg_lsn)::bigint * interval '1 us' from unnest(seqnos) as s),
    originators = array_fill(0, array[transactions]), marks = array_fill(0, array[transactions]),
    counts = array_fill(%(each)s, array[transactions]), lengths = array_fill(1000::bigint, array[transactions])
"""


@contextmanager
def filled(*sizes: int) -> Iterator[dict[int, str]]:
    """Yield connection strings of databases with these numbers of commands, by number, on one server without fsync."""
    with EmbeddedServer.start(durable=False) as server:
        found = {}
        for size in sizes:
            name = f"commands_{size}"
            server.create_database(name)
            found[size] = server.superuser_dsn(name)
            fill(found[size], size)
        yield found


def fill(dsn: str, commands: int) -> None:
    """Create the tables and the commands, whose number is a multiple of a block."""
    assert commands % BLOCK == 0, "whole blocks"
    keys = key_count(commands)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create schema msrepl")
        role = connection.execute("select current_user").fetchone()
        assert role is not None
        for text in install_texts(role[0]):
            connection.execute(text.encode())
        connection.execute(
            "insert into msrepl.mspublisher_databases (publisher, publisher_db, slot) values ('pub', 'pub', 'none')"
        )
        connection.execute(
            "insert into msrepl.msarticles (publisher_database_id, article_id, source_schema, source_object, columns,"
            " key, propagation, procedures) values (1, %s, 'public', 'account', %s, '{id}', %s, '{}')",
            (ARTICLE, json.dumps(_COLUMNS), json.dumps({"ins": "CALL", "upd": "SCALL", "del": "CALL"})),
        )  # fmt: skip
        # the arrays of transactions are filled in a second step: the first aggregates commands only
        connection.execute(_nullable(drop=True))
        step = 100 * BLOCK
        for first in range(0, commands, step):
            last = min(first + step, commands) - 1
            values = {
                "first": first, "last": last, "keys": keys, "each": IN_TRANSACTION, "step": STEP, "block": BLOCK,
                "article": ARTICLE,
            }  # fmt: skip
            connection.execute(_FILL, values)
        connection.execute(_TRANSACTIONS, {"step": STEP, "each": IN_TRANSACTION})
        connection.execute(_nullable(drop=False))
        connection.execute(
            "update msrepl.mspublisher_databases set read_to = (select max(last_seqno) from msrepl.msrepl_blocks)"
        )
        connection.execute("vacuum analyze msrepl.msrepl_blocks")


def key_count(commands: int) -> int:
    """Return the number of rows that result from this number of commands: those that the first ones insert."""
    return min(KEYS_MAX, commands // 2)


# the last command of each key; a factor coprime to their number reaches all keys
_ROWS = """
insert into account
select id, repeat(md5(last::text), 2) || last, id
from (
    select n * 7919 %% %(keys)s as id, n as last
    from generate_series(%(commands)s::bigint - %(keys)s, %(commands)s::bigint - 1) as n
) as c
"""


def nodes(dsn: str, commands: int) -> dict[str, str]:
    """Create a Publisher and a Subscriber on the server of a distribution database, and the subscription in it.

    Returns:
        Connection strings by node, including that of the distribution database.
    """
    found = {"distribution": dsn}
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table msrepl.coordinator_epoch ()")
        connection.execute(
            "insert into msrepl.mssubscriptions (publisher_database_id, article_id, subscriber, status)"
            " values (1, %s, 'sub', 2)",
            (ARTICLE,),
        )
        for node in ("pub", "sub"):
            connection.execute(sql.SQL("create database {}").format(sql.Identifier(node)))
            found[node] = make_conninfo(dsn, dbname=node)
            fill_node(found[node], commands)
    with psycopg.connect(found["pub"], autocommit=True) as connection:
        connection.execute("create schema msrepl")
        connection.execute("create table msrepl.sysarticles ()")
    return found


def fill_node(dsn: str, commands: int) -> None:
    """Create the table, with the rows that result from this number of commands of `fill`."""
    values = {"keys": key_count(commands), "commands": commands}
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("create table account (id bigint primary key, note text, n integer)")
        connection.execute(_ROWS, values)
        connection.execute("vacuum analyze account")


def _nullable(*, drop: bool) -> sql.Composed:
    names = ("xids", "entry_times", "originators", "marks", "counts", "lengths")
    word = sql.SQL("drop" if drop else "set")
    changes = [
        sql.SQL("alter column {} {} not null").format(sql.Identifier(each), word) for each in names
    ]
    return sql.SQL("alter table msrepl.msrepl_blocks {}").format(sql.SQL(", ").join(changes))
