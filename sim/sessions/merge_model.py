"""Sessions at a node of merge replication in the model: local transactions, and sessions of the Merge Agent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import psycopg

from twopc.errors import RejectedError
from twopc.sim.model.clients import PublisherClient
from twopc.sim.model.merge.merge_nodes import ModelMerging
from twopc.sim.model.values import SqlError
from twopc.sim.sessions.interface import ClientSession
from twopc.sim.sessions.merge import Around, merge_sessions
from twopc.sim.sessions.model import CoordinatedSession, SessionPlace


class MergeVirtualSession(CoordinatedSession):
    """A session of an application at any node."""

    def __init__(
        self, place: SessionPlace, name: str, node: str, merging: ModelMerging, around: Around
    ) -> None:
        model = place.model
        super().__init__(
            place, name, node, client=PublisherClient(name, model.nodes[node], model.network)
        )
        self._merging = merging
        self._around = around

    async def syncing(self) -> list[tuple[str, int]]:
        """Return node and PID of both ends of each merge session at work for this session."""
        return [
            (end.name, end.pid)
            for name in self.synced
            for end in self._merging.ends.get(name, ())
            if end.pid
        ]

    async def sync(self, subscribers: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        every, merging = self._model.subscribers, self._merging
        publisher_of = merging.publishers.__getitem__
        return await merge_sessions(
            self, subscribers, every, merging.sync, publisher_of, self._around
        )

    async def reinitialise(self) -> None:
        try:
            await self._merging.reinitialise(self.node)
        except psycopg.Error as error:  # the agent's process has died
            raise RejectedError(
                f"{self.node}: its initialisation was cut off: {error}: `reinitialise` it again, and it goes on at the "
                "next file",
                node=self.node,
                sqlstate="08006",
            ) from error
        except SqlError as error:  # a row of the Publisher violates a constraint
            raise RejectedError(
                f"{self.node}: its initialisation failed: {error}",
                node=self.node,
                sqlstate=error.sqlstate,
            ) from error

    # subscriptions last as long as the order
    subscribe = ClientSession.subscribe
    unsubscribe = ClientSession.unsubscribe
