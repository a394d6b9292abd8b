"""The agent's history and status in the distribution database.

Most rows are only informative: a failure to write one is logged and otherwise ignored. A skipped transaction is
recorded durably.
"""

from __future__ import annotations

from twopc.log import get_logger
from twopc.lsn import lsn_text
from twopc.propagation import CommandType
from twopc.subscriber.distribution_agent.loads import StoredMessage
from twopc.subscriber.distribution_agent.pipe import Pipe, Query, Statement
from twopc.subscriber.distribution_agent.ports import AgentEvent, LostError

logger = get_logger(__name__)

_EVENT = Statement(
    """
    insert into msrepl.msdistribution_history
        (publisher_database_id, subscriber, event, duration_ms, transactions, commands, xact_seqno,
         error, message, command)
    values ($1::int, $2, $3, $4::float8, $5::bigint, $6::bigint, $7::pg_lsn, $8, $9, $10)
    """
)
_STATUS = Statement(
    """
    update msrepl.msdistribution_agents
    set runstatus = $3, runstatus_at = clock_timestamp(),
        last_error = case when $3 = any ('{retry,failed}') then $4 when $3 = 'succeeded' then null
                     else last_error end
    where publisher_database_id = $1::int and subscriber = $2
    """
)
_DELIVERED = Statement(
    """
    update msrepl.msdistribution_agents
    set delivered = greatest(delivered, $3::pg_lsn), delivered_at = clock_timestamp()
    where publisher_database_id = $1::int and subscriber = $2
    """
)
_TRACER = Statement(
    """
    insert into msrepl.mstracer_history
        (publisher_database_id, tracer_id, subscriber, subscriber_commit)
    values ($1::int, $2::bigint, $3, clock_timestamp())
    on conflict do nothing
    """
)
#: Events that change the agent's status.
_STANDS = ("started", "succeeded", "retry", "failed")


class AgentHistory:
    """See `twopc.subscriber.distribution_agent.ports.HistoryPort`: rows on a server.

    Args:
        pipe: to the distribution database.
    """

    def __init__(self, pipe: Pipe, publisher_database_id: int, subscriber: str) -> None:
        self._pipe = pipe
        self._who = (str(publisher_database_id).encode(), subscriber.encode())

    async def event(self, event: AgentEvent, *, durable: bool = False) -> None:
        values = (
            event.event, event.duration_ms, event.transactions, event.commands,
            None if event.seqno is None else lsn_text(event.seqno),
            event.error or None, event.message or None, event.command or None,
        )  # fmt: skip
        texts = [None if value is None else str(value).encode() for value in values]
        queries: list[Query] = [(_EVENT, (*self._who, *texts))]
        if event.event in _STANDS:
            queries.append((_STATUS, (*self._who, event.event.encode(), event.message.encode())))
        await self._write(*queries, durable=durable)

    async def delivered(self, position: int) -> None:
        await self._write((_DELIVERED, (*self._who, lsn_text(position).encode())))

    async def posted(self, posted: StoredMessage) -> None:
        if posted.type == CommandType.TRACER_TOKEN:
            publisher_database, subscriber = self._who
            token = str(posted.body["id"]).encode()
            await self._write((_TRACER, (publisher_database, token, subscriber)))

    async def _write(self, *queries: Query, durable: bool = False) -> None:
        try:
            failure: object = (await self._pipe.run(*queries)).failure
        except LostError as error:
            failure = error
        if failure is not None and durable:
            raise LostError(f"history not written: {failure}")
        if failure is not None:
            logger.warning("history not written", error=str(failure))
