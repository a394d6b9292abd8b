"""The record of branches that were finished without waiting for the decision.

This module only writes records, and decides nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

from twopc.drivers.database import Database
from twopc.log import get_logger
from twopc.protocol.effects import Outcome

_log = get_logger(__name__)

_RECORD = """
insert into msrepl.heuristic_outcome (gid, node, outcome, decided, forced, damage, reason)
values (%s, %s, %s, %s, %s, %s, %s)
on conflict (gid, outcome, forced) do nothing
"""
_READ = """
select gid, node, outcome, decided, forced, damage, reason, recorded_by,
       extract(epoch from recorded_at)::float8
from msrepl.heuristic_outcome
where starts_with(gid, %s)
order by id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Heuristic:
    """One record of a heuristic outcome."""

    gid: str
    node: str
    outcome: str
    decided: str | None
    """The coordinator's decision; None if there was none."""
    forced: bool
    """Whether the branch was finished through this package, and recorded before; if not, it was finished manually
    and found later.
    """
    damage: bool
    """Whether the nodes differ because of the outcome."""
    reason: str
    recorded_by: str
    recorded_at: float
    """Seconds since 1970, by the server's clock."""


async def record_found(
    database: Database, *, gid: str, node: str, outcome: Outcome, decided: Outcome | None
) -> None:
    """Record that a branch ended against the decision, or without one. A warning is logged in any case.

    Raises:
        psycopg.Error: it is not recorded.
    """
    text = f"decided: {decided}" if decided is not None else "nothing was decided"
    reason = f"{text}; found {outcome}: it was finished by hand"
    _log.warning("heuristic outcome", gid=gid, node=node, outcome=str(outcome), reason=reason)
    damage = decided is not None and decided is not outcome
    await database.fetch(_RECORD, (gid, node, outcome, decided, False, damage, reason))


async def forced(
    database: Database,
    *,
    gid: str,
    node: str,
    outcome: Outcome,
    decided: Outcome | None,
    reason: str,
) -> None:
    """Record that a branch is about to be finished at an operator's request.

    Raises:
        psycopg.Error: the request is not recorded, and must not be executed.
    """
    damage = decided is not None and decided is not outcome
    await database.fetch(_RECORD, (gid, node, outcome, decided, True, damage, reason))


async def read(database: Database, prefix: str) -> list[Heuristic]:
    """Return the records whose gid starts with `prefix`, oldest first."""
    rows = await database.fetch(_READ, (prefix,))
    names = tuple(Heuristic.__slots__)
    return [Heuristic(**dict(zip(names, row, strict=True))) for row in rows]
