"""For how long branches are prepared and do not know the outcome: what locks are held for when something fails."""

from __future__ import annotations

from collections.abc import Callable

from twopc.protocol.effects import Effect
from twopc.protocol.events import BranchAborted, BranchCommitted, Event, VotedYes


class BranchTimes:
    """Sees a coordinator's machines, and times each branch from its vote to its end as the coordinator knows it.

    A branch that somebody else ends, because this coordinator died or lost the connection, is not timed.

    Args:
        time: seconds of a clock that only goes forward.
        ended: is told for how long each has been prepared.
    """

    def __init__(self, time: Callable[[], float], ended: Callable[[float], None]) -> None:
        self._time = time
        self._ended = ended
        self._since: dict[tuple[str, str], float] = {}

    def __call__(self, gid: str, what: Effect | Event) -> None:
        if isinstance(what, VotedYes):
            self._since[gid, what.participant] = self._time()
        elif isinstance(what, BranchCommitted | BranchAborted):
            since_s = self._since.pop((gid, what.participant), None)
            if since_s is not None:
                self._ended(self._time() - since_s)
