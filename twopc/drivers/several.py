"""Global transactions at several Subscribers: their interface to the application, and their commit.

Each Subscriber's link is a session of its own at the Publisher, so the Publisher has a branch for every Subscriber,
too. Transactions at one Subscriber are in `transaction` and `postgres`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Self

from psycopg import AsyncCursor, pq

from twopc.drivers import vote_requests, votes
from twopc.drivers.hub import Hub
from twopc.drivers.lean import ServerReport
from twopc.drivers.plan import SETTINGS, TransactionPlan
from twopc.drivers.points import Points
from twopc.drivers.postgres import Driver
from twopc.drivers.sessions import LinkedSession
from twopc.drivers.transaction import Transaction
from twopc.errors import ConfigurationError, LocalProtocolError
from twopc.names import EPOCH_MAX, SEQUENCE_MAX, EpochIds, GlobalId, further_branch
from twopc.protocol import Settings
from twopc.protocol import events as e

if TYPE_CHECKING:
    from twopc.drivers.engine import CoordinatorEngine


def check(coordinator: str, publisher: str, subscribers: Sequence[str], commit: str) -> None:
    """Check that a transaction can span these Subscribers.

    Raises:
        ConfigurationError: a name occurs twice, there is no name, the variant has a last agent, or a gid would be
            too long.
    """
    named = " and ".join(subscribers)
    if not subscribers or len({*subscribers}) != len(subscribers):
        raise ConfigurationError(
            f"a transaction over {named or 'nothing'}: name each Subscriber once"
        )
    if commit in SETTINGS and SETTINGS[commit].variant.last_agent:
        raise ConfigurationError(
            f"commit={commit!r} over {named}: the last agent is the one Subscriber whose own commit"
            " decides, and here are several; use presumed_abort"
        )
    longest = GlobalId(coordinator=coordinator, epoch=EPOCH_MAX, sequence=SEQUENCE_MAX)
    try:
        for branch in publisher_branches(publisher, subscribers):
            longest.branch(branch)
    except ValueError as error:
        raise ConfigurationError(
            f"a transaction over {named}: {error}; use shorter names"
        ) from error


def publisher_branches(publisher: str, subscribers: Sequence[str]) -> tuple[str, ...]:
    """Return the Publisher's branches: the first Subscriber's is named as in a transaction at one Subscriber."""
    return (publisher, *(further_branch(publisher, one) for one in subscribers[1:]))


class SubscriberPart(Transaction):
    """The part of a transaction at one of its Subscribers; it begins and ends with the others."""

    def join(self, whole: SeveralTransaction, session: LinkedSession) -> None:
        """Begin, together with the other parts."""
        self.ids, self.sequence, self.gid = whole.ids, whole.sequence, whole.gid
        self._session = session
        session.lean.release()

    def leave(self) -> None:
        """End, together with the other parts."""
        self._session = None

    def close(self) -> None:
        """Accept no more statements, because the transaction is ending."""
        self._ending = True

    async def begin(self) -> Self:
        """Raise LocalProtocolError: the part begins with the whole transaction."""
        self._refuse("begun")

    __aenter__ = begin

    async def commit(self) -> None:
        """Raise LocalProtocolError: the part is committed with the whole transaction."""
        self._refuse("committed")

    async def rollback(self) -> None:
        """Raise LocalProtocolError: the part is rolled back with the whole transaction."""
        self._refuse("rolled back")

    def _refuse(self, what: str) -> NoReturn:
        raise LocalProtocolError(
            f"the part of {self.gid} at {self.subscriber} is not {what} alone: use the transaction itself"
        )


class SeveralTransaction(Transaction):
    """A global transaction at several Subscribers; statements are executed on the parts returned by `at`.

    Created by `PostgresCoordinator.several`.
    """

    def __init__(self, engine: CoordinatorEngine, plans: Sequence[TransactionPlan]) -> None:
        super().__init__(engine, plans[0])
        self._parts = tuple(SubscriberPart(engine, plan) for plan in plans)
        self._sessions: list[LinkedSession] = []
        self._names = tuple(plan.subscriber for plan in plans)
        self._at_publisher = publisher_branches(engine.publisher, self._names)

    @property
    def branches(self) -> tuple[str, ...]:
        """Names of the branches, the Publisher's first, which are finished first."""
        return (*self._at_publisher, *self._names)

    @property
    def parts(self) -> tuple[Transaction, ...]:
        """The parts, one for each Subscriber."""
        return self._parts

    @property
    def session(self) -> NoReturn:
        """Raise LocalProtocolError: there are several sessions."""
        raise self._ambiguous()

    async def begin(self) -> Self:
        """Begin at every Subscriber; ``async with`` calls this method.

        Raises:
            RejectedError: a Subscriber cannot be reached; nothing was begun.
        """
        if self.gid:
            raise LocalProtocolError(f"transaction {self.gid} has begun already")
        self._sessions = await self._engine.begin_several(self)
        for part, session in zip(self._parts, self._sessions, strict=True):
            part.join(self, session)
        return self

    __aenter__ = begin

    async def __aexit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if not self._sessions:
            return  # ended within the block
        if error is None:
            await self.commit()
        else:
            await self.rollback()

    def cursor(self, *, name: str = "", **options: Any) -> NoReturn:
        """Raise LocalProtocolError: the call must name a Subscriber."""
        raise self._ambiguous()

    async def execute(
        self, query: Any, params: Any = None, *, prepare: bool | None = None, binary: bool = False
    ) -> AsyncCursor[Any]:
        """Raise LocalProtocolError: the call must name a Subscriber."""
        raise self._ambiguous()

    async def commit(self) -> None:
        """Commit at every node or at none; see `Transaction.commit`."""
        if not self._sessions or self._ending:
            state = f"ended: {self.outcome}" if self.gid else "not begun"
            raise LocalProtocolError(f"transaction {self.gid} is {state}")
        for part, session in zip(self._parts, self._sessions, strict=True):
            if not session.lean.lost and not session.in_transaction:
                # The link's transaction at the Publisher ends with the session.
                session.lean.abort("a statement ended the transaction")
                await self.rollback()
                raise part._ended_outside("a statement that was not its own")
        self._close()
        try:
            await self._engine.commit_several(self, self._sessions)
        finally:
            self._leave()

    async def rollback(self) -> None:
        """Roll back at every node; no effect after the transaction's end."""
        if self._sessions and not self._ending:
            self._close()
            try:
                await self._engine.roll_back(self, *self._sessions)
            finally:
                self._leave()

    async def take_sessions(self, points: Points) -> list[LinkedSession]:
        """Begin at every Subscriber or at none, for the coordinator, and return the sessions."""
        sessions: list[LinkedSession] = []
        try:
            for part, own in zip(self._parts, self._at_publisher, strict=True):
                if points.armed:
                    await points.reach(f"coordinator.begin({part.subscriber})")
                branches = f"; {participants(own, self.branches)}".encode()

                def begin(
                    session: LinkedSession,
                    plan: TransactionPlan = part.plan,
                    branches: bytes = branches,
                ) -> bytes:
                    return plan.begin(self.gid, self.ids.prove, session) + branches

                sessions.append(await part.plan.pool.take(begin))
        except BaseException:
            for part, session in zip(self._parts, sessions, strict=False):
                await part.plan.pool.give_back(session)  # closed, because it is in a transaction
            raise
        return sessions

    def driver(
        self, hub: Hub, sessions: Sequence[LinkedSession], made_of: type[SeveralDriver]
    ) -> Driver:
        """Return the driver of the commit, for the coordinator."""
        wrote = [part.wrote for part in self._parts]
        return made_of(
            hub, self.ids, self.sequence, sessions, self.plan.settings, self.branches, wrote=wrote
        )

    def _close(self) -> None:
        self._ending = True
        for part in self._parts:
            part.close()

    def _leave(self) -> None:
        self._sessions = []
        for part in self._parts:
            part.outcome = self.outcome
            part.leave()

    def _ambiguous(self) -> LocalProtocolError:
        names = self._names
        return LocalProtocolError(
            f"transaction {self.gid} is at {' and '.join(names)}: say where, as in"
            f" transaction.at({names[0]!r}).execute(...)"
        )


