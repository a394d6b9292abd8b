"""Copies in virtual time: the ports of the snapshot agent, and the process in which it runs.

Independent of the order of actions and of the position from which a Subscriber receives commands.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext
from functools import partial
from typing import Any, TypeVar

from twopc.distributed_article import DistributedArticle
from twopc.drivers.points import Points
from twopc.drivers.snapshot_agent import CopyMoment, SnapshotAgent, UnseenTransaction
from twopc.drivers.virtual import AwaitableSteps, VirtualTime, steps
from twopc.errors import LockTimeoutError, SubscriptionError
from twopc.names import PREFIX
from twopc.proc_execution import BESIDE, CALL_TYPE
from twopc.sim.model.distribution.articles import Registry, SubscribedArticle
from twopc.sim.model.distribution.processes import Connection, Process, at_once
from twopc.sim.model.distribution.store import PublisherStore, StoredTransaction
from twopc.sim.model.network import Network
from twopc.sim.model.node.modes import ACCESS_EXCLUSIVE, SHARE_ROW
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.rows import visible
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.values import SqlError, StatementResult, Steps, Values
from twopc.subscriber.distribution_agent.planner import PgSnapshot

T = TypeVar("T")
_ROLE = "postgres"
_HOLD = "update msrepl.msreplication_subscriptions set position = position + 1 where publisher = :publisher"
_LEAVE = "delete from msrepl.msreplication_subscriptions where publisher = :publisher"
MARKERS = "msrepl.branch_marker"
_LOCK = "select msrepl.lock_copies(:tables)"
_CLOSE = "select msrepl.close_copies(:tables)"
_FILL = "select msrepl.fill_copy(:table, :columns, :rows)"
_POSITION = "select position from msrepl.msreplication_subscriptions where publisher = :publisher"


#: Receives the pid of the session that changes the Subscriber, and that may have to wait for other sessions.
Seen = Callable[[int], None]


def nobody(pid: int) -> None:
    """Ignore a pid: there is no observer of waits."""


def take_copies(node: ModelNode) -> None:
    """Add the functions that fill copies to a node."""
    node.add_function("msrepl.fill_copy", _fill)
    node.add_function("msrepl.lock_copies", partial(_lock, SHARE_ROW))
    node.add_function("msrepl.close_copies", partial(_lock, ACCESS_EXCLUSIVE))


def _lock(mode: int, tx: OpenTx, tables: Sequence[str]) -> Steps[int]:
    """Lock tables until the transaction ends, against changes or against any use."""
    for name in tables:
        yield from tx.lock_table(tx.node.table(name), mode)
    return len(tables)


def _fill(tx: OpenTx, table: str, columns: Sequence[str], rows: Sequence[Values]) -> Steps[int]:
    """Replace the rows of a table."""
    there = tx.node.table(table)
    assert there.primary is not None
    for _, version in visible(tx, there, tx.statement()):
        yield from tx.delete(table, there.primary.key(version.values))
    at = {name: place for place, name in enumerate(columns)}
    for row in rows:
        values = tuple(
            row[at[column.name]]
            if column.name in at
            else None
            if column.generated is not None
            else tx.node.default(tx, there, column)
            for column in there.columns
        )
        yield from tx.insert(table, values)
    return len(rows)


class ModelCopySource:
    """The Publisher's node; see `CopySourcePort`.

    Args:
        role: role of the Subscriber's link.
    """

    def __init__(self, connection: Connection, node: ModelNode, role: str) -> None:
        self.name = node.name
        self.connection = connection
        self._node = node
        self._role = role

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """See `CopySourcePort`; without a commit it ends when the connection is closed."""
        await _asked(self.connection, "begin isolation level repeatable read")
        yield
        await _asked(self.connection, "commit")

    async def snapshot(self) -> str:
        """See `CopySourcePort`; the first statement of a transaction takes its snapshot."""

        def take(session: NodeSession) -> Steps[str]:
            text = self._node.snapshot_text()
            yield from session.execute("select 1")
            return text

        return await AwaitableSteps(self.connection.ask(take, "snapshot"))

    async def position(self) -> int:
        """See `CopySourcePort`; later commits are logged at the present end of the log or after it."""
        return await AwaitableSteps(
            self.connection.ask(lambda _: at_once(self._node.wal.end - 1), "end of the log")
        )

    async def prepared(self) -> str | None:
        def look(_: NodeSession) -> Steps[str | None]:
            branches = self._node.prepared().items()
            results = (gid for gid, one in branches if one.owner == self._role)
            return (yield from at_once(next(results, None)))

        return await AwaitableSteps(self.connection.ask(look, "look for prepared branches"))

    async def forget(self) -> None:
        """Delete the markers of the link's branches."""
        await AwaitableSteps(self.connection.ask(partial(_forget, self._role), "forget markers"))


