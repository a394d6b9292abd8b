"""Sessions at a node of merge replication: local transactions, and sessions of the Merge Agent."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import asdict
from typing import Any

from twopc.drivers.merge.engine import MergeReport
from twopc.errors import MergeError, RejectedError, SubscriptionError
from twopc.sim.merge import MergeTopology
from twopc.sim.sessions.interface import NOT_SUBSCRIBED, ClientSession, SyncError
from twopc.sim.sessions.local import LocalSession, Refusal
from twopc.sim.sessions.waits import Observer

Around = Callable[[str], AbstractAsyncContextManager[Any]]
"""Returns a context manager that is entered for each session of the Merge Agent, given its Subscriber."""


async def merge_sessions(
    session: ClientSession,
    subscribers: Sequence[str],
    every: Sequence[str],
    merge: Callable[[str], Awaitable[MergeReport]],
    publisher_of: Callable[[str], str],
    around: Around,
) -> Sequence[Mapping[str, Any]]:
    """Run a session of the Merge Agent for each of these Subscribers; see `ClientSession.sync`."""
    own = (session.node,) if session.node in every else ()
    reports = []
    for name in subscribers or own or every:
        session.synced = (name,)
        try:
            async with around(name):
                report = await merge(name)
        except MergeError as error:
            raise SyncError(
                str(error), node=error.node, sqlstate=error.sqlstate, number=error.number
            ) from error
        except SubscriptionError as error:
            raise SyncError(str(error), node=name, sqlstate=NOT_SUBSCRIBED) from error
        finally:
            session.synced = ()
        reports.append({"subscriber": name, "publisher": publisher_of(name), **asdict(report)})
    return reports


class MergeLocalSession(LocalSession):
    """A session of an application at one node, in the application's role."""

    _topology: MergeTopology

    def __init__(
        self,
        topology: MergeTopology,
        node: str,
        observer: Observer,
        *,
        refusal: Refusal | None = None,
        around: Around = nullcontext,
    ) -> None:
        """`around` returns the context of each session of the Merge Agent; see the base class for the other
        arguments.
        """
        super().__init__(node, observer, refusal=refusal)
        self._topology = topology
        self._around = around

    async def syncing(self) -> list[tuple[str, int]]:
        """Return node and PID of both ends of each merge session at work for this session."""
        results = []
        for name in self.synced:
            results += await self._topology.agent_processes(name)
        return results

    async def sync(self, subscribers: Sequence[str]) -> Sequence[Mapping[str, Any]]:
        topology = self._topology
        every, publisher_of = topology.subscribers, topology.tree.publisher_of
        return await merge_sessions(
            self, subscribers, every, topology.sync, publisher_of, self._around
        )

    async def reinitialise(self) -> None:
        try:
            await self._topology.reinitialise(self.node)
        except MergeError as error:
            raise RejectedError(
                str(error), node=self.node, sqlstate=error.sqlstate or NOT_SUBSCRIBED
            ) from error
        except SubscriptionError as error:
            raise RejectedError(str(error), node=self.node, sqlstate=NOT_SUBSCRIBED) from error
