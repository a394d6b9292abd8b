"""A load that was recorded, played again: the same transactions of the same sessions, when they were to begin.

Under what they are played may be another world: other delays, other Subscribers, agents that look less often. A
session begins a transaction no earlier than it was recorded, and when its last one is over.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from typing import Any

from twopc.sim.workload.load import AT_ONCE_MAX, Load
from twopc.sim.workload.words import Client, Deed


@dataclass(frozen=True, slots=True, kw_only=True)
class Recorded:
    """One transaction of a recording, all its attempts together."""

    session: str
    node: str
    begin_s: float
    """When it was to begin, after the load did."""
    deed: Deed


@dataclass(frozen=True, slots=True, kw_only=True)
class Recording:
    """What is played instead of what a workload would draw."""

    transactions: Sequence[Recorded]
    """By their number."""
    speed: float = 1.0
    """Times the recorded pace."""

    def spread(self, subscribers: Sequence[str], publisher: str) -> Recording:
        """The same with other Subscribers: sessions take turns among them; those of the Publisher stay."""
        taken: dict[str, str] = {}
        for each in self.transactions:
            if each.node != publisher and each.session not in taken:
                taken[each.session] = subscribers[len(taken) % len(subscribers)]
        return replace(
            self,
            transactions=[
                replace(each, node=taken.get(each.session, each.node)) for each in self.transactions
            ],
        )

    @classmethod
    def of(cls, calls: Sequence[Mapping[str, Any]], *, speed: float = 1.0) -> Recording:
        """From the statements of a load.

        Args:
            calls: with `tx`, `session`, `node`, `step`, `due_us`, and `statements`: pairs of SQL
                and parameters.
        """
        return cls(
            speed=speed,
            transactions=[
                Recorded(
                    session=each["session"],
                    node=each["node"],
                    begin_s=each["due_us"] / 1e6,
                    deed=Deed(
                        number=each["tx"], name=each["step"], statements=tuple(each["statements"])
                    ),
                )
                for each in sorted(calls, key=lambda each: int(each["tx"]))
            ],
        )


_PLAYED: ContextVar[Recording | None] = ContextVar("recording", default=None)


@contextmanager
def replaying(recording: Recording) -> Iterator[None]:
    """Within the block every load that is played plays this."""
    token = _PLAYED.set(recording)
    try:
        yield
    finally:
        _PLAYED.reset(token)


def recording() -> Recording | None:
    """What is to be played instead of a load's own transactions."""
    return _PLAYED.get()


class RecordedLoad(Load):
    """See `twopc.sim.workload.load.Load`; what begins, when, and where comes from a recording."""

    def __init__(self, recording: Recording, *arguments: Any, **keywords: Any) -> None:
        super().__init__(*arguments, **keywords)
        self._recording = recording

    def _length_s(self) -> float:
        last_s = max((each.begin_s for each in self._recording.transactions), default=0.0)
        return max(super()._length_s(), last_s / self._recording.speed)

    def _is_timed(self) -> bool:
        """Elsewhere the same transactions may take longer than they did."""
        return False

    async def _begin(self) -> None:
        sessions: dict[str, list[Recorded]] = {}
        for each in self._recording.transactions:
            sessions.setdefault(each.session, []).append(each)
        # of a load at a rate each transaction is a session: those share connections
        clients = {
            name: await self._connect(name, found[0].node)
            for name, found in (sessions.items() if len(sessions) <= AT_ONCE_MAX else ())
        }
        self._began_s = self._bench.time()
        self._busy = len(sessions)
        self._is_over = not sessions
        for name, found in sessions.items():
            self._bench.spawn(self._session(name, found, clients.get(name)), name)

    async def _session(self, name: str, found: Sequence[Recorded], client: Client | None) -> None:
        for each in found:
            at_s = each.begin_s / self._recording.speed
            if at_s > self.now():
                await self._bench.sleep(at_s - self.now())
            self.figures.started(at_s)
            free = self._clients.setdefault(each.node, [])
            used = client or (free.pop() if free else await self._connect(name, each.node))
            try:
                await self._carry_out(name, each.node, used, each.deed, at_s)
            finally:
                if client is None:
                    free.append(used)
        self._busy -= 1
        self._is_over = self._busy == 0
