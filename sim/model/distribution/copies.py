"""A Subscriber's rows brought anew, while others go on: what the copy has seen is not brought a second time.

The meaning of `twopc.sim.topology.initial` and of reinitialising there. It must not know how changes travel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from twopc.distributed import DistributedArticle
from twopc.drivers.points import Points
from twopc.errors import LockTimeoutError, SubscriptionError
from twopc.names import PREFIX
from twopc.sim.model.distribution.articles import Registry
from twopc.sim.model.distribution.processes import Connection, Process, at_once
from twopc.sim.model.distribution.store import Store
from twopc.sim.model.network import Network
from twopc.sim.model.node.modes import ACCESS_EXCLUSIVE, SHARE_ROW
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.rows import visible
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.words import SqlError, StatementResult, Steps, Values
from twopc.subscriber.distribution_agent.planner import Snapshot

_ROLE = "postgres"
_LOOK_S = 0.02
_HOLD = "update msrepl.msreplication_subscriptions set position = position + 1 where publisher = :publisher"
_LEAVE = "delete from msrepl.msreplication_subscriptions where publisher = :publisher"
MARKERS = "msrepl.branch_marker"
_LOCK = "select msrepl.lock_copies(:tables)"
_CLOSE = "select msrepl.close_copies(:tables)"
_FILL = "select msrepl.fill_copy(:table, :columns, :rows)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Moment:
    """What a copy has seen of the Publisher."""

    snapshot: Snapshot
    """The transactions that are in it."""
    seqno: int
    """None of those that commit behind this position is."""


#: What a subscription is told of a copy: after which position it gets something.
Copied = Callable[[Store, Moment, int], int]


#: Is told the process at the Subscriber that changes something there, which may have to wait for others.
Seen = Callable[[int], None]


def nobody(pid: int) -> None:
    """Nobody looks who waits."""


def take_copies(node: ModelNode) -> None:
    """Let a node be filled."""
    node.add_function("msrepl.fill_copy", _fill)
    node.add_function("msrepl.lock_copies", partial(_lock, SHARE_ROW))
    node.add_function("msrepl.close_copies", partial(_lock, ACCESS_EXCLUSIVE))


def _lock(mode: int, tx: OpenTx, tables: Sequence[str]) -> Steps[int]:
    """Let nobody change these, or use them at all, until the transaction ends."""
    for name in tables:
        yield from tx.lock_table(tx.node.table(name), mode)
    return len(tables)


def _fill(tx: OpenTx, table: str, columns: Sequence[str], rows: Sequence[Values]) -> Steps[int]:
    """These rows in place of those that are there."""
    there = tx.node.table(table)
    assert there.primary is not None
    for _, version in visible(tx, there, tx.statement()):
        yield from tx.delete(table, there.primary.key(version.values), _any)
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


class Snapshots(Process):
    """The snapshot agent of one Publisher.

    Args:
        seen: is told its process at the Subscriber.
    """

    def __init__(self, network: Network, actor: str, points: Points, seen: Seen) -> None:
        super().__init__(network, actor, points)
        self._seen = seen

    def _connect(self, node: ModelNode) -> Steps[Connection]:
        """To the Subscriber."""
        here = yield from self.connect(node, _ROLE, "msrepl snapshot")
        self._seen(here.session.pid)
        return here

    def bring_again(
        self, publisher: ModelNode, node: ModelNode, store: Store, registry: Registry, *,
        subscriber: str, role: str, lock_timeout_s: float, copied: Copied,
    ) -> Steps[None]:  # fmt: skip
        """Copy everything to a Subscriber anew; its own transactions are waited for.

        Args:
            role: of its link at the Publisher.

        Raises:
            LockTimeoutError: a transaction of its does not end.
        """
        subscribed = registry.subscriptions.get(subscriber)
        if not subscribed:
            raise SubscriptionError(f"{subscriber!r} does not subscribe: subscribe it first")
        articles = [each.article for each in subscribed.values()]
        yield from self.reach("snapshot.begin")
        here = yield from self._connect(node)
        there = yield from self.connect(publisher, _ROLE, "msrepl snapshot")
        try:
            # first the position, as the agent does, or they wait for each other
            yield from here.ask(lambda one: _hold(one, publisher.name), "hold the agent")
            yield from self._lock_out(here, articles, lock_timeout_s)
            yield from self._until_finished(publisher, there, role, lock_timeout_s)
            moment = yield from self._copy(publisher, there, here, articles)
            position = yield from here.ask(lambda one: _position(one, publisher.name), "position")
            after = copied(store, moment, position)
            for each in subscribed.values():
                each.after, each.copy, each.copied_to = after, moment.snapshot, moment.seqno
                each.active = False
            yield from self.reach("snapshot.started")
            yield from here.run("commit")
            for each in subscribed.values():
                each.active = True
        finally:
            here.close()
            there.close()

    def _lock_out(
        self, here: Connection, articles: Sequence[DistributedArticle], timeout_s: float
    ) -> Steps[None]:
        tables = [each.article.name for each in articles]
        why = "are being written and cannot be replaced"
        yield from self._lock_tables(here, tables, timeout_s, _LOCK, why)

    def _lock_tables(
        self, here: Connection, tables: Sequence[str], timeout_s: float, how: str, why: str
    ) -> Steps[None]:
        yield from here.run(f"set local lock_timeout = '{round(timeout_s * 1000)}ms'")
        try:
            yield from here.ask(partial(_execute, how, {"tables": tables}), "lock the copies")
        except SqlError as error:
            if error.sqlstate != "55P03":
                raise
            raise LockTimeoutError(
                f"the tables at {here.wire.there!r} {why}: end that transaction and try again",
                sqlstate=error.sqlstate,
            ) from error

    def _until_finished(
        self, publisher: ModelNode, there: Connection, role: str, timeout_s: float
    ) -> Steps[None]:
        """A Subscriber's transaction may be over there while its branch here is still to be committed: a copy
        made now would miss it, and it would never come, being the Subscriber's own."""
        until = self.kernel.now + timeout_s
        while True:
            found = yield from there.ask(
                lambda _: at_once(
                    [gid for gid, one in publisher.prepared().items() if one.owner == role]
                ),
                "look for prepared branches",
            )
            if not found:
                return
            if self.kernel.now > until:
                raise LockTimeoutError(
                    f"branch {found[0]} is prepared at the Publisher and does not end: `twopc recover` settles"
                    " what a dead coordinator left",
                    gid=found[0],
                )
            yield self.sleep(_LOOK_S, "wait for a branch")

    def _copy(
        self, publisher: ModelNode, there: Connection, here: Connection,
        articles: Sequence[DistributedArticle],
    ) -> Steps[Moment]:  # fmt: skip
        yield from there.run("begin isolation level repeatable read")
        moment: Moment = yield from there.ask(lambda one: _moment(one, publisher), "snapshot")
        yield from self.reach("snapshot.taken")
        yield from here.run("set local session_replication_role = replica")
        for each in articles:
            columns = [column.name for column in each.article.value_columns]
            table = here.session.node.table(each.article.name)
            columns = [name for name in columns if name in table.at]
            result = yield from there.run(_select(each, columns))
            rows: Any = result.rows
            said = {"table": table.name, "columns": columns, "rows": rows}
            yield from here.ask(partial(_execute, _FILL, said), "fill a copy")
        yield from there.run("commit")
        yield from self.reach("snapshot.copied")
        return moment

    def close_down(
        self, publisher: ModelNode, node: ModelNode, tables: Sequence[str], *, role: str,
        lock_timeout_s: float, remove: Callable[[], None],
    ) -> Steps[None]:  # fmt: skip
        """Take a subscription away, once nobody uses its tables.

        Raises:
            LockTimeoutError: somebody does for too long.
            SubscriptionError: a branch is prepared there.
        """
        here = yield from self._connect(node)
        there = yield from self.connect(publisher, _ROLE, "msrepl snapshot")
        try:
            found = yield from here.ask(lambda _: at_once(_ours(node)), "look for branches")
            if found:
                raise SubscriptionError(
                    f"database {node.name!r} still has prepared branches ({found[0]}): run `twopc recover`"
                    " first"
                )
            yield from here.run("begin")
            why = "are in use and cannot be taken out of the subscription"
            yield from self._lock_tables(here, tables, lock_timeout_s, _CLOSE, why)
            yield from self._until_finished(publisher, there, role, lock_timeout_s)
            yield from there.run("select 1")  # it answers: it will be told in a moment
            yield from here.ask(lambda one: _end_position(one, publisher.name), "forget position")
            yield from here.ask(lambda one: _forget(one, None), "forget markers")
            yield from here.run("commit")
            remove()
            yield from there.ask(lambda one: _forget(one, role), "forget markers")
        finally:
            here.close()
            there.close()


