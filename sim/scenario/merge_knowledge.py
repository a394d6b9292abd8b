"""Query for the generations and lineages of a node on a server."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from psycopg import AsyncConnection

from twopc.merge.lineage import unpacked
from twopc.sim.scenario.merge_watch import NeighbourMarks, NodeKnowledge

_SEEN = """
select r.former || r.replica,
       (select max(h.generation) from msrepl.msmerge_genhistory as h),
       (select json_agg(json_build_array(s.subscriber_server, s.sentgen, s.recgen, s.coming_gen))
        from msrepl.sysmergesubscriptions as s where s.login is not null),
       (select json_agg(json_build_array(a.source_object, m.rowguid, msrepl.merge_lineage(m.lineage, r.replica, m.own)))
        from msrepl.msmerge_metadata as m join msrepl.sysmergearticles as a on a.nickname = m.tablenick)
from msrepl.msmerge_replica as r
"""


async def read_knowledge(connection: AsyncConnection[Any]) -> NodeKnowledge:
    """Read the merge metadata of a node over an administrator's connection."""
    row = await (await connection.execute(_SEEN)).fetchone()
    assert row is not None, "the node merges"
    replicas, newest, marks, lineages = row
    return NodeKnowledge(
        replicas=tuple(replicas),
        newest=newest,
        marks={
            name: NeighbourMarks(sent=sent, received=received, coming=coming)
            for name, sent, received, coming in marks or ()
        },
        lineages={
            (table, UUID(rowguid)): unpacked(lineage) for table, rowguid, lineage in lineages or ()
        },
    )
