"""What is wrong at a node of merge replication that sessions would not notice, or not explain.

Every function takes an administrator's connection (a superuser's).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection, sql

from twopc import names
from twopc.drivers.merge.tracking import StoredMergeArticle, articles, stored_articles
from twopc.errors import ArticleError

Connection = AsyncConnection[Any]

_TRIGGERS = {
    "ins": "inserts",
    "upd": "updates",
    "del": "deletions",
    "guid": "updates of the column by which rows are known",
}
_FOUND_TRIGGERS = "select t.tgname::text, t.tgenabled::text from pg_trigger as t where t.tgrelid = %s::text::regclass"
_COPIED = """
select r.system_identifier <> s.system_identifier or r.database <> d.oid
from msrepl.msmerge_replica as r, pg_control_system() as s, pg_database as d
where d.datname = current_database()
"""
_CHECKED = """
select k.conname::text from msrepl.sysmergearticles as a
join pg_constraint as k on k.conname = any (a.checked_keys)
join pg_trigger as t on t.tgconstraint = k.oid and t.tgrelid = a.objid
where a.artid = %s and t.tgenabled <> 'A'
group by 1 order by 1
"""
_REPLICA = "select r.replica from msrepl.msmerge_replica as r"
_NEIGHBOURS = (
    "select s.subscriber_server, s.replnickname from msrepl.sysmergesubscriptions as s"
    " where s.login is not null and s.status = 1 order by 1"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeFinding:
    """Something that is wrong."""

    node: str
    what: str
    """The object, and what is wrong with it."""
    remedy: str


async def check_node(connection: Connection, node: str) -> list[MergeFinding]:
    """What is wrong at one node by itself: triggers, keys, metadata, and whether it is a copy of another."""
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
    for stored in await stored_articles(connection):
        findings += await _check_article(connection, node, stored)
    return findings


async def check_nodes(connections: Mapping[str, Connection]) -> list[MergeFinding]:
    """What is wrong at nodes, each by itself and with the others.

    Args:
        connections: administrators', by node.
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


async def _check_article(
    connection: Connection, node: str, stored: StoredMergeArticle
) -> list[MergeFinding]:
    name = names.article_name(stored.source_schema, stored.source_object)

    def finding(what: str, remedy: str) -> MergeFinding:
        return MergeFinding(node=node, what=f"table {name}: {what}", remedy=remedy)

    if (stored.schema, stored.table) != (stored.source_schema, stored.source_object):
        return [finding("was dropped or renamed", "unpublish it, and publish it again")]
    table = sql.Identifier(stored.source_schema, stored.source_object)
    triggers = dict(await _rows(connection, _FOUND_TRIGGERS, table.as_string(connection)))
    findings = []
    for what, changes in _TRIGGERS.items():
        trigger = names.merge_object(what, stored.artid)
        if triggers.get(trigger) == "A" or (what == "guid" and triggers.get(trigger) == "O"):
            continue
        if trigger in triggers:
            remedy = (
                f"alter table {name} enable always trigger {trigger}, and validate its Subscribers"
            )
            findings.append(finding(f"trigger {trigger} is disabled: {changes} are missed", remedy))
        else:
            remedy = "unpublish the table, and publish it again"
            findings.append(finding(f"trigger {trigger} is missing: {changes} are missed", remedy))
    for (key,) in await _rows(connection, _CHECKED, stored.artid):
        findings.append(
            finding(
                f"key {key} is not checked for agents: a trigger of it is not enabled ALWAYS",
                "unpublish the table, and publish it again",
            )
        )
    metadata = sql.Identifier(names.SCHEMA, names.merge_metadata(stored.nickname))
    query = sql.SQL(
        "select count(*) filter (where not m.gone and t.{guid} is null),"
        " count(*) filter (where m.gone and t.{guid} is not null)"
        " from {metadata} as m left join {table} as t on t.{guid} = m.rowguid"
    ).format(guid=sql.Identifier(stored.rowguid), metadata=metadata, table=table)
    [(vanished, back)] = await _rows(connection, query)
    for count, what in ((vanished, "went"), (back, "came back")):
        if count:
            findings.append(
                finding(
                    f"{count} row{'s' * (count != 1)} {what} without a record: a session in the replica role has "
                    "changed them, or a trigger was disabled",
                    "dummy_update each of them, or validate with repair",
                )
            )
    if not findings:
        try:
            await articles(connection)
        except ArticleError as error:
            findings.append(finding(str(error), "unpublish it, and publish it again"))
    return findings


async def _rows(connection: Connection, query: Any, *arguments: Any) -> list[Any]:
    text = query.encode() if isinstance(query, str) else query
    return await (await connection.execute(text, arguments or None)).fetchall()