def copied(store: Store, moment: Moment, delivered: int) -> int:
    """From which position on a Subscriber gets what its copy has not seen.

    Transactions that the copy has not seen, of those that are stored already: the first of them is the first
    that the subscription gets. What is not stored yet comes after everything that is.

    Args:
        delivered: up to where its agent has come; it does not go back.

    Raises:
        SubscriptionError: a transaction was delivered that the Publisher's own sessions do not see yet.
    """
    unseen = [each.seqno for each in store.transactions if not moment.snapshot.sees(each.xid)]
    if any(seqno <= delivered for seqno in unseen):
        raise SubscriptionError("a transaction was delivered that the Publisher does not see yet")
    return unseen[0] - 1 if unseen else store.read_to


def _hold(session: NodeSession, publisher: str) -> Steps[None]:
    """An agent moves the position from where it found it, so one that has planned a batch before finds it
    elsewhere afterwards, and plans anew."""
    yield from session.execute("begin")
    yield from session.execute(_HOLD, {"publisher": publisher})


def _end_position(session: NodeSession, publisher: str) -> Steps[None]:
    yield from session.execute(_LEAVE, {"publisher": publisher})


def _ours(node: ModelNode) -> list[str]:
    return [gid for gid in node.prepared() if gid.startswith(f"{PREFIX}:")]


