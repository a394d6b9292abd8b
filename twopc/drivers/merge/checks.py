"""Checks for errors at nodes of merge replication that sessions would not detect, or not explain.

Every function takes an administrator's connection (a superuser's).
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql

from twopc import names
from twopc.drivers.merge.neighbours import publisher_name
from twopc.drivers.merge.range_status import RangeStatus, read_ranges
from twopc.drivers.merge.tracking import StoredMergeArticle, stored_articles

Connection = AsyncConnection[Any]

_FAULTS = "select f.artid, f.name, f.what, f.remedy from msrepl.merge_faults() as f"
_COPIED = """
select r.system_identifier <> s.system_identifier or r.database <> d.oid
from msrepl.msmerge_replica as r, pg_control_system() as s, pg_database as d
where d.datname = current_database()
"""
#: Columns that take values: whether the column is merged, its type, and the number of schema changes that the node
#: has performed.
_COLUMNS = """
select a.artid, a.source_schema, a.source_object, b.attname::text, b.attname = any (a.columns), format_type(b.atttypid, b.atttypmod),
       (select count(*) from msrepl.sysmergeschemachange)
from msrepl.sysmergearticles as a join pg_attribute as b on b.attrelid = a.objid
where b.attnum > 0 and not b.attisdropped and b.attgenerated = '' and b.attname <> a.rowguid
order by a.nickname, b.attnum
"""
_REPLICA = "select r.replica from msrepl.msmerge_replica as r"
_NEIGHBOURS = (
    "select s.subscriber_server, s.replnickname from msrepl.sysmergesubscriptions as s"
    " where s.login is not null and s.status = 1 order by 1"
)
_SUBSCRIBERS = "select subscriber_server from msrepl.sysmergesubscriptions where not is_publisher"


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeFinding:
    """An error that a check has found."""

    node: str
    what: str
    """The object, and the error."""
    remedy: str


async def check_node(connection: Connection, node: str) -> list[MergeFinding]:
    """Return the errors of one node by itself: triggers, keys, metadata, and whether the database is a copy of
    another.
    """
    [(is_copied,)] = await _rows(connection, _COPIED)
    findings = []
    if is_copied:
        findings.append(
            MergeFinding(
                node=node,
                what=f"database {connection.info.dbname} is a copy of one that merges: its transaction ids are others",
                remedy="uninstall merge replication there, and subscribe anew",
            )
        )
    faults = await _rows(connection, _FAULTS)
    findings += [
        MergeFinding(node=node, what=f"table {name} {what}", remedy=remedy)
        for _, name, what, remedy in faults
    ]
    faulty = {artid for artid, *_ in faults}
    for stored in await stored_articles(connection):
        if stored.artid not in faulty:
            findings += await _check_rows(connection, node, stored)
    return findings


async def check_nodes(connections: Mapping[str, Connection]) -> list[MergeFinding]:
    """Return the errors of nodes, each by itself and in relation to the others.

    Args:
        connections: administrators' connections, by node.
    """
    findings: list[MergeFinding] = []
    replicas: dict[int, str] = {}
    for node, connection in connections.items():
        findings += await check_node(connection, node)
        [(replica,)] = await _rows(connection, _REPLICA)
        if replica in replicas:
            findings.append(
                MergeFinding(
                    node=node,
                    what=f"has the replica number {replica}, and so has {replicas[replica]}: one is a copy of the other",
                    remedy=f"reinitialise {node}, or whichever is the copy",
                )
            )
        replicas.setdefault(replica, node)
    findings += [finding async for finding in _check_columns(connections)]
    for node, connection in connections.items():
        publisher = await publisher_name(connection)
        findings += [
            finding
            for status in await read_ranges(connection, node)
            for finding in _check_ranges(status, publisher)
        ]
        if publisher not in connections or publisher is None:
            continue
        if (node,) not in await _rows(connections[publisher], _SUBSCRIBERS):
            findings.append(
                MergeFinding(
                    node=node,
                    what=f"subscribes at {publisher}, which does not know it: an `unsubscribe` was cut off",
                    remedy=f"twopc merge unsubscribe {node}",
                )
            )
    numbers = {node: replica for replica, node in replicas.items()}
    for node, connection in connections.items():
        for neighbour, replica in await _rows(connection, _NEIGHBOURS):
            if neighbour in numbers and numbers[neighbour] != replica:
                findings.append(
                    MergeFinding(
                        node=node,
                        what=f"knows {neighbour} by a number that it has no more: it was restored, or set up anew",
                        remedy="run a session; if that is refused, reinitialise the Subscriber of the two",
                    )
                )
    return findings


async def _check_columns(connections: Mapping[str, Connection]) -> AsyncIterator[MergeFinding]:
    """Find columns that were added or altered manually, at one node alone, so that values are lost or do not fit."""
    types: dict[tuple[Any, ...], tuple[str, str]] = {}
    for node, connection in connections.items():
        for artid, schema, table, column, travels, type_, made in await _rows(connection, _COLUMNS):
            name = names.article_name(schema, table)
            if not travels:
                yield MergeFinding(
                    node=node,
                    what=f"table {name} has a column {column!r} that does not travel: it was added by hand",
                    remedy=f"drop it, and add it by `twopc merge column add {name} {column} '{type_}'`",
                )
                continue
            other, known = types.setdefault((artid, column, made), (node, type_))
            if known != type_:
                yield MergeFinding(
                    node=node,
                    what=f"table {name} has column {column!r} as {type_}, and that of {other} is {known}: one of them "
                    "was altered by hand",
                    remedy="alter it back, and use `twopc merge column widen`",
                )


def _check_ranges(status: RangeStatus, publisher: str | None) -> Iterator[MergeFinding]:
    """Yield findings about identity values that are nearly used up, or are not allotted.

    Args:
        publisher: the Publisher of the node; None if it has none.
    """
    column = f"table {status.table}: column {status.column!r}"
    values = f"{status.left} identity value{'s' * (status.left != 1)}"
    if status.is_short and status.is_own:
        yield MergeFinding(
            node=status.node,
            what=f"{column} has {values} left here, and a session would bring {status.due}: inserts fail without them (548)",
            remedy=f"twopc merge sync {status.node}; if that brings none, look at those of {publisher} by `twopc merge ranges`",
        )
    elif status.is_short:
        yield MergeFinding(
            node=status.node,
            what=f"{column} has {values} left, which its type and its sequence allow: Subscribers get fewer, and then none",
            remedy="raise the sequence's MAXVALUE; if the type ends there, unsubscribe every Subscriber, unpublish the "
            "table, give the column type bigint, and publish the table again",
        )
    if status.waits_for:
        yield MergeFinding(
            node=status.node,
            what=f"{column}: no identity values are allotted since this node was restored, before a session with each of "
            f"{', '.join(status.waits_for)}",
            remedy="; ".join(f"twopc merge sync {name}" for name in status.waits_for)
            + "; unsubscribe those that will never have one",
        )


async def _check_rows(
    connection: Connection, node: str, stored: StoredMergeArticle
) -> list[MergeFinding]:
    name = names.article_name(stored.source_schema, stored.source_object)
    table = sql.Identifier(stored.source_schema, stored.source_object)
    metadata = sql.Identifier(names.SCHEMA, names.merge_metadata(stored.nickname))
    query = sql.SQL(
        "select count(*) filter (where not m.gone and t.{guid} is null),"
        " count(*) filter (where m.gone and t.{guid} is not null)"
        " from {metadata} as m left join {table} as t on t.{guid} = m.rowguid"
    ).format(guid=sql.Identifier(stored.rowguid), metadata=metadata, table=table)
    [(vanished, back)] = await _rows(connection, query)
    return [
        MergeFinding(
            node=node,
            what=f"table {name}: {count} row{'s' * (count != 1)} {what} without a record: a session in the replica role "
            "has changed them, or a trigger was disabled",
            remedy="dummy_update each of them, or validate with repair",
        )
        for count, what in ((vanished, "went"), (back, "came back"))
        if count
    ]


async def _rows(connection: Connection, query: Any, *arguments: Any) -> list[Any]:
    text = query.encode() if isinstance(query, str) else query
    return await (await connection.execute(text, arguments or None)).fetchall()
