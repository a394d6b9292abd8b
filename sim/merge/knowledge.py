"""The Publisher's knowledge of its Subscribers' changes: by lineages, and by the failures that it has recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from twopc import names

_CHANGED = """
select a.source_schema, a.source_object, m.rowguid, r.replica, m.own, m.gone
from msrepl.msmerge_metadata as m
join msrepl.sysmergearticles as a on a.nickname = m.tablenick
cross join msrepl.msmerge_replica as r
where m.own > 0
order by 1, 2, 3
"""
_KNOWN = """
select a.source_schema, a.source_object, m.rowguid, v.version >> 31, v.version & 2147483647
from msrepl.msmerge_metadata as m
join msrepl.sysmergearticles as a on a.nickname = m.tablenick
cross join msrepl.msmerge_replica as r
cross join unnest(msrepl.merge_lineage(m.lineage, r.replica, m.own)) as v(version)
"""
_FAILED = """
select a.source_schema, a.source_object, c.rowguid, c.origin_datasource
from msrepl.msmerge_conflicts_info as c join msrepl.sysmergearticles as a on a.nickname = c.tablenick
where c.winner is null
"""


async def unknown_changes(
    connections: Mapping[str, AsyncConnection[Any]], publisher: str
) -> list[str]:
    """Return descriptions of rows' last changes that the Publisher's lineages do not include and that it has not
    recorded as failed.

    Args:
        connections: administrators', by node.
        publisher: the Publisher's name.
    """
    above = connections[publisher]
    versions: dict[tuple[str, str, UUID, int], int] = {}
    for schema, table, rowguid, replica, version in await _rows(above, _KNOWN):
        versions[schema, table, rowguid, replica] = version
    failed = {*await _rows(above, _FAILED)}
    results = []
    for node, connection in connections.items():
        for schema, table, rowguid, replica, own, gone in await _rows(connection, _CHANGED):
            if versions.get((schema, table, rowguid, replica), 0) >= own:
                continue
            if (schema, table, rowguid, node) not in failed:
                what = "deletion" if gone else "change"
                where = names.article_name(schema, table)
                results.append(f"{node}'s {what} of row {rowguid} of {where}")
    return results


async def _rows(connection: AsyncConnection[Any], query: str) -> list[Any]:
    return await (await connection.execute(query.encode())).fetchall()
