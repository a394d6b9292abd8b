"""Initialising merge nodes in memory."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import replace
from uuid import UUID

from twopc.merge.marks import Generation
from twopc.sim.model.merge.node import ModelMergeNode, drawn
from twopc.sim.model.merge.records import ModelNeighbour


def initialise(
    node: ModelMergeNode,
    publisher: str,
    above: ModelMergeNode,
    kept: ModelMergeNode | None = None,
    *,
    as_of_now: bool = False,
) -> None:
    """Reinitialise a node as a Subscriber, with the Publisher's rows and their metadata, of one generation.

    Of filtered articles, it receives the rows of its partition. The node's previous content is lost, and it becomes
    another replica.

    Args:
        publisher: the Publisher's name.
        above: the Publisher.
        kept: the Publisher at the time of a snapshot, whose rows the node receives.
        as_of_now: whether the node continues from the Publisher's present generation even so.
    """
    live = above
    if kept is None:
        begun = above.close()
    else:
        above, begun = kept, kept.newest.generation
    entered = live.close() if as_of_now else begun
    node.replica, node.former, node.change = next(drawn), (), 1
    parts = _parts(above, above.neighbours[node.name].partition, begun)
    node.rows = {
        artid: {
            guid: row for guid, row in rows.items() if artid not in parts or guid in parts[artid]
        }
        for artid, rows in above.rows.items()
    }
    node.metadata = {
        artid: {
            guid: replace(row, change=1, source=above.replica)
            for guid, row in rows.items()
            if artid not in parts or guid in parts[artid]
        }
        for artid, rows in above.metadata.items()
    }
    node.schema = above.schema
    node.generations, node.cleaned, node.floors = {}, 0, dict(above.floors)
    node.add_generation(0, 0)
    node.neighbours = {
        publisher: ModelNeighbour(
            replica=above.replica, is_publisher=True, received=entered, former=above.former
        )
    }
    live.neighbours[node.name] = replace(
        live.neighbours[node.name],
        replica=node.replica,
        former=(),
        sent=entered.number,
        received=None,
        coming=None,
        behind=(),
        last_session_s=node.clock(),
        ranges_known=True,
    )


def _parts(
    above: ModelMergeNode, partition: int | None, begun: Generation
) -> Mapping[UUID, Set[UUID]]:
    """Return the rows of a partition, for each filtered article; map a new partition first."""
    mappings = above.mappings
    if mappings is None or partition is None:
        return {}
    mappings.begin(above, partition, begun.number)
    return {
        artid: {rowguid for rowguid, number in current if number == partition}
        for artid, current in mappings.current.items()
    }
