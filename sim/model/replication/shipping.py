"""Shipping: how a Subscriber's transaction sends its changes to the Publisher and prepares its branch there.

Implements the effects of subscriber/sql/{ship,flush,prepare_publisher,raise_uncoordinated,refuse_unprepared}.sql.
The branch marker's row counts the calls: the count rolls back with the caller's savepoints, and every message first
takes the Publisher's transaction back to the position of the count.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from twopc.names import branch_gid
from twopc.sim.model.node import rows
from twopc.sim.model.node.modes import ROW_EXCLUSIVE
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.replication import facts
from twopc.sim.model.replication.behaviour import Behaviour
from twopc.sim.model.replication.calls import DeferKeys, GenerateCall, Order, SyncCall
from twopc.sim.model.replication.link import Link, is_cancelled
from twopc.sim.model.values import (
    RequestLostError,
    RowChange,
    SqlError,
    StatementResult,
    Steps,
    Values,
)

#: A row of the markers.
Row = tuple[Any, ...]

MARKER = "msrepl.branch_marker"
#: Setting that identifies the marker row of this transaction.
_SETTING = "msrepl.marker"
#: Value of the setting once the branch is prepared: later changes can no longer be sent.
_PREPARED = "(0,0)"
_GID, _XID, _PARTICIPANTS, _, _CALLS, _, _PENDING = range(7)
#: Greatest number of queued calls.
_QUEUED_MAX = 100


class AnyClientsPort(Protocol):
    """`twopc.sim.model.any_client.ModelAnyClients`, as triggers use it."""

    def begin(self, tx: OpenTx) -> str:
        """Assign a gid to a transaction, and return it."""
        ...

    def ends(self, tx: OpenTx) -> None:
        """Prepare for the decision of a transaction."""
        ...


class Shipping:
    """Shipping of one Subscriber.

    Args:
        publisher, subscriber: names of the branches.
        link: returns the link of a transaction's session.
    """

    def __init__(
        self, publisher: str, subscriber: str, behaviour: Behaviour, link: Callable[[OpenTx], Link]
    ) -> None:
        self._publisher = publisher
        self._subscriber = subscriber
        self._behaviour = behaviour
        self._link = link
        self._sites = (publisher, subscriber)
        self.any_clients: AnyClientsPort | None = None
        """Assigns gids to transactions of any client; None if only coordinators may begin transactions."""

    # -- calls ---------------------------------------------------------------------------------------

    def ship(self, tx: OpenTx, call: SyncCall, *, at_once: bool) -> Steps[Sequence[Values]]:
        """Send a call, or queue it if shipping is lazy, and return the rows that come back.

        Args:
            at_once: whether the answer is needed now.
        """
        lazy = tx.setting("msrepl.shipping") == "lazy" and not at_once
        key, level = tx.setting(_SETTING), False
        queued: tuple[Order, ...] = ()
        if key:
            level = self._same_level(tx, key)
            row = yield from self._count(tx, key, 0 if lazy else 1, (call,) if lazy else ())
            if row is None:
                raise self.uncoordinated(tx, call.article)
            queued = row[_PENDING] or ()
            level = level and not queued
            sent = int(row[_CALLS])
        else:
            gid = self.gid(tx, call.article)
            sites = self._participants(tx)
            call = dataclasses.replace(call, branch=branch_gid(gid, sites[0]), sites=sites)
            sent = 0 if lazy else 1
            yield from self._begin(tx, gid, sent, (call,) if lazy else None)
        if lazy:
            if len(queued) > _QUEUED_MAX:
                yield from self.flush(tx)
            return ()
        message: list[Order] = [*self._start(tx, sent), *queued, call]
        if level:
            message.append(f"release s{sent - 1}")
        message.append(f"savepoint s{sent}")
        results = yield from self._sent(tx, message, first=sent == 1)
        if queued:
            yield from self._forget_queue(tx)
        place = message.index(call)
        return results[place].rows or ()

    def flush(self, tx: OpenTx) -> Steps[list[tuple[Order, StatementResult]]]:
        """Send the queued calls, and return each with its result."""
        row = self._own(tx)
        if row is None or not row[_PENDING]:
            return []
        queued: tuple[Order, ...] = row[_PENDING]
        sent = int(row[_CALLS]) + 1

        def counted(old: Row) -> Row:
            return _with(old, calls=sent, pending=None)

        yield from _change(tx, row[_GID], counted)
        start = self._start(tx, sent)
        message: list[Order] = [*start, *queued, f"savepoint s{sent}"]
        results = yield from self._sent(tx, message, first=sent == 1)
        return list(zip(message, results, strict=True))[len(start) : -1]

    def queue(self, tx: OpenTx, calls: Sequence[SyncCall | DeferKeys]) -> Steps[None]:
        """Queue several calls, in this order, whether or not they are the first of the transaction."""
        key = tx.setting(_SETTING)
        article = next(one.article for one in calls if isinstance(one, SyncCall))
        if key:
            if (yield from self._count(tx, key, 0, calls)) is None:
                raise self.uncoordinated(tx, article)
            return
        gid = self.gid(tx, article)
        at = next(place for place, one in enumerate(calls) if isinstance(one, SyncCall))
        first = calls[at]
        assert isinstance(first, SyncCall)
        sites = self._participants(tx)
        named = dataclasses.replace(first, branch=branch_gid(gid, sites[0]), sites=sites)
        yield from self._begin(tx, gid, 0, (*calls[:at], named, *calls[at + 1 :]))

    def fetch(self, tx: OpenTx, article: str, size: int) -> Steps[list[Values]]:
        """``msrepl.fetch_generated``: return a block of values that the Publisher generates."""
        row = self._own(tx)
        sent = 0 if row is None else int(row[_CALLS])
        start = self._behaviour.savepoint_mirror(sent + 1) if sent else ("rollback",)
        message: list[Order] = [*start, GenerateCall(article=article, size=size)]
        results = yield from self._sent(tx, message, first=not sent)
        return list(results[-1].rows or ())

    def _participants(self, tx: OpenTx) -> tuple[str, ...]:
        """Return all branches, starting with this Subscriber's branch at the Publisher."""
        return names_in(tx.setting("msrepl.participants") or "") or self._sites

    def gid(self, tx: OpenTx, article: str) -> str:
        """Return the gid of the global transaction. 25000 if there is none."""
        gid = tx.setting("msrepl.gid")
        if not gid and self.any_clients is not None:
            gid = self.any_clients.begin(tx)
        if not gid:
            raise self.uncoordinated(tx, article)
        if tx.setting("msrepl.proof") is None and tx.setting("msrepl.any_client") != "yes":
            raise SqlError(
                "42501", f"transaction {gid} was not begun here by its coordinator",
                hint="Only a coordinator names a transaction, as topology.transaction(...) does: leave "
                "msrepl.gid alone.",
            )  # fmt: skip
        return gid

    def uncoordinated(self, tx: OpenTx, article: str) -> SqlError:
        """``msrepl.raise_uncoordinated``"""
        lines: dict[str, Any] = {"kind": "uncoordinated", "number": 20512, "article": article}
        if any(table.name == MARKER and what == "ins" for table, what, _, _ in tx.top.changes):
            return facts.refused(
                "25000",
                f"table {article} was changed after this transaction was prepared at the Publisher, or after its "
                "settings msrepl.* were changed",
                "Roll back and try again. RESET ALL has no place in a global transaction, and deferred triggers "
                "that change replicated tables must fire before its end: SET CONSTRAINTS ALL IMMEDIATE.",
                **lines,
            )
        return facts.refused(
            "25000",
            f"table {article} has an immediate-updating subscription: it is changed in a global transaction only",
            "Use topology.transaction(...) or a session of a scenario, which begin one.",
            **lines,
        )

    # -- messages ------------------------------------------------------------------------------------

    def _start(self, tx: OpenTx, sent: int) -> tuple[str, ...]:
        if sent <= 1:
            return ("rollback", f"begin isolation level {tx.level}")
        return self._behaviour.savepoint_mirror(sent)

    def _sent(
        self, tx: OpenTx, message: Sequence[Order], *, first: bool
    ) -> Steps[list[StatementResult]]:
        link = self._link(tx)
        is_new = first and not link.is_open
        if is_new:
            yield from link.open()
        try:
            return (yield from link.send(message))
        except (SqlError, RequestLostError) as error:
            if is_cancelled(error):
                raise
            # a newly opened link allows no further retry
            return (yield from link.resend(error, message, first=first and not is_new))

    # -- the marker's row ----------------------------------------------------------------------------

    def _own(self, tx: OpenTx) -> Row | None:
        """Return the marker row of this transaction."""
        key = tx.setting(_SETTING)
        if not key or not tx.xid:
            return None
        result = tx.find(tx.node.table(MARKER), (key,), tx.statement())
        return result[1].values if result is not None and result[1].values[_XID] == tx.xid else None

    def _same_level(self, tx: OpenTx, key: str) -> bool:
        """Return whether the last message was sent in the same subtransaction: no rollback separates them."""
        table = tx.node.table(MARKER)
        assert table.primary is not None
        result = table.primary.entries.get((key,))
        return result is not None and result[0].versions[-1].xmin is tx.sub

    def _begin(
        self, tx: OpenTx, gid: str, calls: int, pending: Sequence[Order] | None
    ) -> Steps[None]:
        own = branch_gid(gid, self._subscriber)
        row = (
            own, tx.assign(), list(self._participants(tx)), None, calls, None,
            None if pending is None else tuple(pending),
        )  # fmt: skip
        yield from tx.insert(MARKER, row)
        tx.set(_SETTING, own, local=True)

    def _count(
        self, tx: OpenTx, key: str, step: int, pending: Sequence[Order]
    ) -> Steps[Row | None]:
        """Count a call; return None if there is no marker row of this transaction."""

        def counted(old: Row) -> Row:
            queued = (*(old[_PENDING] or ()), *pending)
            return _with(old, calls=int(old[_CALLS]) + step, pending=queued or None)

        return (yield from _change(tx, key, counted))

    def _forget_queue(self, tx: OpenTx) -> Steps[None]:
        key = tx.setting(_SETTING) or ""
        yield from _change(tx, key, lambda old: _with(old, calls=old[_CALLS], pending=None))

    # -- the end -------------------------------------------------------------------------------------

    def prepare_publisher(
        self, tx: OpenTx, gid: str | None, _: Any = None, proof: str | None = None,
        participants: str | None = None,
    ) -> Steps[int]:  # fmt: skip
        """``call msrepl.prepare_publisher(gid, null, proof)``: obtain the Publisher's vote for a coordinator.

        Args:
            proof: any value; only coordinators have one.
            participants: all branches, as an array literal that starts with this Subscriber's branch at the
                Publisher; given if there are several Subscribers.

        Returns:
            0 if nothing was sent in this transaction, so that there is no branch.
        """
        if gid is None:
            raise SqlError(
                "22004", "prepare_publisher: the id of the global transaction is missing"
            )
        if proof is None:
            raise SqlError(
                "42501",
                f"prepare_publisher: only the coordinator of transaction {gid} can ask for its votes",
                hint="Commit a global transaction by its coordinator, as topology.transaction(...) does.",
            )
        several = names_in(participants or "")
        calls = yield from self.prepare_branch(tx, gid, several)
        if not calls:
            if tx.setting("msrepl.gid") != gid or tx.setting("msrepl.proof") is None:
                raise SqlError(
                    "25000",
                    f"transaction {gid} was ended by a statement, or its settings msrepl.* were changed",
                    hint="Roll back and try again. COMMIT, ROLLBACK and RESET ALL have no place in a global "
                    "transaction.",
                )
            yield from self._link(tx).reset()
            if tx.xid:
                yield from self._mark_own(tx, branch_gid(gid, self._subscriber), several)
        return calls

    def prepare_branch(
        self, tx: OpenTx, gid: str | None, several: tuple[str, ...] = ()
    ) -> Steps[int]:
        """``msrepl.prepare_branch``: send the queued calls and prepare the branch at the Publisher."""
        if tx.setting("synchronous_commit") == "off":
            # a prepared branch at the Publisher requires a durable commit here
            tx.set("synchronous_commit", "on", local=True)
        row = self._own(tx)
        if row is None or gid is None:
            return 0
        own = branch_gid(gid, self._subscriber)
        sites = several or self._sites
        if row[_GID] != own:
            raise SqlError(
                "25000", f"this transaction captured changes as {row[_GID]}, not as {own}",
                hint="msrepl.gid was changed within the transaction: roll back and try again.",
            )  # fmt: skip
        marked = tuple(row[_PARTICIPANTS])
        if marked != sites:
            raise SqlError(
                "25000",
                f"this transaction captured changes for the branches {_braced(marked)}, not for {_braced(sites)}",
                hint="msrepl.participants was changed within the transaction: roll back and try again.",
            )
        sent = int(row[_CALLS])
        start = self._start(tx, 0) if sent == 0 else self._behaviour.savepoint_mirror(sent + 1)
        branch = branch_gid(gid, sites[0])
        message = [*start, *(row[_PENDING] or ()), f"prepare transaction '{branch}'"]
        link = self._link(tx)
        if sent == 0 and not link.is_open:
            yield from link.open()
        tag = yield from link.prepared(branch, message, whole=sent == 0)
        if tag != "PREPARE TRANSACTION":
            raise SqlError("40000", f"the Publisher did not prepare: its answer was {tag}")
        link.voted = tx.top
        tx.set(_SETTING, _PREPARED, local=True)
        return max(sent, 1)

    def has_voted(self, tx: OpenTx) -> bool:
        """Return whether the Publisher's branch is prepared, whatever the settings say."""
        return self._link(tx).voted is tx.top

    def _mark_own(self, tx: OpenTx, own: str, several: tuple[str, ...]) -> Steps[None]:
        """Write the marker of a transaction that has no changes for the Publisher, to record its outcome."""
        try:
            yield from tx.insert(MARKER, (own, tx.assign(), list(several[1:])))
        except SqlError as error:
            if error.sqlstate != "23505":
                raise
            raise SqlError(
                "25000",
                "this transaction was prepared at the Publisher already, or its settings msrepl.* were changed",
                detail=error.message, hint="Roll back and try again.",
            ) from error  # fmt: skip

    def reset_link(self, tx: OpenTx) -> Steps[str]:
        """``select msrepl.reset_link()``"""
        yield from self._link(tx).reset()
        return ""


