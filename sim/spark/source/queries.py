"""What is asked of databases: texts only, everything in them a literal, so that results come as one COPY.

Sequence numbers and transaction ids become integers, everything that users wrote becomes text: Arrow types
that Spark does not know never arise.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import sql

from twopc.lsn import lsn_text

# (lsn - '0/0')::bigint: so that Arrow and Spark see an integer, not an opaque type
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

#: Where a stream's next batch ends: the first transaction with so many commands up to it, or all there is.
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
    """Whether a table grows by sequence numbers."""
    return table in _LOG


def logged(
    table: str, publisher: int, *, after: int, upto: int, conditions: Sequence[str] = ()
) -> str:
    """Commands or transactions between two positions.

    Args:
        conditions: of `filters.Pushed`, which must all hold.
    """
    query = _LOG[table]
    if conditions:
        query = f"select * from ({query}) as r where " + " and ".join(conditions)  # noqa: S608 - of Pushed
    return _text(query, publisher=sql.Literal(publisher), after=_lsn(after), upto=_lsn(upto))


def small(table: str, publisher: int) -> str:
    """Everything of a small table."""
    return _text(_SMALL[table], publisher=sql.Literal(publisher))


def bounds(publisher: int, *, after: int, upto: int, parts: int, rows: int) -> str:
    """Where ranges end, each of at least `rows` commands, at most `parts` of them."""
    return _text(
        _BOUNDS,
        publisher=sql.Literal(publisher),
        after=_lsn(after),
        upto=_lsn(upto),
        parts=sql.Literal(parts),
        rows=sql.Literal(rows),
    )


def batch_end(publisher: int, *, after: int, rows: int) -> str:
    """Where so many commands end; null if there are not as many."""
    return _text(
        _BATCH_END, publisher=sql.Literal(publisher), after=_lsn(after), rows=sql.Literal(rows)
    )


# -- rows of a published table --------------------------------------------------------------------


def _value(column: str) -> sql.Composable:
    """A column's text as its type's output function writes it, which is how the log has it; a cast to text
    writes some types another way (a boolean, a padded character)."""
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
    """A range of a published table's pages, each row's key and values as arrays of text.

    Args:
        table: schema and name.
        row_filter: the article's condition, as its owner wrote it.
        pages: the first, and the one behind the last.
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
    """How many pages a table has now."""
    return (
        sql.SQL("select pg_relation_size({}::regclass) / current_setting('block_size')::bigint")
        .format(sql.Literal(sql.Identifier(*table).as_string(None)))
        .as_string(None)
    )


def snapshot(name: str) -> str:
    """Lets a transaction see what the one that exported the snapshot sees."""
    return sql.SQL("set transaction snapshot {}").format(sql.Literal(name)).as_string(None)
