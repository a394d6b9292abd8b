"""The agent's side of the Subscriber's database: its sessions, the position, and what applies commands.

It must not know the distribution database, nor which commands come next.
"""

from __future__ import annotations

from collections.abc import Sequence

from psycopg import AsyncConnection

from subscriber.agents_path import SEARCH_PATH
from subscriber.distribution_agent.dispatch import Takers, dispatch_text, run_text
from subscriber.distribution_agent.loads import Part
from subscriber.distribution_agent.pipe import Answer, LostError, Pipe, Statement, Step
from subscriber.distribution_agent.profile import Profile
from twopc.errors import DeliveryError, ServerError
from twopc.log import get_logger
from twopc.lsn import lsn_text, lsn_value
from twopc.names import StreamId
from twopc.sql import path
from twopc.sql.exclusive import free_key, others
from twopc.together import together

_log = get_logger(__name__)

_BEGIN = Statement("begin")
#: What code of a table's owner has set comes back with a commit.
_AS_CONNECTED = Statement("reset all")
COMMIT = Statement("commit")
ROLLBACK = Statement("rollback")
#: Fewer commands are not worth trying as a set.
_SET_MIN = 32
#: How long an agent that was killed may keep its successor waiting: until its servers' processes notice.
_TAKE_OVER_MS = 30_000

#: What a value's text means must not depend on the database; NOT FOR REPLICATION is the replica role.
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
_PREPARED_MAX = Statement("show max_prepared_transactions", kept=False)
_MOVE = Statement("select msrepl.move_position($1, $2::pg_lsn, $3::pg_lsn)")
_DURABLE = Statement("set local synchronous_commit = on")
#: Constraints that are checked at COMMIT are checked now.
CHECK_NOW = Statement("set constraints all immediate", kept=False)


#: How each transaction begins.
BEGINNING: tuple[Step, ...] = ((_BEGIN, ()), (_AS_CONNECTED, ()))


class RefusedError(Exception):
    """A statement of the agent's own was refused."""

    def __init__(self, answer: Answer) -> None:
        super().__init__(str(answer.failure))
        self.answer = answer


class Applier:
    """Makes steps of parts: the functions of the articles that are subscribed to."""

    def __init__(self, takers: dict[int, Takers]) -> None:
        self._mixed = Statement(dispatch_text(takers), binary=True)
        self._runs = {
            code: Statement(run_text(taker), binary=True)
            for code, taker in takers.items()
            if taker.many
        }
        self._not_now: dict[int, int] = {}
        """For codes whose calls do not work as a set: how many parts to go on one by one."""
        self._failures: dict[int, int] = {}

    def step(self, part: Part, *, exact: bool = False) -> Step:
        """What applies a part: as a set if all of it is of one kind, else, or `exact`, one by one."""
        params = (part.codes, part.calls)
        code = part.low
        if exact or part.count < _SET_MIN or code != part.high or code not in self._runs:
            return self._mixed, params
        if self._not_now.get(code, 0) > 0:
            self._not_now[code] -= 1
            return self._mixed, params
        return self._runs[code], params

    def one_by_one(self, codes: bytes, calls: bytes) -> Step:
        """What applies a block without the attempt to do it as a set."""
        return self._mixed, (codes, calls)

    def learn(self, part: Part, step: Step, answer: Answer, at: int) -> None:
        """Remember whether a part worked as a set: one that did not has been paid for twice."""
        statement = self._runs.get(part.low)
        if statement is None or step[0] is not statement:
            return
        if answer.results[at].get_value(0, 0) is None:
            self._failures.pop(part.low, None)
            return
        failures = self._failures[part.low] = min(self._failures.get(part.low, 0) + 1, 10)
        self._not_now[part.low] = 2**failures


class Target:
    """Sessions at one Subscriber's database: the first, and further ones for streams.

    Args:
        lines: the sessions.
    """

    def __init__(self, publisher: str, lines: Sequence[Pipe], position: int, database: int) -> None:
        self.publisher = publisher
        self.lines = tuple(lines)
        self.position = position
        """Up to where everything was delivered, as of the last answer."""
        self.database = database
        """The database's OID."""

    @classmethod
    async def open(
        cls, dsn: str, *, publisher: str, publisher_db: str, subscriber: str, profile: Profile
    ) -> Target:
        """Connect, wait until no other agent is left, and settle what one that died has prepared.

        Raises:
            DeliveryError: another agent of this subscription is at work.
            ServerError: the server cannot prepare as many transactions as there are streams.
        """
        lines: list[Pipe] = []
        name = publisher.encode()
        try:
            where = await _path(dsn)
            first = await _connect(dsn, publisher, profile, where, lines)
            await _be_alone(first, name, subscriber)
            position = await _find_position(first, name, publisher_db)
            database = await _settle(first, publisher, position)
            await _check_streams(first, subscriber, profile.subscription_streams)
            for _ in range(1, profile.subscription_streams):
                line = await _connect(dsn, publisher, profile, where, lines)
                await ask(line, (_LOCK_SHARED, await _free_key(line, _FREE_STREAM_KEY, name)))
            return cls(publisher, lines, position, database)
        except BaseException:
            await together(*(line.close() for line in lines))
            raise

    @property
    def first(self) -> Pipe:
        """The session that moves the position."""
        return self.lines[0]

    def move(self, was: int, becomes: int) -> Step:
        """What moves the position, at the beginning of a transaction."""
        return _MOVE, (self.publisher.encode(), lsn_text(was).encode(), lsn_text(becomes).encode())

    async def make_durable(self) -> None:
        """Wait until the position and everything that came before it is durable."""
        await ask(
            self.first,
            *BEGINNING,
            (_DURABLE, ()),
            self.move(self.position, self.position),
            (COMMIT, ()),
        )

    def gid(self, upto: int, stream: int) -> StreamId:
        """Under which a stream prepares its part of the batch that ends there."""
        return StreamId(publisher=self.publisher, database=self.database, upto=upto, stream=stream)

    async def close(self) -> None:
        """Close the sessions."""
        await together(*(line.close() for line in self.lines))