class Guard:
    """``trg_mssync_guard_branches``, ``msrepl.refuse_unprepared``: no commit without the Publisher's branch."""

    name = "trg_mssync_guard_branches"
    when = "deferred"
    operations = frozenset({"ins"})
    fires = "origin"

    def __init__(self, behaviour: Behaviour, shipping: Shipping) -> None:
        self._behaviour = behaviour
        self._shipping = shipping

    def fire(
        self, tx: Any, table: str, changes: Sequence[RowChange]
    ) -> Steps[Sequence[RowChange] | None]:
        """Add the check to the end of a transaction that has sent changes."""
        new: Row | None = changes[0].new
        assert new is not None
        if new[_CALLS] or new[_PENDING]:
            # after every check that was deferred when the transaction ended
            tx.top.deferred.append(_Turn(self, new[_GID]))
        return None
        yield  # makes this function a generator

    def ask(self, tx: OpenTx, branch: str) -> Steps[None]:
        """Refuse the commit if the Publisher's branch is not prepared; prepare it for a transaction of any client."""
        if self._shipping.has_voted(tx):
            return
        if tx.setting("msrepl.any_client") != "yes":
            if not self._behaviour.guard():
                return
            raise SqlError(
                "55000",
                f"branch {branch} has changed replicated tables, and is not prepared at the Publisher: committed "
                "here, it would be at this site only",
                hint="Let the coordinator commit it: topology.transaction(...) does. It calls "
                "msrepl.prepare_publisher before it prepares or commits here.",
            )
        if tx.preparing:
            raise SqlError(
                "0A000",
                "a transaction that has changed replicated tables is prepared by its coordinator only",
                hint="COMMIT it, which prepares the Publisher; or let topology.transaction(...) do it.",
            )
        gid = branch.rpartition(":")[0]
        if self._shipping.any_clients is not None:
            self._shipping.any_clients.ends(tx)
        tx.set(_SETTING, branch, local=True)  # the client may have changed it
        yield from self._shipping.prepare_branch(tx, gid)