class ModelCopyTarget:
    """A Subscriber's node; see `CopyTargetPort`."""

    def __init__(
        self, connection: Connection, source: ModelCopySource, articles: Sequence[DistributedArticle]
    ) -> None:  # fmt: skip
        self.name = connection.wire.there
        self._connection = connection
        self._source = source
        self._articles = articles
        self._node = connection.session.node
        self._tables = [each.article.name for each in articles]

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """See `CopyTargetPort`; without a commit it ends when the connection is closed."""
        await _asked(self._connection, "begin")
        yield
        await _asked(self._connection, "commit")

    async def prepare(self) -> None:
        """See `CopyTargetPort`; the tables exist already, and are locked against writers as new tables would be."""
        await _asked(self._connection, _LOCK, tables=self._tables)

    async def hold(self) -> None:
        await _asked(self._connection, _HOLD, publisher=self._source.name)

    async def lock_out(self, timeout_s: float) -> None:
        await self._lock_tables(timeout_s, _LOCK, "are being written and cannot be replaced")

    async def close_tables(self, timeout_s: float) -> None:
        why = "are in use and cannot be taken out of the subscription"
        await self._lock_tables(timeout_s, _CLOSE, why)

    async def _lock_tables(self, timeout_s: float, how: str, why: str) -> None:
        await _asked(self._connection, f"set local lock_timeout = '{round(timeout_s * 1000)}ms'")
        try:
            await _asked(self._connection, how, tables=self._tables)
        except SqlError as error:
            if error.sqlstate != "55P03":
                raise
            raise LockTimeoutError(
                f"the tables at {self.name!r} {why}: end that transaction and try again",
                sqlstate=error.sqlstate,
            ) from error

    async def fill(self) -> None:
        await _asked(self._connection, "set local session_replication_role = replica")
        for each in self._articles:
            table = self._node.table(each.article.name)
            columns = [column.name for column in each.article.value_columns]
            columns = [name for name in columns if name in table.at]
            result = await _asked(self._source.connection, _select(each, columns))
            await _asked(
                self._connection, _FILL, table=table.name, columns=columns, rows=result.rows
            )

    async def create_objects(self) -> None:
        """See `CopyTargetPort`; `twopc.sim.model.members` makes them."""

    async def position(self) -> int:
        result = await _asked(self._connection, _POSITION, publisher=self._source.name)
        return int(result.rows[0][0])

    async def refuse_prepared(self) -> None:
        own = await AwaitableSteps(
            self._connection.ask(
                lambda _: at_once(
                    [gid for gid in self._node.prepared() if gid.startswith(f"{PREFIX}:")]
                ),
                "look for branches",
            )
        )
        if own:
            raise SubscriptionError(
                f"database {self.name!r} still has prepared branches ({own[0]}): run `twopc recover`"
                " first"
            )

    async def remove(self) -> None:
        """See `CopyTargetPort`; `twopc.sim.model.members` removes triggers."""
        await _asked(self._source.connection, "select 1")  # fail before the removal, not after
        await _asked(self._connection, _LEAVE, publisher=self._source.name)
        await AwaitableSteps(self._connection.ask(partial(_forget, None), "forget markers"))


class ModelCopyStore:
    """The distribution database, at the Publisher's node; see `CopyStorePort`."""

    def __init__(
        self, connection: Connection, store: PublisherStore, registry: Registry, subscriber: str
    ) -> None:
        self._connection = connection
        self._store = store
        self._registry = registry
        self._subscriber = subscriber

    def kept(self) -> AbstractAsyncContextManager[None]:
        """See `CopyStorePort`; transactions that a Subscriber has not reported as delivered are never removed here."""
        return nullcontext()

    async def unseen(self, moment: CopyMoment) -> tuple[int, UnseenTransaction | None]:
        def find() -> tuple[int, UnseenTransaction | None]:
            return self._store.read_to, _first(self._unseen(moment))

        return await self._ask(find, "what a copy has not seen")

    async def unseen_call(self, moment: CopyMoment) -> UnseenTransaction | None:
        registry = self._registry
        if not registry.routines or self._subscriber not in registry.read_only:
            return None
        return await self._ask(
            lambda: _first(
                [
                    each
                    for each in self._unseen(moment)
                    if each.seqno <= moment.seqno and _is_call_alone(each)
                ]
            ),
            "calls that a copy has not seen",
        )

    async def start(self, after: int, moment: CopyMoment, *, active: bool) -> None:
        def start() -> None:
            snapshot = PgSnapshot.parse(moment.snapshot)
            for each in self._subscribed():
                each.after, each.copy, each.copied_to = after, snapshot, moment.seqno
                each.active = active

        await self._ask(start, "what comes after a copy")

    async def set_active(self) -> None:
        def activate() -> None:
            for each in self._subscribed():
                each.active = True

        await self._ask(activate, "a copy is there")

    async def _ask(self, find: Callable[[], T], what: str) -> T:
        return await AwaitableSteps(self._connection.ask(lambda _: at_once(find()), what))

    def _unseen(self, moment: CopyMoment) -> list[StoredTransaction]:
        snapshot = PgSnapshot.parse(moment.snapshot)
        return [each for each in self._store.transactions if not snapshot.sees(each.xid)]

    def _subscribed(self) -> list[SubscribedArticle]:
        return [*self._registry.subscriptions[self._subscriber].values()]


