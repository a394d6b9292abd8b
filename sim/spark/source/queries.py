"""SQL texts of the data source, with all values as literals so that results can be fetched by one COPY.

Sequence numbers and transaction ids become integers, and user data becomes text, so that no Arrow type arises that
Spark does not support.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from twopc.lsn import lsn_text

# (lsn - '0/0')::bigint gives Arrow and Spark an integer instead of an opaque type
_COMMANDS = """
select (c.xact_seqno - '0/0'::pg_lsn)::bigint as seqno, c.command_id, c.article_id, c.type, c.originator_id, c.hashkey, c.command
from msrepl.commands_between({publisher}, {after}, {upto}) as c
"""
_TRANSACTIONS = """
select (t.xact_seqno - '0/0'::pg_lsn)::bigint as seqno, t.xact_id::text::bigint as xid, t.entry_time, t.originator_id, t.marks,
    t.commands, t.bytes, null::text as gid
from msrepl.transactions_between({publisher}, {after}, {upto}) as t
"""
_LOG = {"commands": _COMMANDS, "transactions": _TRANSACTIONS}

#: Tables that are small enough for one reader.
_SMALL = {
    "originators": """
        select id, srvname, dbname from msrepl.msrepl_originators where publisher_database_id = {publisher}
    """,
    "subscriptions": """
        select article_id, subscriber, originator_id, status::integer as status, loopback_detection,
            (subscription_seqno - '0/0'::pg_lsn)::bigint as subscription_seqno, (copy_seqno - '0/0'::pg_lsn)::bigint as copy_seqno,
            copy_snapshot::text as copy_snapshot
        from msrepl.mssubscriptions where publisher_database_id = {publisher}
    """,
    "agents": """
        select subscriber, (delivered - '0/0'::pg_lsn)::bigint as delivered, runstatus, last_error
        from msrepl.msdistribution_agents where publisher_database_id = {publisher}
    """,
    "agent_history": """
        select id, subscriber, event, at, transactions, commands, (xact_seqno - '0/0'::pg_lsn)::bigint as seqno, error, message
        from msrepl.msdistribution_history where publisher_database_id = {publisher}
    """,
    "markers": """
        select xid::text::bigint as xid, gid, participants, originator, fence from msrepl.branch_marker
    """,
    "prepared": """
        select transaction::text::bigint as xid, gid, prepared, owner::text as owner from pg_prepared_xacts
        where database = current_database()
    """,
}

#: Ranges of about equal numbers of commands, cut where a transaction ends.
_BOUNDS = """
with numbered as (
    select last_seqno, sum(sum(commands)) over (order by last_seqno) - sum(commands) as before,
        sum(sum(commands)) over () as total
    from msrepl.msrepl_blocks
    where publisher_database_id = {publisher} and last_seqno > {after}
        and last_seqno <= coalesce(
            (select min(n.last_seqno) from msrepl.msrepl_blocks n
             where n.publisher_database_id = {publisher} and n.last_seqno >= {upto}),
            {upto})
    group by last_seqno
)
select (max(last_seqno) - '0/0'::pg_lsn)::bigint as upto
from numbered
group by trunc(before * least({parts}, greatest(1, ceil(total / {rows}))) / greatest(total, 1))
order by 1
"""

#: End of a stream's next batch: the first transaction by which the number of commands is reached, or null.
_BATCH_END = """
with numbered as (
    select last_seqno, sum(sum(commands)) over (order by last_seqno) as upto
    from msrepl.msrepl_blocks
    where publisher_database_id = {publisher} and last_seqno > {after}
        and last_seqno <= (select read_to from msrepl.mspublisher_databases where id = {publisher})
    group by last_seqno
    order by last_seqno
)
select (min(last_seqno) - '0/0'::pg_lsn)::bigint as upto from numbered where upto >= {rows}
"""


def _lsn(value: int) -> sql.Composable:
    return sql.SQL("{}::pg_lsn").format(sql.Literal(lsn_text(value)))


def _text(query: str, **holes: sql.Composable) -> str:
    return sql.SQL(query).format(**holes).as_string(None)


def is_log(table: str) -> bool:
    """Return whether a table grows by sequence numbers."""
    return table in _LOG


def logged(
    table: str, publisher: int, *, after: int, upto: int, conditions: Sequence[str] = ()
) -> str:
    """Return the query for commands or transactions between two positions.

    Args:
        conditions: those of `filters.PushedFilters`, which must all hold.
    """
    query = _LOG[table]
    if conditions:
        query = f"select * from ({query}) as r where " + " and ".join(conditions)  # noqa: S608 - of PushedFilters
    return _text(query, publisher=sql.Literal(publisher), after=_lsn(after), upto=_lsn(upto))


def small(table: str, publisher: int) -> str:
    """Return the query for all rows of a small table."""
    return _text(_SMALL[table], publisher=sql.Literal(publisher))


def bounds(publisher: int, *, after: int, upto: int, parts: int, rows: int) -> str:
    """Return the query for the ends of at most `parts` ranges, each of at least `rows` commands."""
    return _text(
        _BOUNDS,
        publisher=sql.Literal(publisher),
        after=_lsn(after),
        upto=_lsn(upto),
        parts=sql.Literal(parts),
        rows=sql.Literal(rows),
    )


def batch_end(publisher: int, *, after: int, rows: int) -> str:
    """Return the query for the position by which `rows` commands are reached; null if there are fewer."""
    return _text(
        _BATCH_END, publisher=sql.Literal(publisher), after=_lsn(after), rows=sql.Literal(rows)
    )


# -- rows of a published table --------------------------------------------------------------------


def _value(column: str) -> sql.Composable:
    """Return a column's text as its type's output function writes it, which is how the log has it; a cast to text
    formats some types differently (a boolean, a padded character).
    """
    return sql.SQL("case when num_nulls({0}) = 0 then format('%s', {0}) end").format(
        sql.Identifier("t", column)
    )


def rows(
    article_id: int,
    table: tuple[str, str],
    columns: Sequence[str],
    key: Sequence[str],
    *,
    row_filter: str | None,
    pages: tuple[int, int],
) -> str:
    """Return the query for a range of a published table's pages: each row's key and values as arrays of text.

    Args:
        table: schema and name.
        row_filter: the article's row filter, as its owner wrote it.
        pages: the first page, and the one after the last.
    """
    condition = sql.SQL("t.ctid >= {}::tid and t.ctid < {}::tid").format(
        sql.Literal(f"({pages[0]},0)"), sql.Literal(f"({pages[1]},0)")
    )
    if row_filter:
        condition = sql.SQL("{} and ({})").format(condition, sql.SQL(row_filter))
    query = sql.SQL(
        "select {}::integer as article_id, array[{}]::text[] as key, array[{}]::text[] as values"
        " from {} as t where {}"
    ).format(
        sql.Literal(article_id),
        sql.SQL(", ").join(_value(each) for each in key),
        sql.SQL(", ").join(_value(each) for each in columns),
        sql.Identifier(*table),
        condition,
    )
    return query.as_string(None)


def pages(table: tuple[str, str]) -> str:
    """Return the query for the number of pages that a table has now."""
    return (
        sql.SQL("select pg_relation_size({}::regclass) / current_setting('block_size')::bigint")
        .format(sql.Literal(sql.Identifier(*table).as_string(None)))
        .as_string(None)
    )


def snapshot(name: str) -> str:
    """Return the statement that makes a transaction use an exported snapshot."""
    return sql.SQL("set transaction snapshot {}").format(sql.Literal(name)).as_string(None)
