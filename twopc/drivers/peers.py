"""Queries of the other branches of a transaction for their outcomes, where the decision log has no record.

This module must not depend on how the answers are used.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import psycopg

from twopc.drivers.ports import ParticipantPort
from twopc.log import get_logger
from twopc.names import BranchId, branch_gid, further_branch
from twopc.protocol.effects import Outcome

_log = get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Peers:
    """Answers of the peers."""

    ended: Mapping[str, Outcome]
    """Known outcomes of branches, by name. A branch that committed without the inquiring one counts as ABORTED."""
    missing: frozenset[str]
    """Nodes that could not answer."""


async def ask(
    participants: Mapping[str, ParticipantPort], publisher: str, branch: BranchId, *, fence: bool
) -> Peers:
    """Return the outcomes of the other branches of `branch`'s transaction.

    Args:
        participants: all nodes that may have a branch.
        publisher: the Publisher's name.
        branch: the inquiring branch.
        fence: with a last agent: whether to prevent a branch that has not ended from ever being prepared.
    """
    global_text = str(branch.global_id)
    ended: dict[str, Outcome] = {}
    missing: set[str] = set()
    for node, names in _others([*participants], publisher, branch, agent=fence).items():
        participant = participants[node]
        gids = {branch_gid(global_text, name): name for name in names}
        try:
            if fence:
                for gid, name in gids.items():
                    result = await participant.fence(gid, [branch.branch])
                    if result is not None:
                        ended[name] = result
                    else:
                        missing.add(node)
            else:
                for gid, is_fence in (await participant.markers([*gids])).items():
                    ended[gids[gid]] = Outcome.ABORTED if is_fence else Outcome.COMMITTED
            for gid, name in gids.items():
                if ended.get(name) is Outcome.COMMITTED and not await _includes(
                    participant, gid, branch
                ):
                    ended[name] = Outcome.ABORTED
        except psycopg.Error as error:
            missing.add(node)
            unreachable(node, error)
    return Peers(ended=ended, missing=frozenset(missing))


async def _includes(participant: ParticipantPort, gid: str, branch: BranchId) -> bool:
    """Return whether a committed branch included `branch` in its transaction: the outcome of a branch that
    committed alone does not apply to others.
    """
    sites = (await participant.committed(gid, "", 1)).get(gid)
    return sites is None or branch.branch in sites


def _others(
    nodes: list[str], publisher: str, branch: BranchId, *, agent: bool
) -> dict[str, list[str]]:
    """Return the other branches that a transaction may have, by node: a gid does not name them.

    With a last agent there is one Subscriber; otherwise there may be several, and a branch at the Publisher for
    each.
    """
    others = {name: [name] for name in nodes}
    if agent and branch.branch != publisher:
        others = {publisher: [publisher]}
    elif not agent:
        others[publisher] += [further_branch(publisher, one) for one in nodes if one != publisher]
    return {
        node: left
        for node, names in others.items()
        if (left := [name for name in names if name != branch.branch])
    }


def unreachable(node: str, error: psycopg.Error) -> None:
    """Log that a node could not be reached; the next pass tries again."""
    reason = " ".join(str(error).split())
    _log.warning("recovery cannot reach a node", node=node, reason=reason)
