"""The agent's side of the Subscriber's database on a server: sessions, position, and locks against other agents.

The module must not know the distribution database, nor which commands come next.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from psycopg import AsyncConnection

from twopc.errors import ServerError
from twopc.log import get_logger
from twopc.lsn import lsn_value
from twopc.names import StreamId
from twopc.sql import path
from twopc.sql.exclusive import free_key, others
from twopc.subscriber.agents_path import SEARCH_PATH
from twopc.subscriber.distribution_agent.loads import SubscribedArticles
from twopc.subscriber.distribution_agent.pipe import Pipe, PipeAnswer, Query, Statement
from twopc.subscriber.distribution_agent.ports import LostError, RefusedError
from twopc.subscriber.distribution_agent.profile import Profile
from twopc.subscriber.distribution_agent.session import AgentSession, Applier
from twopc.together import together

_log = get_logger(__name__)

#: Milliseconds that the successor of a killed agent waits until the backends of that agent have ended.
_TAKE_OVER_MS = 30_000

#: The meaning of a value's text must not depend on the database; the replica role implements NOT FOR REPLICATION.
_SETTINGS: dict[str, str] = {
    "session_replication_role": "replica",
    "datestyle": "ISO",
    "intervalstyle": "postgres",
    "lc_monetary": "C",
    "xmloption": "content",
    "array_nulls": "on",
    "standard_conforming_strings": "on",
}
_MAY_DELIVER = "has_table_privilege(a.usesysid, 'msrepl.msreplication_subscriptions', 'update')"
_AGENT = "'msrepl agent of ' || $1"
_STREAMS = "'msrepl streams of ' || $1"
_FREE_KEY = Statement(free_key(_AGENT, _MAY_DELIVER), kept=False)
_FREE_STREAM_KEY = Statement(free_key(_STREAMS, _MAY_DELIVER), kept=False)
_LOCK = Statement("select pg_advisory_lock($1, $2)", kept=False)
_LOCK_SHARED = Statement("select pg_advisory_lock_shared($1, $2)", kept=False)
_LOCK_ONCE = Statement(
    "select pg_advisory_lock(k, n), pg_advisory_unlock(k, n) from (values ($1::int, $2::int)) as v(k, n)",
    kept=False,
)
_OTHER_AGENTS = Statement(others(_AGENT, _MAY_DELIVER), kept=False)
_OTHER_STREAMS = Statement(others(_STREAMS, _MAY_DELIVER), kept=False)
_POSITION = Statement(
    """
    select transaction_timestamp from msrepl.msreplication_subscriptions
    where publisher = $1 and stream = 0
    """,
    kept=False,
)
_FIRST_POSITION = Statement(
    """
    insert into msrepl.msreplication_subscriptions (publisher, publisher_db) values ($1, $2)
    on conflict do nothing
    """,
    kept=False,
)
_PREPARED = Statement(
    """
    select p.gid, d.oid from pg_database d
    left join pg_prepared_xacts p on p.database = d.datname and p.owner = current_user
    where d.datname = current_database()
    """,
    kept=False,
)
_ROLLBACK: Query = (Statement("rollback"), ())
_PREPARED_MAX = Statement("show max_prepared_transactions", kept=False)
#: Cancels sessions that wait for another session of the agent, or for its prepared transaction.
_CANCEL_BLOCKED = Statement(
    """
    with ours as (
        select pid::integer as pid from unnest($1::integer[]) as pid
    ), waiting as (
        select l.pid, l.transactionid
        from pg_locks l join ours using (pid)
        where not l.granted and l.locktype = 'transactionid'
    ), stuck as (
        select w.pid from waiting w
        where exists (
            select from pg_locks h join ours using (pid)
            where h.granted and h.locktype = 'transactionid' and h.transactionid = w.transactionid
        ) or exists (
            select from pg_prepared_xacts p
            where p.transaction = w.transactionid and p.gid = any ($2::text[])
        )
    )
    select pid, pg_cancel_backend(pid) from stuck
    """
)
_CANCEL = Statement("select pg_cancel_backend(pid) from unnest($1::integer[]) as pid")
#: Whether the order in which rows of different tables change is unobservable (triggers, rules and the user's procedures
#: that run for agents can observe it), and no table has two articles. No agent writes a branch marker.
_IS_ORDER_FREE = Statement(
    """
    select not exists (
            select from pg_trigger
            where tgenabled in ('A', 'R') and tgrelid is distinct from to_regclass('msrepl.branch_marker'))
        and not exists (select from pg_rewrite where ev_enabled in ('A', 'R'))
        and not exists (
            select from msrepl.msreplication_procedures p
            where p.procedure is not null and not msrepl.is_default_procedure(p.article_id, p.operation))
        and not exists (
            select from msrepl.msreplication_procedures p
            group by p.dest_schema, p.article having count(distinct p.article_id) > 1)
    """
)
_IS_CONSTRAINT = Statement(
    """
    select exists (
        select from pg_constraint k join pg_class c on c.oid = k.conrelid
        join pg_namespace n on n.oid = c.relnamespace
        where concat_ws('.', n.nspname, c.relname, k.conname) = $1)
    """
)


class ServerTarget:
    """See `twopc.subscriber.distribution_agent.ports.TargetPort`: sessions at one Subscriber's database."""

    def __init__(
        self, dsn: str, publisher: str, publisher_db: str, subscriber: str, profile: Profile
    ) -> None:
        self._dsn = dsn
        self._publisher = publisher
        self._publisher_db = publisher_db
        self._subscriber = subscriber
        self._profile = profile
        self._applier = Applier()
        self._lines: list[AgentSession] = []
        self._watch: Pipe | None = None
        """Additional session, which detects sessions that wait for each other."""
        self._database = 0
        """OID of the database."""
        self._path = ""
        self.position = 0
        """Position up to which transactions are delivered, as of the last answer."""

    @classmethod
    async def open(
        cls, dsn: str, *, publisher: str, publisher_db: str, subscriber: str, profile: Profile
    ) -> ServerTarget:
        """Connect the first session."""
        target = cls(dsn, publisher, publisher_db, subscriber, profile)
        target._path = await _path(dsn)
        await target._connect()
        return target

    async def _connect(self) -> Pipe:
        profile = self._profile
        settings = _SETTINGS | {
            "application_name": f"msrepl\\ agent\\ for\\ {self._publisher}",
            "statement_timeout": str(profile.query_timeout_ms),
            "jit": "off",
            "search_path": self._path,
            "synchronous_commit": "on" if profile.synchronous_commit else "off",
        }
        pipe = await Pipe.connect(self._dsn, **settings)  # type: ignore[arg-type] # all of them are session settings
        self._lines.append(AgentSession(pipe, self._publisher, self._applier))
        return pipe

    @property
    def lines(self) -> Sequence[AgentSession]:
        return self._lines

    @property
    def _first(self) -> Pipe:
        return self._lines[0].pipe

    async def rival(self) -> str:
        pipe, name = self._first, self._publisher.encode()
        timeout = Statement(f"set lock_timeout = {_TAKE_OVER_MS}", kept=False)
        await ask(pipe, (timeout, ()))
        for *_, holder in (await ask(pipe, (_OTHER_AGENTS, (name,)))).rows(0):
            _log.warning(
                "waiting for another agent of this subscription to end",
                holder=holder,
                timeout_ms=_TAKE_OVER_MS,
            )
        is_taken = await _lock(pipe, _LOCK, await _free_key(pipe, _FREE_KEY, name))
        for *key, _ in (await ask(pipe, (_OTHER_STREAMS, (name,)))).rows(0):
            await _lock(pipe, _LOCK_ONCE, [str(part).encode() for part in key])
        await ask(pipe, (Statement("reset lock_timeout", kept=False), ()))
        agents = await ask(pipe, (_OTHER_AGENTS, (name,)), (_OTHER_STREAMS, (name,)))
        others = agents.rows(0) + agents.rows(1)
        if others:
            return str(others[0][2])
        return "" if is_taken else "gone just now"

    async def find_position(self) -> None:
        pipe, name = self._first, self._publisher.encode()
        # Read first: an INSERT that conflicts with a row would wait for a stream's prepared transaction.
        rows = (await ask(pipe, (_POSITION, (name,)))).rows(0)
        if not rows:
            await ask(pipe, (_FIRST_POSITION, (name, self._publisher_db.encode())))
            rows = (await ask(pipe, (_POSITION, (name,)))).rows(0)
        self.position = lsn_value(str(rows[0][0]))

    async def prepared(self) -> list[StreamId]:
        rows = (await ask(self._first, (_PREPARED, ()))).rows(0)
        self._database = int(str(rows[0][1]))
        own = (self._publisher, self._database)
        parsed = [StreamId.parse(gid) for gid, _ in rows if gid]
        return [one for one in parsed if one and (one.publisher, one.database) == own]

    async def open_streams(self, count: int) -> None:
        if count <= 1:
            return
        most = int(str((await ask(self._first, (_PREPARED_MAX, ()))).rows(0)[0][0]))
        if count > most:
            raise ServerError(
                f"{self._subscriber}: {count} streams prepare as many transactions, and the server's"
                f" max_prepared_transactions is {most}: set it higher and restart the server, or use one stream"
            )
        name = self._publisher.encode()
        while len(self._lines) < count:
            line = await self._connect()
            await ask(line, (_LOCK_SHARED, await _free_key(line, _FREE_STREAM_KEY, name)))
        self._watch = await Pipe.connect(self._dsn, application_name="msrepl\\ streams\\ watched")

    def subscribe(self, subscription: SubscribedArticles) -> None:
        self._applier.subscribe(subscription)

    def gid(self, upto: int, stream: int) -> StreamId:
        return StreamId(
            publisher=self._publisher, database=self._database, upto=upto, stream=stream
        )

    async def cancel(self, streams: Sequence[int]) -> None:
        await self._ask_watch((_CANCEL, (self._pids(streams),)))

    async def cancel_blocked(self, streams: Sequence[int], upto: int) -> bool:
        gids = _array(self.gid(upto, stream) for stream in streams)
        answer = await self._ask_watch((_CANCEL_BLOCKED, (self._pids(streams), gids)))
        return bool(answer.rows(0))

    def _pids(self, streams: Sequence[int]) -> bytes:
        return _array(self._lines[stream].pipe.pid for stream in streams)

    async def _ask_watch(self, query: Query) -> PipeAnswer:
        assert self._watch is not None
        answer = await self._watch.run(query)
        if answer.failure is not None:
            raise LostError(f"streams cannot be watched: {answer.failure}")
        return answer

    async def is_order_free(self) -> bool:
        return (await ask(self._first, (_IS_ORDER_FREE, ()))).rows(0) == [("t",)]

    async def is_constraint(self, name: str) -> bool:
        answer = await self._first.run((_IS_CONSTRAINT, (name.encode(),)))
        return answer.failure is not None or answer.rows(0) == [("t",)]

    async def close(self) -> None:
        pipes = [line.pipe for line in self._lines]
        if self._watch is not None:
            pipes.append(self._watch)
        await together(*(pipe.close() for pipe in pipes))


