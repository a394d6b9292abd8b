"""Progress of log readers and agents that run in other processes.

Nothing in this module delivers.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection

from twopc.errors import DeliveryError
from twopc.lsn import lsn_value
from twopc.publisher import slot
from twopc.publisher.posted_messages import post_message, stored_message
from twopc.sim.topology.registration import Registration
from twopc.sim.topology.wiring import TopologyWiring

#: The last transaction that is stored completely.
_READ_TO = """
select coalesce(max(b.last_seqno), '0/0') from msrepl.mspublisher_databases d
join msrepl.msrepl_blocks b on b.publisher_database_id = d.id and b.last_seqno is distinct from d.open_seqno
where d.publisher = %s
"""
#: Any session can set an application name, so it counts only for roles that may deliver.
_ATTENDED = """
select exists (select from pg_stat_activity
               where datname = current_database() and application_name = %s
                 and has_table_privilege(usesysid, to_regclass('msrepl.msreplication_subscriptions'), 'update'))
"""
#: Interval at which other processes are polled.
LOOK_EVERY_S = 0.01
#: How long another process may make no progress while this process waits for it.
STILL_S = 60.0


class _ProgressCheck:
    """Checks that another process makes progress."""

    def __init__(self, who: str) -> None:
        self._name = who
        self._loop = asyncio.get_running_loop()
        self._seen: str | None = None
        self._since = self._loop.time()

    async def look(self, position: str | None) -> None:
        """Wait one polling interval. Raise DeliveryError if the position has not changed for too long."""
        now = self._loop.time()
        if position != self._seen:
            self._seen, self._since = position, now
        elif now - self._since > STILL_S:
            raise DeliveryError(
                f"{self._name} runs in another process and does not get on: `twopc status` says more; stop it, and "
                "try again"
            )
        await asyncio.sleep(LOOK_EVERY_S)


class OtherProcesses:
    """The log reader and the agents that run in other processes."""

    def __init__(self, wiring: TopologyWiring, registration: Registration) -> None:
        self._wiring = wiring
        self._registration = registration

    async def have_read(self, own: Collection[int]) -> bool:
        """Whether another process's log reader has stored what was committed before the call.

        Args:
            own: backends of this process's log reader, which may hold the slot after the log reader was closed.
        """
        here = await self._wiring.at_publisher()
        distribution = await self._wiring.at_distribution()
        name, token, still = await self._registration.slot(), None, _ProgressCheck("the log reader")
        while (state := await slot.look(here, name)) is not None and (
            state.active and state.active_pid not in own
        ):
            token = token or await post_message(here, "tracer_token", {})
            if await stored_message(distribution, self._wiring.publisher, token) is not None:
                return True
            await still.look(state.confirmed_flush)
        return False

    async def have_delivered(self, subscriber: str) -> bool:
        """Whether another process's agent has delivered what was stored before the call."""
        seqno, still = "", _ProgressCheck(f"the agent of {subscriber!r}")
        while await self._is_attended(subscriber):
            rows = await self._wiring.execute(
                self._wiring.distribution, _READ_TO, (self._wiring.publisher,)
            )
            seqno = seqno or str(rows[0][0])
            position = await self._registration.position(subscriber)
            if lsn_value(position) >= lsn_value(seqno):
                return True
            await still.look(position)
        return False

    async def _is_attended(self, subscriber: str) -> bool:
        """Whether an agent has a session at a Subscriber."""
        name = f"msrepl agent for {self._wiring.publisher}"
        return bool((await self._wiring.execute(subscriber, _ATTENDED, (name,)))[0][0])