class _Turn:
    """A deferred check of the guard, which SET CONSTRAINTS ALL IMMEDIATE does not execute early."""

    def __init__(self, guard: Guard, branch: str) -> None:
        self._guard = guard
        self._branch = branch

    def fire(self, tx: OpenTx) -> Steps[None]:
        """Check at the end of the transaction; before that, defer the check again."""
        if tx.ending:
            yield from self._guard.ask(tx, self._branch)
        else:
            tx.top.deferred.append(self)


def names_in(literal: str) -> tuple[str, ...]:
    """Return the names in an array literal; the names contain no characters that need escaping."""
    return tuple(name.strip(' "') for name in literal.strip("{}").split(",") if name)


def _braced(names: Sequence[str]) -> str:
    return "{" + ",".join(names) + "}"


def _change(tx: OpenTx, key: str, compute: Callable[[Row], Row]) -> Steps[Row | None]:
    """Update this transaction's marker row, found by its location: SERIALIZABLE registers no read."""
    table = tx.node.table(MARKER)
    yield from tx.lock_table(table, ROW_EXCLUSIVE)
    snap = tx.statement()
    result = tx.find(table, (key,), snap)
    if result is None or result[1].values[_XID] != tx.xid:
        return None
    changed = yield from rows.update(tx, table, *result, snap, compute, lambda _: True, [])
    return changed[1] if changed is not None else None


def _with(row: Row, *, calls: Any, pending: Any) -> Row:
    return (*row[:_CALLS], calls, row[_CALLS + 1], pending, *row[_PENDING + 1 :])
