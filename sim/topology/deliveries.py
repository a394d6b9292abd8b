"""Reports of the transactions that agents have delivered, suppressed or skipped.

For scenarios and tests: read from the distribution database, between two positions of a Subscriber.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from psycopg import AsyncConnection

from twopc.distributed_article import DistributedArticle, command_words
from twopc.names import BranchId
from twopc.proc_execution import (
    BESIDE,
    CALL_TYPE,
    DEFINITION_TYPE,
    ProcArticle,
    ProcCall,
    base_of,
    call_text,
)

Connection = AsyncConnection[Any]

_COMMANDS = """
select t.xact_seqno::text, t.xact_id::text, coalesce(o.srvname, ''),
       bool_and(s.loopback_detection and s.originator_id = coalesce(c.originator_id, t.originator_id)) is true,
       coalesce((select max(h.error) from msrepl.msdistribution_history h
                 where h.publisher_database_id = s.publisher_database_id and h.subscriber = s.subscriber
                   and h.event = 'skipped' and h.xact_seqno = t.xact_seqno), ''),
       array_agg(c.article_id order by c.command_id), array_agg(c.type order by c.command_id),
       array_agg(c.command order by c.command_id)
from msrepl.transactions_between(%(publisher)s, %(after)s, %(upto)s) t
join msrepl.commands_between(%(publisher)s, %(after)s, %(upto)s) c using (xact_seqno)
join msrepl.mssubscriptions s on s.publisher_database_id = %(publisher)s
    and (s.article_id = c.article_id
         or s.article_id = c.article_id - %(beside)s and c.type not in (%(call)s, %(definition)s)
            and (s.update_mode = 'sync tran' or t.xact_seqno <= s.copy_seqno))
left join msrepl.msrepl_originators o on o.id = coalesce(c.originator_id, t.originator_id)
where s.subscriber = %(subscriber)s
  and t.xact_seqno > s.subscription_seqno
  and case when c.type = %(call)s then t.xact_seqno > coalesce(s.copy_seqno, '0/0')
           else t.xact_seqno > s.copy_seqno or not pg_visible_in_snapshot(t.xact_id, s.copy_snapshot) end
group by s.publisher_database_id, t.xact_seqno, t.xact_id, o.srvname, s.subscriber
order by t.xact_seqno
"""
#: Maximum number of commands that are reported per transaction.
_COMMANDS_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class TopologyDelivery:
    """An agent's treatment of one transaction, or of the part of it that has one originator."""

    subscriber: str
    seqno: str
    """Commit LSN of the transaction at the Publisher."""
    origin: str
    """Subscriber that made the changes; empty: the Publisher itself."""
    gid: str
    """Global transaction, without a branch; empty: not a global transaction."""
    commands: tuple[str, ...]
    """Commands as text, such as ``update account id=1``."""
    suppressed: bool
    """Whether the changes were the Subscriber's own and therefore not delivered."""
    skipped: str
    """Error because of which the transaction was skipped; empty: it was not skipped."""
    calls: int = 0
    """Number of commands that are calls of routines."""
    definitions: int = 0
    """Number of commands that are definitions of routines."""


async def between(
    distribution: Connection,
    publisher: Connection,
    number: int,
    subscriber: str,
    articles: Iterable[DistributedArticle],
    routines: Iterable[ProcArticle] = (),
    *,
    after: str,
    upto: str,
) -> list[TopologyDelivery]:
    """Return an agent's treatment of the transactions between two positions of its Subscriber, in commit order.

    Args:
        number: the Publisher's number in the distribution database.
    """
    known = {article.article_id: article for article in articles}
    called = {routine.article_id: routine for routine in routines}
    cursor = await distribution.execute(
        _COMMANDS,
        {
            "publisher": number,
            "subscriber": subscriber,
            "after": after,
            "upto": upto,
            "beside": BESIDE,
            "call": CALL_TYPE,
            "definition": DEFINITION_TYPE,
        },
    )
    rows = await cursor.fetchall()
    gids = await _gids(publisher, [xid for _, xid, *_ in rows])
    return [
        TopologyDelivery(
            subscriber=subscriber,
            seqno=seqno,
            origin=origin,
            gid=gids.get(xid, ""),
            commands=_words(known, called, zip(numbers, kinds, commands, strict=True)),
            suppressed=own,
            skipped=skipped,
            calls=kinds.count(CALL_TYPE),
            definitions=kinds.count(DEFINITION_TYPE),
        )
        for seqno, xid, origin, own, skipped, numbers, kinds, commands in rows
    ]


async def _gids(publisher: Connection, xids: list[str]) -> dict[str, str]:
    """Return the global transactions of the Publisher's transactions, by transaction ID."""
    cursor = await publisher.execute(
        "select xid::text, gid from msrepl.branch_marker where xid = any (%s::xid8[])", (xids,)
    )
    results = {}
    for xid, gid in await cursor.fetchall():
        branch = BranchId.parse(gid)
        if branch is not None:
            results[xid] = str(branch.global_id)
    return results


def _words(
    known: Mapping[int, DistributedArticle],
    called: Mapping[int, ProcArticle],
    commands: Iterable[tuple[int, int, str]],
) -> tuple[str, ...]:
    lines = []
    for number, kind, text in commands:
        routine = called.get(base_of(number))
        if routine is None:
            lines.append(command_words(known.get(base_of(number)), kind, text))
        elif kind == CALL_TYPE:
            lines.append(call_text(routine, ProcCall.parse(text)))
        else:
            lines.append(f"define {routine.identity}")
    if len(lines) > _COMMANDS_MAX:
        lines[_COMMANDS_MAX:] = [f"{len(lines) - _COMMANDS_MAX} more"]
    return tuple(lines)
