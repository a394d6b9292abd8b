"""The decision log as recovery reads it, and clears it away: in the distribution database.

Nothing is decided here; `decision_log` is where a live coordinator writes.
"""

from __future__ import annotations

from collections.abc import Sequence

from twopc.drivers import heuristics
from twopc.drivers.database import Database
from twopc.drivers.ports import Key, KnownEpoch
from twopc.protocol.effects import Outcome, Record, RecordKind, record_of

_FENCE = "select epoch, variant, fenced_s from msrepl.fence_epochs(%s, %s)"
_EPOCHS = "select epoch, variant from msrepl.coordinator_epoch where coordinator = %s"
#: A pass takes up so many at most, but all that are asked for: what is not found is taken for undecided.
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
    """What was decided, as `twopc.drivers.ports.DecisionsPort` asks for it.

    Args:
        database: the distribution database; closed with this.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def fence(self, coordinator: str, own: Sequence[int]) -> list[KnownEpoch]:
        """Take the word from dead processes; all epochs that are fenced, those of before too."""
        rows = await self._database.fetch(_FENCE, (coordinator, [*own]))
        return [
            KnownEpoch(epoch=epoch, variant=variant, fenced_s=fenced_s or 0.0)
            for epoch, variant, fenced_s in rows
        ]

    async def epochs(self, coordinator: str) -> list[KnownEpoch]:
        """Every epoch of a coordinator that the log knows."""
        rows = await self._database.fetch(_EPOCHS, (coordinator,))
        return [KnownEpoch(epoch=epoch, variant=variant) for epoch, variant in rows]

    async def decisions(self, dead: Sequence[int], keys: Sequence[Key]) -> dict[Key, Record]:
        """The records of these transactions, and of dead epochs, many of them at a time: as far as somebody is to be
        told."""
        rows = await self._database.fetch(
            _DECISIONS, ([epoch for epoch, _ in keys], [number for _, number in keys], [*dead])
        )
        return {
            (epoch, sequence): record_of(RecordKind(kind), tuple(participants))
            for epoch, sequence, kind, participants in rows
        }

    async def forget(self, key: Key) -> None:
        """Everybody knows."""
        await self._database.fetch(_FORGET, key)

    async def close_decision(self, key: Key) -> None:
        """Nobody is to be told any more; the record stays as evidence."""
        await self._database.fetch(_CLOSE, key)

    async def forget_epoch(self, epoch: int) -> None:
        """Remove an epoch, unless somebody of it is still to be told something."""
        await self._database.fetch(_FORGET_EPOCH, {"epoch": epoch})

    async def damage(
        self, *, gid: str, node: str, outcome: Outcome, decided: Outcome | None
    ) -> None:
        """Record that a branch ended otherwise than decided."""
        await heuristics.record_found(
            self._database, gid=gid, node=node, outcome=outcome, decided=decided
        )

    async def close(self) -> None:
        """Close the connection; idempotent."""
        await self._database.close()