async def ask(pipe: Pipe, *queries: Query) -> PipeAnswer:
    """Run statements that are not expected to fail.

    Raises:
        RefusedError: a statement failed; the group had no effect.
    """
    answer = await pipe.run(*queries)
    if answer.failure is not None:
        await pipe.run(_ROLLBACK)
        raise RefusedError(answer.failure)
    return answer


def _array(values: Iterable[object]) -> bytes:
    return ("{" + ",".join(f'"{value}"' for value in values) + "}").encode()


async def _path(dsn: str) -> str:
    async with await AsyncConnection.connect(
        dsn, autocommit=True, options=path.options(dsn)
    ) as connection:
        cursor = await connection.execute(f"select {SEARCH_PATH}".encode())
        row = await cursor.fetchone()
        assert row is not None
        return str(row[0]).replace(" ", "")


async def _free_key(pipe: Pipe, query: Statement, publisher: bytes) -> list[bytes]:
    ((*key, strangers),) = (await ask(pipe, (query, (publisher,)))).rows(0)
    if strangers:
        _log.warning("strangers hold advisory locks of a distribution agent", holders=strangers)
    return [str(part).encode() for part in key]


async def _lock(pipe: Pipe, lock: Statement, key: Sequence[bytes]) -> bool:
    """Take a lock; return whether it was obtained before the lock timeout."""
    failure = (await pipe.run((lock, key))).failure
    if failure is not None and failure.sqlstate != "55P03":
        raise LostError(str(failure))
    return failure is None
