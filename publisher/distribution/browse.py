"""Stored commands in readable form: the analogue of `sp_browsereplcmds`."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from psycopg import AsyncConnection

from twopc.distributed_article import CommandText, DistributedArticle, read_command
from twopc.errors import ConfigurationError
from twopc.names import article_name
from twopc.proc_execution import (
    CALL_TYPE,
    DEFINITION_TYPE,
    ProcArticle,
    ProcCall,
    base_of,
    beside,
    call_text,
)
from twopc.publisher.distribution.registry import articles, publisher_id
from twopc.publisher.distribution.routines import proc_articles

Connection = AsyncConnection[Any]

_SEQNO = re.compile(r"[0-9A-Fa-f]{1,8}/[0-9A-Fa-f]{1,8}\Z")

_COMMANDS = """
select c.xact_seqno::text, c.command_id, t.entry_time, c.article_id, c.type, c.hashkey, o.srvname, c.command
from msrepl.commands_between(
    %(publisher)s, greatest(%(start)s::pg_lsn, '0/1') - 1::numeric, coalesce(%(end)s::pg_lsn, 'FFFFFFFF/FFFFFFFF')) c
join msrepl.transactions_between(
    %(publisher)s, greatest(%(start)s::pg_lsn, '0/1') - 1::numeric, coalesce(%(end)s::pg_lsn, 'FFFFFFFF/FFFFFFFF')) t
    using (xact_seqno)
left join msrepl.msrepl_originators o on o.id = coalesce(c.originator_id, t.originator_id)
where (%(article)s::integer[] is null or c.article_id = any (%(article)s::integer[]))
  and (%(command)s::integer is null or c.command_id = %(command)s)
order by c.xact_seqno, c.command_id
limit %(limit)s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class BrowsedCommand:
    """A stored command: waiting for delivery, or delivered and not yet removed."""

    xact_seqno: str
    """Commit LSN of its transaction."""
    command_id: int
    entry_time: datetime
    """Time of the transaction's commit at the Publisher."""
    article_id: int
    article: str
    """Name of the table or routine; empty for messages to every Subscriber, and for a dropped article."""
    type: int
    hashkey: int
    originator: str | None
    """Subscriber that made the change, and to which the command is not delivered."""
    text: str
    """See `twopc.distributed_article.read_command`."""
    changed: tuple[str, ...] | None
    """Columns whose bit in the bitmask is set; None without a bitmask."""

    @property
    def statement(self) -> str:
        """Text of the command, followed by the decoded bitmask."""
        if self.changed is None:
            return self.text
        return f"{self.text} -- changes {', '.join(self.changed) or 'nothing'}"


async def browse(
    connection: Connection,
    publisher: str,
    *,
    seqno_start: str | None = None,
    seqno_end: str | None = None,
    article: str | int | None = None,
    command_id: int | None = None,
    limit: int = 1000,
) -> list[BrowsedCommand]:
    """Return the stored commands of a Publisher in the order of delivery, in readable form.

    A change from a Subscriber through a sync procedure is shown as a VCALL, the original's term for calls
    of updatable subscriptions.

    Args:
        seqno_start, seqno_end: commit LSNs, both inclusive.
        article: its number, or its table as ``table`` or ``schema.table``: then with its filtered parts.
        command_id: of one transaction only: both positions must name the transaction (21109).

    Raises:
        ConfigurationError: the Publisher or article does not exist, or the arguments contradict each other.
    """
    if command_id is not None and (seqno_start is None or seqno_start != seqno_end):
        raise ConfigurationError(
            "a command's number means something within one transaction only (21109): say its position as "
            "start and as end"
        )
    for seqno in (seqno_start, seqno_end):
        if seqno is not None and not _SEQNO.match(seqno):
            raise ConfigurationError(f"{seqno!r} is no position of a log: write it as 16/B374D848")
    database = await publisher_id(connection, publisher)
    if database is None:
        raise ConfigurationError(f"the distribution database knows no Publisher {publisher!r}")
    known = {each.article_id: each for each in await articles(connection, database)}
    routines = {each.article_id: each for each in await proc_articles(connection, database)}
    cursor = await connection.execute(
        _COMMANDS,
        {
            "publisher": database,
            "start": seqno_start,
            "end": seqno_end,
            "article": _numbers(known, routines, article),
            "command": command_id,
            "limit": limit,
        },
    )
    return [_browsed(known, routines, row) for row in await cursor.fetchall()]


def _numbers(
    known: dict[int, DistributedArticle],
    routines: dict[int, ProcArticle],
    article: str | int | None,
) -> list[int] | None:
    """Return the numbers of an article, including those of rows beside calls, and of definitions."""
    if article is None:
        return None
    if isinstance(article, int):
        return [article, beside(base_of(article))]
    there = {
        **{n: (each.article.schema, each.article.table) for n, each in known.items()},
        **{n: (each.schema, each.name) for n, each in routines.items()},
    }
    results = [
        number
        for number, (schema, name) in there.items()
        if article in (article_name(schema, name), f"{schema}.{name}")
    ]
    if not results:
        names = sorted({article_name(*each) for each in there.values()})
        raise ConfigurationError(
            f"no article {article!r}; articles are {', '.join(names) or 'none'}"
        )
    return [*results, *map(beside, results)]


def _browsed(
    known: dict[int, DistributedArticle], routines: dict[int, ProcArticle], row: tuple[Any, ...]
) -> BrowsedCommand:
    seqno, command_id, entry_time, article_id, kind, hashkey, originator, command = row
    article, routine = known.get(base_of(article_id)), routines.get(base_of(article_id))
    name = "" if article is None else article.article.name
    if routine is not None:
        name = article_name(routine.schema, routine.name)
        reading = CommandText(text=_routine_text(routine, kind, command))
    else:
        verb = "CALL" if originator is None else "VCALL"
        reading = read_command(article, kind, command, verb=verb)
    return BrowsedCommand(
        xact_seqno=seqno,
        command_id=command_id,
        entry_time=entry_time,
        article_id=article_id,
        article=name,
        type=kind,
        hashkey=hashkey,
        originator=originator,
        text=reading.text,
        changed=reading.changed,
    )


def _routine_text(routine: ProcArticle, kind: int, command: str) -> str:
    """Return a call in readable form, or the definition."""
    if kind == CALL_TYPE:
        return call_text(routine, ProcCall.parse(command))
    if kind == DEFINITION_TYPE:
        return str(json.loads(command)["definition"])
    return command
