"""The link from a Subscriber's session to the Publisher: one connection, messages of several statements, cancels.

Implements the effects of dblink and of
subscriber/sql/{open_link,drain_link,query_link,reset_link,link_is_lost,explain_failure,
ship_again,prepare_again}.sql. Independent of the content of messages.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import simpy

from twopc.errors import conflict_facts
from twopc.sim.model.network import Network
from twopc.sim.model.node.locks import cancelled
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.replication import facts
from twopc.sim.model.replication.articles import link_role
from twopc.sim.model.replication.calls import DeferKeys, GenerateCall, Order, Procedure, SyncCall
from twopc.sim.model.values import RequestLostError, SqlError, StatementResult, Steps
from twopc.sim.model.wire import Wire
from twopc.waits import link_name

Plan = Callable[..., Steps[StatementResult]]

#: SQLSTATEs that show that the remote session has ended.
_ENDED = re.compile(r"08|57P|25P03|25P04")
#: Context of errors from the Publisher.
_OVER_LINK = "while executing command on dblink connection"


class Link:
    """The link of one session.

    Args:
        planned: returns the effect of a call at the Publisher.
    """

    def __init__(
        self, session: NodeSession, network: Network, publisher: ModelNode, subscriber: str,
        planned: Callable[[Procedure], Plan],
    ) -> None:  # fmt: skip
        self._session = session
        self._network = network
        self._publisher = publisher
        self._subscriber = subscriber
        self._planned = planned
        self._actor = f"link:{subscriber}:{session.pid}"
        self._wire: Wire | None = None
        self._interrupted = False
        self.voted: Any = None
        """Transaction whose branch at the Publisher is prepared."""
        self.held: dict[str, Any] = {}
        """Sets of held rows, by number: see `pending_rows.hold`."""
        self.generated: dict[str, Any] = {}
        """Blocks of generated values, by number."""
        self.numbers = 0

    @property
    def is_open(self) -> bool:
        """Whether there is a connection; it may have been lost without being noticed."""
        return self._wire is not None

    # -- used by the session -------------------------------------------------------------------------

    def interrupt(self) -> None:
        """Cancel the statement at the Publisher, because the caller was cancelled."""
        self._interrupted = True
        if self._wire is not None and isinstance(self._wire.served, NodeSession):
            self._wire.served.cancel()

    def close(self) -> None:
        """Close the connection, which ends the transaction at the Publisher. Idempotent."""
        wire, self._wire = self._wire, None
        if wire is not None:
            wire.close()

    # -- messages ------------------------------------------------------------------------------------

    def send(self, message: Sequence[Order]) -> Steps[list[StatementResult]]:
        """Send a message, and return its statements' results. SqlError, LostError; 57014 if the caller is
        cancelled.
        """
        wire = self._wire
        if wire is None:
            raise RequestLostError("the link is not open")
        session = wire.served
        assert isinstance(session, NodeSession)
        orders = [one if isinstance(one, str) else self._planned(one) for one in message]

        def work() -> Steps[list[StatementResult]]:
            results = []
            for one in orders:
                results.append((yield from session.execute(one)))  # noqa: PERF401 - it waits
            return results

        touches = frozenset((self._publisher.name,))
        what = next((_shown(one) for one in message if not isinstance(one, str)), str(message[-1]))
        result: list[StatementResult] = yield from self._waiting(wire.ask(work, what, touches))
        return result

    def open(self) -> Steps[None]:
        """Open the connection, closing an earlier one. 08001"""
        self.close()
        dead = self._session.dead
        if dead is not None:  # the session's backend has ended
            raise RequestLostError(str(dead))
        name = link_name(self._subscriber, self._session.pid)
        try:
            self._wire = yield from self._waiting(
                self._network.connect(
                    self._subscriber, self._publisher.name, self._actor,
                    lambda: self._publisher.connect(link_role(self._subscriber), name),
                )
            )  # fmt: skip
        except (RequestLostError, SqlError) as error:
            if is_cancelled(error):
                raise
            raise facts.refused(
                "08001", f"the Publisher cannot be reached over the link: {error}",
                "Nothing is committed at either site. Try again when the Publisher is up.",
                kind="publisher_unreachable", number=21054,
            ) from error  # fmt: skip

    def reset(self) -> Steps[None]:
        """``msrepl.reset_link``: roll back the remote transaction."""
        if self._wire is None:
            return
        try:
            yield from self.send(["rollback"])
        except (RequestLostError, SqlError) as error:
            if is_cancelled(error):
                raise
            self.close()

    def _waiting(self, work: Steps[Any]) -> Steps[Any]:
        """Wait in a separate process, so that a cut of the link does not count as one of the session's connection."""
        session = self._session
        self._interrupted = False
        done = self._network.kernel.spawn(_caught(work), self._actor)
        session.on_link = True
        try:
            value, error = yield done
        finally:
            session.on_link = False
            if session.dead is None:
                session.node.notify_rows_written()
        if session.dead is not None:
            raise RequestLostError(str(session.dead))
        if self._interrupted:
            if isinstance(error, RequestLostError):
                self.close()
            error = cancelled()
        if error is None:
            return value
        if (
            is_cancelled(error)
            and session.tx is not None
            and session.tx.top.began == session.victim
        ):
            raise facts.refused(
                "40P01", "deadlock across servers: this transaction was chosen to be rolled back",
                "Nothing is committed at either site: roll back and try again.",
                kind="deadlock", number=0,
            ) from error  # fmt: skip
        raise error

    # -- failures ------------------------------------------------------------------------------------

    def resend(
        self, error: SqlError | RequestLostError, message: Sequence[Order], *, first: bool
    ) -> Steps[list[StatementResult]]:
        """``msrepl.ship_again``: repeat the first message of a transaction over a new connection.

        The error for any other failure is explained and raised.
        """
        if not first or not self.lost(error):
            raise (yield from self.explained(error, message))
        yield from self.open()
        try:
            return (yield from self.send(message))
        except (SqlError, RequestLostError) as other:
            raise (yield from self.explained(other, message)) from other

    def lost(self, error: SqlError | RequestLostError) -> bool:
        """``msrepl.link_is_lost``: return whether the connection is lost, and the remote transaction with it."""
        return isinstance(error, RequestLostError) or _ENDED.match(error.sqlstate) is not None

    def explained(
        self, error: SqlError | RequestLostError, message: Sequence[Order]
    ) -> Steps[SqlError]:
        """``msrepl.explain_failure``: return the error to raise."""
        if isinstance(error, RequestLostError):
            return _broken(str(error))
        if self.lost(error) and not error.detail.startswith("{"):
            return _broken(error.message)
        first = message[0]
        if error.sqlstate == "23505" and error.constraint == "branch_marker_pkey":
            return facts.refused(
                "40000", "this transaction was given up by recovery, or its id was used before",
                "Roll back and begin another global transaction.", kind="fenced", number=0,
            )  # fmt: skip
        if error.sqlstate == "23505" and not error.detail.startswith("{"):
            return facts.conflict("update_exists", "23505", 20515, None, None, error.message)
        if error.sqlstate in ("25P01", "3B001") and str(first).startswith("rollback to"):
            return SqlError(
                "25000", "the transaction at the Publisher that belongs to this one has ended",
                detail=error.message,
                hint="Its branch was prepared already, or reset_link was called: roll back and try again.",
            )  # fmt: skip
        if error.sqlstate == "55P03" and not error.detail:
            return (yield from self._lock_error(error, first))
        return _remote(error)

    def _lock_error(self, error: SqlError, first: Order) -> Steps[SqlError]:
        """Return the error for a lock that was not granted, with the table and the holders of its locks."""
        publisher, me = self._publisher, self._wire.served if self._wire is not None else None
        relation = error.context
        if relation not in publisher.tables:
            return _remote(error)
        try:
            yield from self.send([first])
        except (SqlError, RequestLostError):
            return _remote(error)
        holders = sorted(
            f"prepared branch {top.gid}"
            if top.session is None
            else f"session {top.session.pid} ({top.session.application_name})"
            for top in publisher.open
            if relation in top.tables and top.session is not me
        )
        lines = (
            f"{', '.join(holders)} holds locks on it"
            if holders
            else "its holder has ended meanwhile"
        )
        waited = f"{self._session.node.lock_timeout_s:g}s"
        return facts.refused(
            "55P03", f"a lock on public.{relation} at the Publisher was not granted within {waited}: {lines}",
            "Roll back to a savepoint or altogether, and try again. A prepared branch holds its locks until its "
            "coordinator or recovery finishes it.",
            kind="lock_timeout", number=0, article=f"public.{relation}", holders=holders,
        )  # fmt: skip

    def prepared(self, gid: str, message: Sequence[Order], *, whole: bool) -> Steps[str]:
        """Prepare the branch at the Publisher, and return the command tag.

        Args:
            whole: whether this message contains the whole branch.
        """
        try:
            return (yield from self.send(message))[-1].tag
        except (SqlError, RequestLostError) as error:
            if is_cancelled(error):
                raise
            if not self.lost(error):
                raise (yield from self.explained(error, message)) from error
            return (yield from self._prepared_again(gid, message, error, whole=whole))

    def _prepared_again(
        self, gid: str, message: Sequence[Order], error: SqlError | RequestLostError, *, whole: bool
    ) -> Steps[str]:
        """``msrepl.prepare_again``: find out the result of a PREPARE TRANSACTION whose answer is missing."""
        was_open = self._wire is not None
        yield from self.open()
        try:
            if was_open:
                there = yield from self._is_prepared(gid)
                if there:
                    return "PREPARE TRANSACTION"
            if whole:
                return (yield from self.send(message))[-1].tag
        except (SqlError, RequestLostError) as other:
            if is_cancelled(other):
                raise
            if was_open and isinstance(other, SqlError) and other.sqlstate == "55P03":
                raise _broken(other.message) from other
            raise (yield from self.explained(other, message)) from other
        raise _broken(str(error)) from error

    def _is_prepared(self, gid: str) -> Steps[bool]:
        wire, role = self._wire, link_role(self._subscriber)
        assert wire is not None

        def look() -> Steps[bool]:
            branch = self._publisher.branch(gid)
            return branch is not None and branch.owner == role
            yield  # makes this function a generator

        result: bool = yield from self._waiting(
            wire.ask(look, f"is {gid} prepared", frozenset((self._publisher.name,)))
        )
        return result


