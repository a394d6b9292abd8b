"""Bugs of a transaction's driver: its interpretation of answers, and the order of its messages."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from twopc.drivers import votes
from twopc.drivers.engine import CoordinatorEngine
from twopc.drivers.postgres import Driver
from twopc.drivers.sessions import LinkedSession
from twopc.drivers.transaction import Transaction
from twopc.errors import InDoubtError
from twopc.protocol import Coordinator
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import Message, Outcome, RecordKind
from twopc.protocol.second_phase import BranchProgress
from twopc.protocol.states import CoordinatorState
from twopc.sim.model.application import ModelLinkedSession
from twopc.sim.model.explore.results import Budget, PlantedBug
from twopc.sim.model.wiring import Wiring, replacing

_Effects = tuple[x.Effect, ...]


def decided_by(machine: type[Coordinator]) -> Any:
    """Return a plant that replaces the machine, in the driver and in recovery."""

    def plant(wiring: Wiring) -> Wiring:
        driver = type("Driver", (wiring.driver,), {"machine": machine, "__slots__": ()})
        recovery = type("Recovery", (wiring.recovery,), {"machine": machine})
        return replace(wiring, driver=driver, recovery=recovery)

    return plant


# -- interpretation of answers ---------------------------------------------------------------------


class IgnoresTag(Driver):
    """A driver that takes PREPARE TRANSACTION for successful unless it raised an error."""

    __slots__ = ()

    def _read(self, results: list[Any]) -> votes.Votes:
        vote = super()._read(results)
        if vote.failure is not None and vote.failure.sqlstate == "25P02":
            return replace(vote, subscriber=votes.yes(vote.subscriber.participant), failure=None)  # type: ignore[attr-defined] # a vote
        return vote


class NeverLooks(ModelLinkedSession):
    """A session that does not notice if a statement has ended its transaction."""

    __slots__ = ()

    @property
    def in_transaction(self) -> bool:
        """Whether the connection is not lost."""
        return not self.lean.lost


def ignores_tag(wiring: Wiring) -> Wiring:
    """Replace driver and session, so that an ended transaction is noticed by neither."""
    return replace(wiring, driver=IgnoresTag, session=NeverLooks)


def _each_unknown(result: votes.Votes, by: Any) -> votes.Votes:
    return replace(
        result,
        **{
            site: by(vote)
            for site in ("publisher", "subscriber")
            if isinstance(vote := getattr(result, site), e.VoteUnknown)
        },
    )


class TakesLostForYes(Driver):
    """A driver that takes an unknown vote for yes."""

    __slots__ = ()

    def _read(self, results: list[Any]) -> votes.Votes:
        result = _each_unknown(super()._read(results), lambda vote: votes.yes(vote.participant))
        return replace(result, failure=None)


class TakesLostForReadOnly(Driver):
    """A driver that takes an unknown vote for read-only."""

    __slots__ = ()

    def _read(self, results: list[Any]) -> votes.Votes:
        result = _each_unknown(
            super()._read(results), lambda vote: votes.read_only(vote.participant)
        )
        return replace(result, failure=None)


class TellsWhoHasLeft(Driver):
    """A driver that takes a read-only vote of the Publisher for yes."""

    __slots__ = ()

    def _read(self, results: list[Any]) -> votes.Votes:
        result = super()._read(results)
        if isinstance(result.publisher, e.VotedReadOnly):
            return replace(result, publisher=votes.yes(result.publisher.participant))
        return result


class TakesLostForNo(Driver):
    """A driver that takes an unknown vote for no."""

    __slots__ = ()

    def _read(self, results: list[Any]) -> votes.Votes:
        def no(vote: e.VoteUnknown) -> e.VotedNo:
            return e.VotedNo(participant=vote.participant, reason=vote.reason)

        return _each_unknown(super()._read(results), no)


class TakesErrorForDone(Driver):
    """A driver that takes COMMIT PREPARED for done, whatever the answer was."""

    __slots__ = ()


async def _commit_whatever(driver: Driver, name: str) -> e.Event:
    await Driver._commit(driver, name)
    return votes.committed(name)


TakesErrorForDone.tells = {**Driver.tells, Message.COMMIT: _commit_whatever}


# -- order of messages -----------------------------------------------------------------------------


class FinishesFirst(Driver):
    """A driver that commits the first participant before it logs the decision."""

    __slots__ = ()


async def _finish_first(driver: Driver, effect: x.Log) -> e.Event | None:
    if effect.record.kind is RecordKind.COMMIT:
        for name in effect.record.participants[:1]:
            text = x.Send(to=name, message=Message.COMMIT)
            if driver._hub.observe is not None:
                driver._hub.observe(driver.gid, text)
            await Driver._commit(driver, name)
    return await Driver._log(driver, effect)


FinishesFirst.performs = {**Driver.performs, x.Log: _finish_first}


class WritesBeside(Driver):
    """A driver that does not wait until the decision is logged."""

    __slots__ = ()


async def _write_beside(driver: Driver, effect: x.Log) -> e.Event | None:
    if effect.record.kind is not RecordKind.COMMIT:
        return await Driver._log(driver, effect)
    driver._hub.log.append(driver.ids.epoch, driver._sequence, effect.record)
    return e.Logged(record=effect.record)


WritesBeside.performs = {**Driver.performs, x.Log: _write_beside}


class ForgetsEarly(Driver):
    """A driver that deletes the decision when the first participant is told, not after the last acknowledgement."""

    __slots__ = ()


async def _forget_and_commit(driver: Driver, name: str) -> e.Event:
    log: Any = driver._hub.log
    log.forget(driver.ids.epoch, driver._sequence)
    await log.forget_now()
    return await Driver._commit(driver, name)


ForgetsEarly.tells = {**Driver.tells, Message.COMMIT: _forget_and_commit}


class StopsAtFailedCommit(Driver):
    """A driver that stops at the first commit without an acknowledgement, and forgets the decision."""

    __slots__ = ()


async def _commit_or_stop(driver: Driver, name: str) -> e.Event:
    event = await Driver._commit(driver, name)
    if isinstance(event, e.AckLost):
        driver._hub.log.forget(driver.ids.epoch, driver._sequence)
        driver._queue.clear()
        driver.answer = Outcome.COMMITTED
    return event


StopsAtFailedCommit.tells = {**Driver.tells, Message.COMMIT: _commit_or_stop}


class AnswersInDoubt(CoordinatorEngine):
    """An engine that reports a transaction in doubt as committed."""

    async def _drive(
        self, transaction: Transaction, sessions: Sequence[LinkedSession], driver: Driver
    ) -> None:
        with suppress(InDoubtError):
            await super()._drive(transaction, sessions, driver)


# -- machines --------------------------------------------------------------------------------------


class GuessesUnlogged(Coordinator):
    """A machine that aborts if the log has not answered."""

    def _maybe_decided(self, event: e.LogUnknown, now: float) -> _Effects:
        self._check(event)
        return self._abort("the log did not answer", now)


class GuessesLogged(Coordinator):
    """A machine that commits if the log has not answered."""

    def _maybe_decided(self, event: e.LogUnknown, now: float) -> _Effects:
        record = self._check(event)
        return self._commit(record.participants, now)


class Outvotes(Coordinator):
    """A machine that commits the prepared branches although a participant has voted no."""

    def _abort(self, reason: str, now: float) -> _Effects:
        prepared = self._prepared()
        if BranchProgress.NO in self._branches.values() and prepared:
            return self._force(RecordKind.COMMIT, prepared, CoordinatorState.DECIDING)
        return super()._abort(reason, now)


class SaysNothingOfDamage(Coordinator):
    """A machine that takes a branch with a heuristic outcome for finished, without recording damage."""

    def _contradicted(self, event: e.BranchCommitted | e.BranchAborted, now: float) -> _Effects:
        name = event.participant
        if self._branches.get(name) in (BranchProgress.TOLD, BranchProgress.YES):
            return self._settle(name, now)
        return ()


_KILLED = Budget(of=("coordinator",), deviations=0)
_LOST = Budget(of=("connection",), deviations=0)

PLANTS = (
    PlantedBug(
        name="command_tag",
        why="PREPARE TRANSACTION without a transaction answers ROLLBACK, and that is not an error",
        source="psycopg2 #1213",
        plant=ignores_tag,
        program="ended by itself",
        budget=Budget(faults=0, deviations=0),
        breaks=("I1", "I3"),
    ),
    PlantedBug(
        name="in_doubt_is_committed",
        why="an application that is told of a commit goes on from there",
        source="X/Open XA: XAER_RMFAIL, an outcome that is not known yet",
        plant=replacing(engine=AnswersInDoubt),
        program="transfer by last agent",
        budget=Budget(of=("subscriber away",), deviations=0),
        breaks=("I3",),
    ),
    PlantedBug(
        name="unknown_is_yes",
        why="a PREPARE that was not answered may not have been done",
        source="PostgreSQL's documentation of PREPARE TRANSACTION",
        plant=replacing(driver=TakesLostForYes),
        program="transfer",
        budget=_LOST,
        breaks=("I1", "I2"),
    ),
    PlantedBug(
        name="unknown_is_read_only",
        why="a PREPARE that was not answered may have been done",
        source="Citus #2287",
        plant=replacing(driver=TakesLostForReadOnly),
        program="transfer",
        budget=_LOST,
        breaks=("I1", "I3", "I5"),
    ),
    PlantedBug(
        name="read_only_counts_as_yes_late",
        why="who has voted read-only has left, and later knows nothing of the transaction",
        source="C. Mohan, B. Lindsay, R. Obermarck: the read-only optimisation",
        plant=replacing(driver=TellsWhoHasLeft),
        program="at its own end only",
        budget=Budget(faults=0, deviations=0),
        breaks=("I1", "I3"),
    ),
    PlantedBug(
        name="definitive_57P01",
        why="a server that ends a session may have committed before",
        source="pgjdbc #4438",
        plant=replacing(driver=TakesLostForNo),
        program="transfer by last agent",
        budget=_LOST,
        breaks=("I1", "I3"),
    ),
    PlantedBug(
        name="error_is_success",
        why="a COMMIT PREPARED that failed is retried by a process that knows the decision",
        source="SPQR #2563",
        plant=replacing(driver=TakesErrorForDone),
        program="transfer",
        budget=Budget(of=("subscriber away",), deviations=0),
        breaks=("I1", "I3"),
    ),
    PlantedBug(
        name="decision_before_finish",
        why="a participant that learns a decision before it is durable may be the only one that ever does",
        source="J. Gray, A. Reuter, Transaction Processing, 10.4",
        plant=replacing(driver=FinishesFirst),
        program="transfer",
        budget=_KILLED,
        breaks=("I1", "I7"),
    ),
    PlantedBug(
        name="told_before_logged",
        why="a decision that is on its way to the log is none",
        source="pgdog #1175",
        plant=replacing(driver=WritesBeside),
        program="transfer",
        budget=_KILLED,
        breaks=("I1", "I7"),
    ),
    PlantedBug(
        name="forgotten_early",
        why="a decision is needed until the last branch is finished",
        source="Greenplum #12274",
        plant=replacing(driver=ForgetsEarly),
        program="transfer",
        budget=_KILLED,
        breaks=("I1", "I8"),
    ),
    PlantedBug(
        name="serial_set_order",
        why="a commit that fails at one site must not keep the others from theirs",
        source="SQLAlchemy's two-phase sessions",
        plant=replacing(driver=StopsAtFailedCommit),
        program="transfer",
        budget=Budget(of=("publisher away",), deviations=0),
        breaks=("I1", "I3"),
    ),
    PlantedBug(
        name="unknown_log_is_no",
        why="a write that was not answered may be in the log, and recovery will find it there",
        source="pgdog #1175",
        plant=decided_by(GuessesUnlogged),
        program="transfer",
        budget=_LOST,
        breaks=("I1", "I3", "I5"),
    ),
    PlantedBug(
        name="unknown_log_is_yes",
        why="a write that was not answered may not be in the log, and recovery will not find it there",
        source="as unknown_log_is_no, the other way round",
        plant=decided_by(GuessesLogged),
        program="transfer",
        budget=Budget(of=("log",), deviations=0),
        breaks=("I1", "I3", "I5", "I7"),
    ),
    PlantedBug(
        name="no_is_outvoted",
        why="one refusal is enough",
        source="the definition of atomic commitment",
        plant=decided_by(Outvotes),
        program="refused at its own end",
        budget=Budget(faults=0, deviations=0),
        breaks=("I1", "I2", "I3"),
    ),
    PlantedBug(
        name="heuristic_is_done",
        why="a branch that was finished by hand against the decision must be detected",
        source="X/Open XA, heuristic outcomes",
        plant=decided_by(SaysNothingOfDamage),
        program="transfer",
        budget=Budget(of=("hand",), deviations=0),
        breaks=("I1", "I3"),
    ),
)
