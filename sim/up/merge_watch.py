"""Figures of one moment for a running topology of merge replication."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from twopc.drivers.merge.status import WAITING
from twopc.merge.decision import ConflictType
from twopc.sim.merge.conflict_texts import kind_words

#: End of the last session with each neighbour, and number of rows that wait for the next one.
NEIGHBOURS = f"""
select s.subscriber_server, s.is_publisher, s.last_sync_date, {WAITING}
from msrepl.sysmergesubscriptions as s where s.login is not null order by 1
"""  # noqa: S608 -- two constants
#: The conflicts recorded last at the Publisher.
CONFLICTS = """
select to_char(c.msrepl_create_time, 'HH24:MI:SS'), c.origin_datasource, c.winner, c.conflict_type, a.source_object
from msrepl.msmerge_conflicts_info as c join msrepl.sysmergearticles as a on a.nickname = c.tablenick
order by c.msrepl_create_time desc limit %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchedMerge:
    """A subscription of merge replication."""

    subscriber: str
    publisher: str
    last_session: datetime | None
    """End of the last complete session."""
    rows_up: int | None
    """Number of changed rows at the Subscriber that wait for the next session; None: the Subscriber does not
    answer.
    """
    rows_down: int
    """Number of changed rows at the Publisher that wait for the next session."""


def merges_of(answers: dict[str, Sequence[tuple[Any, ...]]]) -> tuple[WatchedMerge, ...]:
    """Return the subscriptions, from the nodes' records of their neighbours."""
    results = []
    for node, neighbours in answers.items():
        for name, is_publisher, ended, rows_down in neighbours:
            if is_publisher:
                continue
            above = next(
                (each for each in answers.get(name, ()) if each[0] == node and each[1]), None
            )
            times = [ended, *([above[2]] if above is not None else [])]
            results.append(
                WatchedMerge(
                    subscriber=name,
                    publisher=node,
                    last_session=max((each for each in times if each is not None), default=None),
                    rows_up=above[3] if above is not None else None,
                    rows_down=rows_down,
                )
            )
    return tuple(sorted(results, key=lambda each: each.subscriber))


def conflict_text(winner: str | None, kind: int, table: str) -> tuple[str, str]:
    """Return the kind and the text of a conflict, as one line."""
    return kind_words(
        ConflictType(kind)
    ), f"{table}: {f'{winner} has won' if winner else 'could not be written'}"