async def ask(pipe: Pipe, *steps: Step) -> Answer:
    """Run what nothing should refuse.

    Raises:
        RefusedError: it was refused; nothing of the group holds.
    """
    answer = await pipe.run(*steps)
    if answer.failure is not None:
        await pipe.run((ROLLBACK, ()))
        raise RefusedError(answer)
    return answer


async def _path(dsn: str) -> str:
    async with await AsyncConnection.connect(
        dsn, autocommit=True, options=path.options(dsn)
    ) as connection:
        cursor = await connection.execute(f"select {SEARCH_PATH}".encode())
        row = await cursor.fetchone()
        assert row is not None
        return str(row[0]).replace(" ", "")


async def _connect(
    dsn: str, publisher: str, profile: Profile, where: str, lines: list[Pipe]
) -> Pipe:
    settings = _SETTINGS | {
        "application_name": f"msrepl\\ agent\\ for\\ {publisher}",
        "statement_timeout": str(profile.query_timeout_ms),
        "jit": "off",
        "search_path": where,
        "synchronous_commit": "on" if profile.synchronous_commit else "off",
    }
    pipe = await Pipe.connect(dsn, **settings)  # type: ignore[arg-type] # they are options, all of them
    lines.append(pipe)
    return pipe


async def _be_alone(pipe: Pipe, publisher: bytes, subscriber: str) -> None:
    """Wait for sessions of an agent that was killed, which end when they notice."""
    timeout = Statement(f"set lock_timeout = {_TAKE_OVER_MS}", kept=False)
    await ask(pipe, (timeout, ()))
    is_taken = await _lock(pipe, _LOCK, await _free_key(pipe, _FREE_KEY, publisher))
    for *key, _ in (await ask(pipe, (_OTHER_STREAMS, (publisher,)))).rows(0):
        await _lock(pipe, _LOCK_ONCE, [str(part).encode() for part in key])
    await ask(pipe, (Statement("reset lock_timeout", kept=False), ()))
    agents = await ask(pipe, (_OTHER_AGENTS, (publisher,)), (_OTHER_STREAMS, (publisher,)))
    found = agents.rows(0) + agents.rows(1)
    if found or not is_taken:
        raise DeliveryError(
            f"another distribution agent from {publisher.decode()!r} to {subscriber!r} is running"
            f" (21036; {found[0][2] if found else 'gone just now'}): stop it first",
            node=subscriber,
            number=21036,
            sqlstate="55P03",
        )


async def _free_key(pipe: Pipe, query: Statement, publisher: bytes) -> list[bytes]:
    ((*key, strangers),) = (await ask(pipe, (query, (publisher,)))).rows(0)
    if strangers:
        _log.warning("strangers hold advisory locks of a distribution agent", holders=strangers)
    return [str(part).encode() for part in key]


async def _lock(pipe: Pipe, lock: Statement, key: Sequence[bytes]) -> bool:
    """False: it is not to be had."""
    failure = (await pipe.run((lock, key))).failure
    if failure is not None and failure.sqlstate != "55P03":
        raise LostError(str(failure))
    return failure is None


async def _check_streams(pipe: Pipe, subscriber: str, streams: int) -> None:
    most = int(str((await ask(pipe, (_PREPARED_MAX, ()))).rows(0)[0][0]))
    if 1 < streams > most:
        raise ServerError(
            f"{subscriber}: {streams} streams prepare as many transactions, and the server's"
            f" max_prepared_transactions is {most}: set it higher and restart the server, or use one stream"
        )


async def _find_position(pipe: Pipe, publisher: bytes, publisher_db: str) -> int:
    # Asked first: an INSERT that a row is in the way of would wait for what a stream has prepared.
    rows = (await ask(pipe, (_POSITION, (publisher,)))).rows(0)
    if not rows:
        await ask(pipe, (_FIRST_POSITION, (publisher, publisher_db.encode())))
        rows = (await ask(pipe, (_POSITION, (publisher,)))).rows(0)
    return lsn_value(str(rows[0][0]))


async def _settle(pipe: Pipe, publisher: str, position: int) -> int:
    """Finish what streams of an agent that died have prepared; returns the database's OID.

    The position is in the first stream's part, which is committed first: if it has come to a batch's
    end, the batch is at the Subscriber, else no part of it is.
    """
    rows = (await ask(pipe, (_PREPARED, ()))).rows(0)
    database = int(str(rows[0][1]))
    for gid, _ in rows:
        found = StreamId.parse(gid) if gid else None
        if found is None or (found.publisher, found.database) != (publisher, database):
            continue
        verb = "commit" if found.upto <= position else "rollback"
        await ask(pipe, finishing(verb, found))
    return database


def finishing(verb: str, gid: StreamId) -> Step:
    """COMMIT PREPARED or ROLLBACK PREPARED; a group of its own."""
    return Statement(f"{verb} prepared '{gid}'", kept=False), ()
