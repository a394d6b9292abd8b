"""Objects shared by the transactions of one coordinator, and the slow path that settles a branch."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from twopc.drivers import votes
from twopc.drivers.log_client import LogClient
from twopc.drivers.points import Points
from twopc.drivers.ports import FinishersPort, SitePort
from twopc.drivers.runtime import Asyncio, Runtime
from twopc.drivers.sessions import LinkedSession
from twopc.log import get_logger
from twopc.names import branch_gid, node_of
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import Outcome

_log = get_logger(__name__)
_RETRY_S: Final = 0.05


@dataclass(slots=True, kw_only=True)
class Hub:
    """Objects shared by all transactions of a coordinator; the same on servers and in the model."""

    publisher: str
    participants: Mapping[str, SitePort]
    log: LogClient[Any]
    finishers: FinishersPort
    points: Points
    damage: Callable[..., Coroutine[Any, Any, None]]
    """Records that a branch ended against the decision: `gid`, `node`, `outcome`, `decided`."""
    in_doubt_after_s: float
    """Time for which a lost answer is looked for before the application gets `InDoubtError`."""
    owners: dict[str, str] = field(default_factory=dict)
    """For each Subscriber the role with which its link prepares branches, as seen at the Publisher."""
    observe: Callable[[str, x.Effect | e.Event], None] | None = None
    """Called with every effect before it is performed, and with every event."""
    runtime: Runtime = field(default_factory=Asyncio)


async def pause(hub: Hub, until: float) -> bool:
    """Wait briefly before a retry; return False if `until` has passed, by the runtime's clock."""
    runtime = hub.runtime
    if runtime.time() > until:
        return False
    await runtime.unbroken(runtime.sleep(_RETRY_S))
    return True


async def settle(
    hub: Hub, session: LinkedSession, gid: str, name: str, names: tuple[str, ...], outcome: Outcome
) -> e.Event:
    """Bring a branch to an outcome, and return its outcome or `AckLost` as an event.

    Args:
        hub: the coordinator's hub.
        session: the transaction's session, which may be lost.
        gid: id of the global transaction.
        name: name of the branch.
        names: names of all branches.
        outcome: COMMITTED or ABORTED.
    """
    branch, node = branch_gid(gid, name), node_of(name)
    participant = hub.participants[node]
    try:
        if session.lean.lost and outcome is Outcome.ABORTED:
            # Ends a statement that is still running, which would delay the settlement; a fence is effective
            # without this.
            with suppress(psycopg.Error):
                await hub.participants[session.subscriber].end_session(session.pid, session.started)
            if node == hub.publisher:
                await participant.end_links(session.subscriber, [session.pid])
        if node == hub.publisher and session.subscriber not in hub.owners:
            owner = await participant.owner_of(branch)
            if owner is not None:
                hub.owners[session.subscriber] = owner
        result = await participant.settle(branch, outcome, [n for n in names if n != name])
    except psycopg.Error as error:
        _log.warning("branch not settled yet", gid=branch, outcome=str(outcome), reason=str(error))
        return e.AckLost(participant=name)
    return votes.committed(name) if result is Outcome.COMMITTED else votes.aborted(name)
