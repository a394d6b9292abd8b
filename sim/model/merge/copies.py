"""Initial copies between nodes that merge in memory."""

from __future__ import annotations

from dataclasses import replace

from twopc.sim.model.merge.node import ModelMergeNode, drawn
from twopc.sim.model.merge.records import ModelNeighbour


def initialise(node: ModelMergeNode, publisher: str, above: ModelMergeNode) -> None:
    """Have a node begin anew as a Subscriber: with the Publisher's rows, and what is known of them, in one generation.

    Whatever the node has is gone; it is another replica from now on.

    Args:
        publisher: the Publisher's name.
        above: the Publisher.
    """
    begun = above.close()
    node.replica, node.former, node.change = next(drawn), (), 1
    node.rows = {artid: dict(rows) for artid, rows in above.rows.items()}
    node.metadata = {
        artid: {
            rowguid: replace(row, change=1, source=above.replica) for rowguid, row in rows.items()
        }
        for artid, rows in above.metadata.items()
    }
    node.generations, node.cleaned, node.floors = {}, 0, dict(above.floors)
    node.add_generation(0, 0)
    node.neighbours = {
        publisher: ModelNeighbour(
            replica=above.replica, is_publisher=True, received=begun, former=above.former
        )
    }
    above.neighbours[node.name] = replace(
        above.neighbours[node.name],
        replica=node.replica,
        former=(),
        sent=begun.number,
        received=None,
        coming=None,
        behind=(),
        last_session_s=node.clock(),
    )