def _forget(session: NodeSession, role: str | None) -> Steps[None]:
    """Delete the markers of a link's branches, or all: recovery must not look for their like."""
    gids = [one.gid for one in session.node.markers() if role is None or one.originator == role]

    def delete(tx: OpenTx, params: Any) -> Steps[StatementResult]:
        count = yield from tx.delete_all(MARKERS, [(gid,) for gid in gids])
        return StatementResult(tag=f"DELETE {count}", rowcount=count)

    yield from session.execute(delete)


def _execute(text: str, params: Mapping[str, Any], session: NodeSession) -> Steps[Any]:
    return (yield from session.execute(text, params))


def _position(session: NodeSession, publisher: str) -> Steps[int]:
    found = yield from session.execute(
        "select position from msrepl.msreplication_subscriptions where publisher = :publisher",
        {"publisher": publisher},
    )
    rows: Any = found.rows
    return int(rows[0][0])


def _moment(session: NodeSession, node: ModelNode) -> Steps[Moment]:
    """The first statement of the transaction takes its snapshot, at the same moment."""
    text = node.snapshot_text()
    yield from session.execute("select 1")
    # what commits from here on is written where the log ends now, or behind that
    return Moment(snapshot=Snapshot.parse(text), seqno=node.wal.end - 1)


def _select(each: DistributedArticle, columns: Sequence[str]) -> str:
    names = ", ".join(f'"{name}"' for name in columns)
    condition = each.article.row_filter
    rest = ("where", condition) if condition else ()
    return " ".join(("select", names, "from", _quoted(each), *rest))


def _any(values: Values) -> bool:
    return True


def _quoted(each: DistributedArticle) -> str:
    article = each.article
    return f'"{article.schema}"."{article.table}"'