def participants(own: str, branches: Sequence[str]) -> str:
    """Return the statement that names the branches to a Subscriber's transaction; `own` is its branch at the
    Publisher.
    """
    return f"set local msrepl.participants = '{vote_requests.array(_from(own, branches))}'"


def _from(own: str, branches: Sequence[str]) -> list[str]:
    return [own, *(name for name in branches if name != own)]


class SeveralDriver(Driver):
    """Drives the machine of a transaction at several Subscribers.

    Args:
        sessions: one at each Subscriber.
        names: names of the branches: one at the Publisher for each session, in their order, then the Subscribers'.
        wrote: for each session, whether it has certainly changed rows.
    """

    __slots__ = ("_ballots", "_blamed", "_session_by_branch", "_wrote")

    def __init__(
        self,
        hub: Hub,
        ids: EpochIds,
        sequence: int,
        sessions: Sequence[LinkedSession],
        settings: Settings,
        names: tuple[str, ...],
        *,
        wrote: Sequence[bool],
    ) -> None:
        super().__init__(hub, ids, sequence, sessions[0], settings, names)
        at_publisher = names[: len(sessions)]
        self._wrote = dict(zip(at_publisher, wrote, strict=True))
        self._session_by_branch = dict(zip(names, (*sessions, *sessions), strict=True))
        self._ballots = [
            votes.Ballot(publisher=branch, subscriber=one.subscriber, agent=False, work_results=0)
            for branch, one in zip(at_publisher, sessions, strict=True)
        ]
        self._blamed = ""

    @property
    def blamed(self) -> str:
        """The Subscriber whose session reported the failure."""
        return self._blamed or super().blamed

    def _session_of(self, name: str) -> LinkedSession:
        return self._session_by_branch[name]

    async def _collect_votes(self) -> None:
        """Request the votes at all Subscribers at once. A branch that changed nothing commits, and gets no further
        messages.
        """
        asked = [ballot for ballot in self._ballots if not await self._has_left(ballot)]
        armed = self._hub.points.armed
        results: list[list[pq.abc.PGresult]] = []
        if not armed:
            for ballot in asked:
                self._session_of(ballot.publisher).lean.send(b"".join(self._question(ballot)))
        for ballot in asked:
            lean = self._session_of(ballot.publisher).lean
            results.append(
                await vote_requests.ask(self._hub.points, lean, ballot, *self._question(ballot))
                if armed
                else await lean.answer()
            )
        for ballot, result in zip(asked, results, strict=True):
            lean = self._session_of(ballot.publisher).lean
            read = votes.read(ballot, result, lost=lean.lost, unsynced=lean.unsynced)
            await self._note(ballot, read.publisher, read.subscriber, read.failure)

    def _question(self, ballot: votes.Ballot) -> tuple[bytes, bytes]:
        return vote_requests.question(
            self.gid,
            ballot,
            self.ids.prove,
            self._session_of(ballot.publisher).pid,
            _from(ballot.publisher, self._names),
        )

    async def _has_left(self, ballot: votes.Ballot) -> bool:
        """Return whether a Subscriber has voted already, because it changed nothing, or has failed before."""
        if self._wrote[ballot.publisher]:
            return False
        session = self._session_of(ballot.publisher)
        over, failure = await vote_requests.commit_what_read_only(session.lean)
        if not over:
            return False

        def vote(name: str) -> e.Event:
            if failure is None:
                return votes.read_only(name)
            return e.VotedNo(participant=name, reason=str(failure))

        await self._note(ballot, vote(ballot.publisher), vote(ballot.subscriber), failure)
        return True

    async def _note(
        self,
        ballot: votes.Ballot,
        publisher: e.Event,
        subscriber: e.Event,
        failure: ServerReport | None,
    ) -> None:
        self._votes[ballot.publisher] = publisher
        self._votes[ballot.subscriber] = subscriber
        if failure is not None:
            if self.failure is None:
                self.failure, self._blamed = failure, ballot.subscriber
            await self._session_of(ballot.publisher).roll_back()
