"""State of merging nodes at one moment: generations, lineages, and positions of neighbours.

Reads the state of the model's sites without changing it. Keys and values are those of
`twopc.sim.explore.wire.runs.WireRun.states`.
"""

from __future__ import annotations

from typing import Any
from uuid import UUID

from twopc.sim.model.merge.merge_nodes import ModelMerging
from twopc.sim.model.merge.site import MergeSite

State = dict[str, dict[str, Any]]


class MergeLook:
    """Observer of the sites of one model."""

    def __init__(self, merging: ModelMerging) -> None:
        self._merging = merging
        self._keys: dict[UUID, str] = {}
        """Keys of all rows seen so far, including deleted ones."""

    def look(self, state: State) -> None:
        """Add the present state of every site."""
        sites = self._merging.sites
        replicas = {
            replica: name
            for name, site in sites.items()
            for replica in (*site.knowledge.former, site.knowledge.replica)
        }
        for name, site in sites.items():
            self._names(site)
            known = site.knowledge
            for number, each in known.generations.items():
                if number:
                    state[f"generation/{name}/{number}"] = {
                        "number": number,
                        "rows": sum(
                            number == known.generation_of(row.change)
                            for rows in known.metadata.values()
                            for row in rows.values()
                        ),
                        "upto": each.upto,
                    }
            for artid, rows in known.metadata.items():
                table = self._merging.table_of(artid)
                for rowguid, row in rows.items():
                    key = self._keys.get(rowguid, str(rowguid))
                    lineage = row.version.lineage
                    state[f"metadata/{name}/{table}/{key}"] = {
                        "lineage": {
                            replicas.get(replica, str(replica)): version
                            for replica, version in sorted(lineage.items())
                        },
                        "writer": replicas.get(row.writer, str(row.writer)),
                        "gone": row.version.gone,
                    }
            for other, peer in known.neighbours.items():
                state[f"neighbour/{name}/{other}"] = {
                    "sent": peer.sent,
                    "received": peer.received.number if peer.received is not None else 0,
                    "coming": peer.coming.number if peer.coming is not None else None,
                }

    def _names(self, site: MergeSite) -> None:
        for artid, table in site.tables.items():
            for row in table.rows():
                rowguid = site.rowguid(artid, row)
                if rowguid not in self._keys:
                    self._keys[rowguid] = ", ".join(
                        f"{name}={table.columns[table.at[name]].type.text(row[table.at[name]])}"
                        for name in table.key
                    )
