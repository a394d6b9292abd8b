"""The driver that performs the effects of one global transaction's machine, and reports events to it.

The machine makes all decisions. A driver lives from the application's commit to its answer; branches that cannot be
finished by then are settled by `twopc.drivers.recovery`, from the decision log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, ClassVar, Final

import psycopg
from psycopg import pq

from twopc.drivers import vote_requests, votes
from twopc.drivers.hub import Hub, pause, settle
from twopc.drivers.lean import ServerReport
from twopc.drivers.sessions import LinkedSession
from twopc.drivers.statements import surely_wrote
from twopc.names import EpochIds, branch_gid, node_of
from twopc.protocol import Coordinator, CoordinatorState, Settings
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import Message, Outcome, RecordKind, Timer

_BEGIN: Final = lru_cache(maxsize=1024)(lambda names: e.Begin(participants=names))
_LOGGED: Final = lru_cache(maxsize=1024)(lambda record: e.Logged(record=record))
_COMMIT_ASKED: Final = e.CommitAsked()
_RESEND_FIRED: Final = e.TimerFired(name=Timer.RESEND)


class Driver:
    """Drives one machine; created when the application asks for commit.

    Args:
        names: names of the branches; two of them, the Publisher's first. See `twopc.drivers.several` for more.
        work: statements to send in the same message before the request for the votes, with a trailing semicolon.
        work_results: number of results of these statements.
    """

    machine: ClassVar[type[Coordinator]] = Coordinator
    """Class of the machine."""
    performs: ClassVar[Mapping[type[x.Effect], Callable[[Any, Any], Awaitable[e.Event | None]]]]
    """Method that performs each kind of effect."""
    tells: ClassVar[Mapping[Message, Callable[[Any, str], Awaitable[e.Event | None]]]]
    """Method that sends each kind of message."""

    __slots__ = (
        "_ballot",
        "_hub",
        "_is_sent",
        "_machine",
        "_names",
        "_queue",
        "_resent",
        "_sequence",
        "_session",
        "_settings",
        "_time",
        "_votes",
        "_work",
        "answer",
        "damage",
        "failure",
        "gid",
        "good",
        "ids",
        "reason",
        "results",
    )  # fmt: skip

    def __init__(
        self,
        hub: Hub,
        ids: EpochIds,
        sequence: int,
        session: LinkedSession,
        settings: Settings,
        names: tuple[str, ...],
        *,
        work: bytes = b"",
        work_results: int = 0,
    ) -> None:
        self._hub = hub
        self._sequence = sequence
        self._session = session
        self._settings = settings
        self._machine = self.machine(settings)
        self._names = names
        self._work = work
        self._ballot = votes.ballot(
            hub.publisher, session.subscriber, settings.variant.last_agent, work_results
        )
        self._votes: dict[str, e.Event] = {}
        self._queue: deque[x.Effect] = deque()
        self._time = hub.runtime.time
        self._resent = False
        self._is_sent = False
        self.ids = ids
        self.gid = ids.text(sequence)
        self.answer: Outcome | None = None
        """Outcome reported to the application."""
        self.reason = ""
        self.failure: ServerReport | None = None
        """The error report that caused a refusal."""
        self.good = 0
        """Number of results in `results` before the failure."""
        self.damage: x.Damage | None = None
        self.results: list[pq.abc.PGresult] = []
        """The results of the message that requested the votes, those of `work` first."""

    @property
    def blamed(self) -> str:
        """The Subscriber whose session reported the failure."""
        return self._session.subscriber

    @property
    def settled(self) -> bool:
        """Whether every branch is finished, so that nothing is left to recovery."""
        return self._machine.state is CoordinatorState.ENDED

    async def commit(self) -> None:
        """Commit, and return when the answer to the application is known; not interrupted by cancellation."""
        self._machine.receive(_BEGIN(self._names), 0.0)
        self._feed(_COMMIT_ASKED)
        observe = self._hub.observe
        while self._queue and self.answer is not Outcome.IN_DOUBT:
            effect = self._queue.popleft()
            if observe is not None:
                observe(self.gid, effect)
            perform = self.performs[type(effect)]
            if perform is _NOTHING:
                continue
            event = await perform(self, effect)
            if event is not None:
                self._feed(event)
        if self._settings.variant.collects and self.settled and not self.damage:
            # With presumed commit the machine never releases a commit record; once every branch has answered, it
            # can be deleted.
            self._hub.log.forget(self.ids.epoch, self._sequence)

    def _feed(self, event: e.Event) -> None:
        if self._hub.observe is not None:
            self._hub.observe(self.gid, event)
        machine, now = self._machine, self._time()
        self._queue.extend(machine.receive(event, now))
        if type(event) is e.AckLost and machine.outcome is Outcome.COMMITTED and not self._resent:
            # The commit is sent again at once, so that the failure of one node does not delay another.
            self._resent = True
            self._queue.extend(machine.receive(_RESEND_FIRED, now))

    # -- effects, each with the event that answers it ----------------------------------------------

    def _send(self, effect: x.Send) -> Awaitable[e.Event | None]:
        return self.tells[effect.message](self, effect.to)

    async def _log(self, effect: x.Log) -> e.Event | None:
        """Write a record, and wait for it if it is forced."""
        record, points, log = effect.record, self._hub.points, self._hub.log
        if record.kind is RecordKind.END:
            log.forget(self.ids.epoch, self._sequence)
            return None
        if points.armed and record.kind is not RecordKind.COLLECTING:
            await points.reach("coordinator.before_decision")
        entry = log.append(self.ids.epoch, self._sequence, record)
        if not effect.forced:
            return None
        await entry.wait()
        if entry.state == "failed":
            return e.LogFailed(record=record, reason=entry.reason)
        if entry.state == "unknown":
            return e.LogUnknown(record=record, reason=entry.reason)
        if points.armed and record.kind is not RecordKind.COLLECTING:
            await points.reach("coordinator.decision_logged")
        return _LOGGED(record)

    async def _read_back(self, effect: x.ReadBack) -> e.Event:
        """Determine whether a record was written whose insert was not answered; retry until the deadline."""
        record, hub, until = effect.record, self._hub, self._deadline()
        while True:
            try:
                read = hub.log.read_back(self.ids.epoch, self._sequence)
                result = await hub.runtime.unbroken(read)
            except LookupError:
                return _RESEND_FIRED
            except psycopg.Error:
                if not await pause(hub, until):
                    return _RESEND_FIRED
                continue
            if result is not None and result.kind is record.kind:
                return e.LogFound(record=record)
            return e.LogMissing(record=record)

    async def _timer(self, effect: x.Effect) -> None:
        """Do nothing: server, connection and recovery enforce the time limits of their waits."""

    async def _finish(self, effect: x.Finish) -> None:
        self.answer = effect.outcome
        self.reason = effect.reason

    async def _report_damage(self, effect: x.Damage) -> None:
        self.damage = effect
        record = self._hub.damage(
            gid=branch_gid(self.gid, effect.participant),
            node=node_of(effect.participant),
            outcome=effect.actual,
            decided=effect.decided,
        )
        with suppress(
            psycopg.Error
        ):  # recovery finds the branch again as long as the decision is kept
            await self._hub.runtime.unbroken(record)

    # -- messages ----------------------------------------------------------------------------------

    async def _prepare(self, name: str) -> e.Event | None:
        if not self._votes:
            await self._collect_votes()
        return self._votes[name]

    async def _collect_votes(self) -> None:
        """Request the votes of both branches."""
        lean, ballot = self._session.lean, self._ballot
        call, last = vote_requests.question(self.gid, ballot, self.ids.prove, self._session.pid)
        results = await vote_requests.ask(self._hub.points, lean, ballot, self._work + call, last)
        self.results = results
        read = self._read(results)
        self.failure, self.good = read.failure, read.good
        own = read.subscriber
        if read.failure is not None:
            await self._session.roll_back()
        elif read.is_alone and self._work and not self._surely_wrote():
            own = await self._commit_alone(ballot.subscriber)
        self._votes = {ballot.publisher: read.publisher, ballot.subscriber: own}

    def _read(self, results: list[pq.abc.PGresult]) -> votes.Votes:
        """Return the votes in the results of a message."""
        lean = self._session.lean
        return votes.read(self._ballot, results, lost=lean.lost, unsynced=lean.unsynced)

    def _surely_wrote(self) -> bool:
        tag = self.results[self._ballot.work_results - 1].command_status
        return surely_wrote((tag or b"").decode())

    async def _commit_alone(self, name: str) -> e.Event:
        """Commit the only prepared branch: nothing was sent to the Publisher.

        If the statement changed nothing, the branch has no marker, and could not be asked later for its outcome.
        This is not needed: with one branch there is nothing to agree on.
        """
        event = await self._commit(name)
        if isinstance(event, e.AckLost):
            return e.VoteUnknown(participant=name, reason=self._session.lean.lost)
        return votes.read_only(name)

    async def _decide(self, name: str) -> e.Event:
        if name in self._votes:
            return self._votes[name]
        points = self._hub.points  # this is the only participant
        if points.armed:
            await points.reach(f"coordinator.before_commit({name})")
        vote, self.failure = await vote_requests.ask_to_decide(
            self._session.lean, self._ballot, name
        )
        return vote

    async def _commit(self, name: str) -> e.Event:
        points, session = self._hub.points, self._session_of(name)
        if points.armed:
            await points.reach(f"coordinator.before_commit({node_of(name)})")
        command = f"commit prepared '{branch_gid(self.gid, name)}'".encode()
        if name != session.subscriber:
            owner = self._hub.owners.get(session.subscriber)
            done = owner is not None and await self._hub.finishers.finish(
                command, b"COMMIT PREPARED", owner, self._tell_subscriber
            )
        else:
            if not self._is_sent:
                session.lean.send(command)
            self._is_sent = False
            results = await session.lean.answer()
            done = (
                len(results) == 1
                and results[0].command_status == b"COMMIT PREPARED"
                and not session.lean.unsynced
            )
        event = votes.committed(name) if done else await self._settle(name, Outcome.COMMITTED)
        if points.armed:
            await points.reach(f"coordinator.after_commit({node_of(name)})")
        return event

    def _tell_subscriber(self) -> None:
        """If the next message is the Subscriber's commit, send it without waiting for the Publisher's answer.

        Not while points are armed, so that each step is separate.
        """
        follows = self._queue[0] if self._queue else None
        if (
            type(follows) is x.Send
            and follows.message is Message.COMMIT
            and follows.to == self._session.subscriber
            and not self._hub.points.armed
        ):
            gid = branch_gid(self.gid, follows.to)
            self._session.lean.send(f"commit prepared '{gid}'".encode())
            self._is_sent = True

    async def _abort(self, name: str) -> e.Event:
        points, session = self._hub.points, self._session_of(name)
        if points.armed:
            await points.reach(f"coordinator.before_rollback({node_of(name)})")
        if name == session.subscriber:
            await session.roll_back()
        event = await self._settle(name, Outcome.ABORTED)
        if points.armed:
            await points.reach(f"coordinator.after_rollback({node_of(name)})")
        return event

    async def _fence(self, name: str) -> e.Event:
        until = self._deadline()
        event = await self._abort(name)
        if self._machine.state is CoordinatorState.RESOLVING:
            while isinstance(event, e.AckLost):
                if not await pause(self._hub, until):
                    return _RESEND_FIRED
                event = await self._abort(name)
        return event

    # -- helpers -----------------------------------------------------------------------------------

    def _session_of(self, name: str) -> LinkedSession:
        """Return the session in which a branch was begun."""
        return self._session

    async def _settle(self, name: str, outcome: Outcome) -> e.Event:
        session = self._session_of(name)
        work = settle(self._hub, session, self.gid, name, self._names, outcome)
        return await self._hub.runtime.unbroken(work)

    def _deadline(self) -> float:
        return self._time() + self._hub.in_doubt_after_s


_NOTHING: Final = Driver._timer
Driver.performs = {
    x.Send: Driver._send,
    x.Log: Driver._log,
    x.ReadBack: Driver._read_back,
    x.SetTimer: Driver._timer,
    x.CancelTimer: Driver._timer,
    x.Finish: Driver._finish,
    x.Damage: Driver._report_damage,
}
Driver.tells = {
    Message.PREPARE: Driver._prepare,
    Message.DECIDE: Driver._decide,
    Message.COMMIT: Driver._commit,
    Message.ABORT: Driver._abort,
    Message.FENCE: Driver._fence,
}
