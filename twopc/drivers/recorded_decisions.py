"""The decision log as recovery reads and cleans it, in the distribution database.

This module makes no decisions; a live coordinator writes by `decision_log`.
"""

from __future__ import annotations

from collections.abc import Sequence

from twopc.drivers import heuristics
from twopc.drivers.database import Database
from twopc.drivers.ports import Key, KnownEpoch
from twopc.protocol.effects import Outcome, Record, RecordKind, record_of

_FENCE = "select epoch, variant, fenced_s from msrepl.fence_epochs(%s, %s)"
_EPOCHS = "select epoch, variant from msrepl.coordinator_epoch where coordinator = %s"
#: A pass reads a limited number of decisions of dead epochs, but all that are requested by key: a decision that is
#: not found is taken as not made.
_DECISIONS = """
select epoch, sequence, kind, participants
from msrepl.decision
where cardinality(participants) > 0
  and (epoch, sequence) in (select * from unnest(%s::bigint[], %s::bigint[]))
union
(select epoch, sequence, kind, participants
from msrepl.decision
where cardinality(participants) > 0 and epoch = any(%s)
order by epoch, sequence
limit 10000)
order by epoch, sequence
"""
_CLOSED = (
    "select epoch, sequence from msrepl.decision where epoch = %s and cardinality(participants) = 0"
)
_FORGET = "delete from msrepl.decision where (epoch, sequence) = (%s, %s)"
_CLOSE = "update msrepl.decision set participants = '{}' where (epoch, sequence) = (%s, %s)"
_FORGET_EPOCH = """
with gone as (delete from msrepl.decision where epoch = %(epoch)s and cardinality(participants) = 0)
delete from msrepl.coordinator_epoch as e
where e.epoch = %(epoch)s
  and not exists (
      select from msrepl.decision as d where d.epoch = %(epoch)s and cardinality(d.participants) > 0)
"""


class DecisionReader:
    """Recorded decisions; implements `twopc.drivers.ports.DecisionsPort`.

    Args:
        database: the distribution database, which `close` closes.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def fence(self, coordinator: str, own: Sequence[int]) -> list[KnownEpoch]:
        """Fence the epochs of dead processes, and return all fenced epochs, including those fenced before."""
        rows = await self._database.fetch(_FENCE, (coordinator, [*own]))
        return [
            KnownEpoch(epoch=epoch, variant=variant, fenced_s=fenced_s or 0.0)
            for epoch, variant, fenced_s in rows
        ]

    async def epochs(self, coordinator: str) -> list[KnownEpoch]:
        """Return every epoch of a coordinator in the log."""
        rows = await self._database.fetch(_EPOCHS, (coordinator,))
        return [KnownEpoch(epoch=epoch, variant=variant) for epoch, variant in rows]

    async def decisions(self, dead: Sequence[int], keys: Sequence[Key]) -> dict[Key, Record]:
        """Return all decisions about the transactions in `keys`, and a limited number of those of dead epochs,
        unless no further message is needed.
        """
        rows = await self._database.fetch(
            _DECISIONS, ([epoch for epoch, _ in keys], [number for _, number in keys], [*dead])
        )
        return {
            (epoch, sequence): record_of(RecordKind(kind), tuple(participants))
            for epoch, sequence, kind, participants in rows
        }

    async def closed(self, epoch: int) -> set[Key]:
        """Return the transactions of an epoch that `close_decision` has marked."""
        rows = await self._database.fetch(_CLOSED, (epoch,))
        return {(epoch, sequence) for epoch, sequence in rows}

    async def forget(self, key: Key) -> None:
        """Delete the record of a transaction whose branches are all settled."""
        await self._database.fetch(_FORGET, key)

    async def close_decision(self, key: Key) -> None:
        """Mark a decision as needing no further messages; the record stays as evidence."""
        await self._database.fetch(_CLOSE, key)

    async def forget_epoch(self, epoch: int) -> None:
        """Remove an epoch, unless one of its decisions still needs messages."""
        await self._database.fetch(_FORGET_EPOCH, {"epoch": epoch})

    async def damage(
        self, *, gid: str, node: str, outcome: Outcome, decided: Outcome | None
    ) -> None:
        """Record that a branch ended against the decision."""
        await heuristics.record_found(
            self._database, gid=gid, node=node, outcome=outcome, decided=decided
        )

    async def close(self) -> None:
        """Close the connection; idempotent."""
        await self._database.close()
