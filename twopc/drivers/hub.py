"""What the transactions of one coordinator share, and the slow way to settle a branch of theirs."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import psycopg

from twopc.drivers import votes
from twopc.drivers.points import Points
from twopc.drivers.ports import FinishersPort, LogPort, SitePort
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
    """Shared by all transactions of a coordinator; the same whether its parts are real or the model's."""

    publisher: str
    participants: Mapping[str, SitePort]
    log: LogPort
    finishers: FinishersPort
    points: Points
    damage: Callable[..., Coroutine[Any, Any, None]]
    """Records that a branch ended otherwise than decided: `gid`, `node`, `outcome`, `decided`."""
    in_doubt_after_s: float
    """How long to look for an answer that was lost before the application is told so."""
    owners: dict[str, str] = field(default_factory=dict)
    """The role that a Subscriber's link prepares branches under, as seen at the Publisher."""
    observe: Callable[[str, x.Effect | e.Event], None] | None = None
    """Sees every effect before it is performed, and every event."""
    runtime: Runtime = field(default_factory=Asyncio)


async def pause(hub: Hub, until: float) -> bool:
    """Wait a little, since no server tells when it is back; False if it is too late to, by the runtime's clock."""
    runtime = hub.runtime
    if runtime.time() > until:
        return False
    await runtime.unbroken(runtime.sleep(_RETRY_S))
    return True


async def settle(
    hub: Hub, session: LinkedSession, gid: str, name: str, names: tuple[str, ...], outcome: Outcome
) -> e.Event:
    """Bring a branch to an outcome; ends in a fact or in `AckLost`.

    Args:
        hub: of the coordinator.
        session: the transaction's, perhaps lost.
        gid: of the global transaction.
        name: the branch.
        names: all branches.
        outcome: COMMITTED or ABORTED.
    """
    branch, node = branch_gid(gid, name), node_of(name)
    participant = hub.participants[node]
    try:
        if session.lean.lost and outcome is Outcome.ABORTED:
            # What is still running there would only make us wait; a fence holds without this.
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