class SnapshotProcess(Process):
    """The snapshot agent of one Publisher, working for one Subscriber.

    Args:
        role: role of the Subscriber's link at the Publisher.
        agent: the class of its engine.
        seen: is called with the pid of its session at the Subscriber.
    """

    def __init__(
        self, network: Network, points: Points, publisher: ModelNode, node: ModelNode, store: PublisherStore,
        registry: Registry, *, role: str, timeout_s: float, agent: type[SnapshotAgent], seen: Seen,
    ) -> None:  # fmt: skip
        super().__init__(network, f"snapshot:{node.name}", points)
        self._publisher = publisher
        self._node = node
        self._store = store
        self._registry = registry
        self._role = role
        self._timeout_s = timeout_s
        self._agent = agent
        self._seen = seen

    def run(
        self, work: Callable[[SnapshotAgent, ModelCopySource], Coroutine[Any, Any, None]]
    ) -> Steps[None]:
        """Run an action of the engine. LockTimeoutError, SubscriptionError, SqlError, LostError"""
        here = yield from self.connect(self._node, _ROLE, "msrepl snapshot")
        self._seen(here.session.pid)
        try:
            there = yield from self.connect(self._publisher, _ROLE, "msrepl snapshot")
            try:
                yield from steps(work(*self._engine(here, there)))
            finally:
                there.close()
        finally:
            here.close()

    def _engine(self, here: Connection, there: Connection) -> tuple[SnapshotAgent, ModelCopySource]:
        source = ModelCopySource(there, self._publisher, self._role)
        subscribed = self._registry.subscriptions[self._node.name].values()
        target = ModelCopyTarget(here, source, [each.article for each in subscribed])
        agent = self._agent(
            source,
            target,
            ModelCopyStore(there, self._store, self._registry, self._node.name),
            runtime=VirtualTime(
                lambda: self.kernel.now, lambda seconds: self.sleep(seconds, "wait for a branch")
            ),
            reach=self._reach,
            timeout_s=self._timeout_s,
        )
        return agent, source

    async def _reach(self, point: str) -> None:
        await AwaitableSteps(self.reach(point))


async def _asked(connection: Connection, text: str, **params: Any) -> Any:
    """Execute one statement in a session. SqlError, LostError"""
    return await AwaitableSteps(connection.ask(partial(_execute, text, params), text))


def _execute(text: str, params: Mapping[str, Any], session: NodeSession) -> Steps[Any]:
    return (yield from session.execute(text, params))


def _first(unseen: Sequence[StoredTransaction]) -> UnseenTransaction | None:
    return UnseenTransaction(seqno=unseen[0].seqno, xid=unseen[0].xid) if unseen else None


def _is_call_alone(each: StoredTransaction) -> bool:
    """Return whether a transaction has a call without the rows beside it."""
    return any(one.type == CALL_TYPE for one in each.commands) and not any(
        one.article_id > BESIDE for one in each.commands
    )


def _forget(role: str | None, session: NodeSession) -> Steps[None]:
    """Delete the markers of a link's branches, or all markers, so that recovery does not look for the branches."""
    gids = [one.gid for one in session.node.markers() if role is None or one.originator == role]

    def delete(tx: OpenTx, params: Any) -> Steps[StatementResult]:
        count = yield from tx.delete_all(MARKERS, [(gid,) for gid in gids])
        return StatementResult(tag=f"DELETE {count}", rowcount=count)

    yield from session.execute(delete)


def _select(each: DistributedArticle, columns: Sequence[str]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    condition = each.article.row_filter
    rest = ("where", condition) if condition else ()
    return " ".join(("select", names, "from", _quoted(each), *rest))


def _quoted(each: DistributedArticle) -> str:
    article = each.article
    return f'"{article.schema}"."{article.table}"'