def _caught(work: Steps[Any]) -> Steps[tuple[Any, Exception | None]]:
    """Return the result or the error as a value: simpy would pass on a copy of an error, without its attributes."""
    try:
        return (yield from work), None
    except simpy.Interrupt:
        raise
    except Exception as error:
        return None, error


def is_cancelled(error: Exception) -> bool:
    """Return whether the message was cancelled, or its transaction chosen as a deadlock's victim."""
    return isinstance(error, SqlError) and (
        error.sqlstate == "57014"
        or (error.sqlstate == "40P01" and conflict_facts(error.detail) is not None)
    )


def _shown(order: Order) -> str:
    match order:
        case SyncCall():
            return f"sp_mssync_{order.operation}_{order.article}"
        case GenerateCall():
            return "Generate"
        case DeferKeys():
            return "DeferKeys"
    return order


def _broken(why: str) -> SqlError:
    return facts.refused(
        "08006", f"the link to the Publisher broke within the transaction: {why.splitlines()[0]}",
        "Nothing is committed at either site: roll back and try again.",
        kind="publisher_unreachable", number=21054,
    )  # fmt: skip


def _remote(error: SqlError) -> SqlError:
    """Return the Publisher's error as it is reported over the link."""
    return SqlError(
        error.sqlstate, error.message, detail=error.detail, hint=error.hint,
        constraint=error.constraint, context=_OVER_LINK,
    )  # fmt: skip
