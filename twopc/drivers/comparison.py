"""Comparison of committed branches: which were committed at the Publisher alone, or at a Subscriber alone.

Markers are the evidence. This module reads and fences; it records nothing, and must not depend on the decision log.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping

from twopc.drivers.ports import Key, ParticipantPort
from twopc.names import BranchId, branch_gid, further_branch, node_of
from twopc.protocol.effects import Outcome

_BATCH_ROWS = 10000


class Comparison:
    """Compares the nodes of a topology. Every method may raise `psycopg.Error`.

    Args:
        participants: all participants, by name.
        publisher: the Publisher's name.
    """

    def __init__(self, participants: Mapping[str, ParticipantPort], publisher: str) -> None:
        self._participants = participants
        self._publisher = publisher

    async def splits(
        self, prefix: str, known: Collection[Key], *, agent_decides: bool
    ) -> AsyncIterator[tuple[str, Outcome]]:
        """Yield branches that ended against the decision, each with its outcome.

        Without a record in the decision log, the Subscriber's commit is the decision if it is the last agent;
        otherwise the transaction was to be rolled back.

        Args:
            prefix: beginning of the gids.
            known: transactions that are left out.
            agent_decides: whether the Subscriber is the last agent.
        """
        async for gid in self._at_publisher_alone(prefix, known):
            yield gid, Outcome.COMMITTED
        for name in sorted(self._participants.keys() - {self._publisher}):
            async for branches in self._committed(self._participants[name], prefix, known):
                publisher_of = {
                    gid: _sibling(gid, sites[0])
                    for gid, sites in branches.items()
                    if sites and node_of(sites[0]) == self._publisher
                }
                for gid in await self.subscriber_alone(name, publisher_of):
                    if agent_decides:
                        yield publisher_of[gid], Outcome.ABORTED
                    else:
                        yield gid, Outcome.COMMITTED

    async def subscriber_alone(self, name: str, publisher_of: Mapping[str, str]) -> list[str]:
        """Return those of a Subscriber's committed branches whose branch at the Publisher, given for each, did not
        commit and never will.
        """
        markers = await self._participants[self._publisher].markers([*publisher_of.values()])
        alone = [gid for gid, there in publisher_of.items() if markers.get(there, True)]
        # read after the Publisher's markers, which are removed only after these are released
        unreleased = await self._participants[name].unreleased(alone) if alone else []
        return [gid for gid in unreleased if await self._is_aborted(publisher_of[gid])]

    async def release(self, prefix: str) -> None:
        """Let the Publisher's markers be removed; see `twopc.drivers.marker_retention`."""
        for name in sorted(self._participants.keys() - {self._publisher}):
            subscriber = self._participants[name]
            async for branches in self._committed(subscriber, prefix, ()):
                await subscriber.release([*branches])

    async def _at_publisher_alone(self, prefix: str, known: Collection[Key]) -> AsyncIterator[str]:
        publisher = self._participants[self._publisher]
        async for branches in self._committed(publisher, prefix, known):
            asked: dict[str, dict[str, str]] = {}
            for gid, sites in branches.items():
                for site in self._partners(gid, sites):
                    asked.setdefault(site, {})[_sibling(gid, site)] = gid
            for node, gids in asked.items():
                markers = await self._participants[node].markers([*gids])
                alone = {there: gid for there, gid in gids.items() if markers.get(there, True)}
                # markers that are removed meanwhile are removed at the Publisher first
                still = await publisher.markers([*alone.values()]) if alone else {}
                for there, gid in alone.items():
                    # a client's transaction may still be open: its outcome is not known before the fence
                    if gid in still and await self._is_aborted(there):
                        yield gid

    def _partners(self, gid: str, sites: Collection[str]) -> list[str]:
        """Return the Subscriber that has changed rows together with a branch at the Publisher, if it is a node. The
        other Subscribers of its transaction may have read only, and then have no marker.
        """
        partners = []
        for site in self._participants.keys() & {*sites} - {self._publisher}:
            further = further_branch(self._publisher, site)
            if gid == _sibling(gid, further if further in sites else self._publisher):
                partners.append(site)
        return partners

    async def _committed(
        self, participant: ParticipantPort, prefix: str, known: Collection[Key]
    ) -> AsyncIterator[dict[str, list[str]]]:
        """Yield committed branches with the sites that their markers name, in batches."""
        after = ""
        while result := await participant.committed(prefix, after, _BATCH_ROWS):
            *_, after = result
            yield {gid: sites for gid, sites in result.items() if _is_unknown(gid, known)}

    async def _is_aborted(self, gid: str) -> bool:
        """Return whether a branch did not commit and never will."""
        node = node_of(gid.rpartition(":")[2])
        return await self._participants[node].fence(gid, []) is Outcome.ABORTED


def _is_unknown(gid: str, known: Collection[Key]) -> bool:
    branch = BranchId.parse(gid)
    return branch is not None and ((branch.global_id.epoch, branch.global_id.sequence) not in known)


def _sibling(gid: str, site: str) -> str:
    """Return the branch that the global transaction of a branch has at another site."""
    return branch_gid(gid.rpartition(":")[0], site)
