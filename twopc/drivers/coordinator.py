"""The coordinator on PostgreSQL: epochs and transactions of one process.

The public interface of this package. This module must not depend on articles, triggers or scenarios.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Self

import psycopg

from twopc.drivers import heuristics, in_doubt, oneshot
from twopc.drivers.decision_log import DecisionLog
from twopc.drivers.engine import CoordinatorEngine
from twopc.drivers.heuristics import Heuristic
from twopc.drivers.hub import Hub
from twopc.drivers.implementation import PRODUCT, Implementation
from twopc.drivers.lean import Lean
from twopc.drivers.oneshot import RunResult
from twopc.drivers.participant import ParticipantAddress
from twopc.drivers.plan import TransactionPlans
from twopc.drivers.points import Points
from twopc.drivers.recovery import SettledBranch
from twopc.drivers.server_keeper import ServerKeeper
from twopc.drivers.server_sessions import Finishers, Introduction
from twopc.drivers.several import SeveralTransaction, check
from twopc.drivers.transaction import Transaction
from twopc.errors import ConfigurationError
from twopc.log import get_logger
from twopc.names import PREFIX
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import Outcome
from twopc.together import together

_log = get_logger(__name__)
_READS = re.compile(r"\s*(?:select|show|values|table|explain)\b", re.IGNORECASE)


class PostgresCoordinator:
    """Coordinates global transactions over a Publisher and Subscribers; an async context manager.

    Args:
        coordinator: name of the coordinator, part of every gid; processes with the same name recover for each
            other.
        distribution: connection string of the distribution database, which holds the decision log.
        publisher: address of the Publisher.
        subscribers: addresses of the Subscribers, by name.
        lock_timeout_ms: how long an application's statement may wait for a lock at a Subscriber.
        recovery_interval_s: time between two passes of recovery.
        deadlock_interval_s: time between two searches for deadlocks while transactions are open.
        in_doubt_after_s: how long to look for an outcome before `InDoubtError` is raised.
        answer_timeout_s: time without an answer after which a connection is closed.
        markers_kept_s: how long branch markers are kept after their transaction was settled at every node, for late
            inquiries about its outcome.
        points: protocol points; None for those that the environment arms.
        observe: called with every effect and event of every machine, and its global transaction.
        classes: classes of the coordinator's parts.
    """

    def __init__(
        self,
        coordinator: str,
        *,
        distribution: str,
        publisher: ParticipantAddress,
        subscribers: Mapping[str, ParticipantAddress],
        lock_timeout_ms: int = 5000,
        recovery_interval_s: float = 2.0,
        deadlock_interval_s: float = 0.25,
        in_doubt_after_s: float = 10.0,
        answer_timeout_s: float = 60.0,
        markers_kept_s: float = 60.0,
        points: Points | None = None,
        observe: Callable[[str, x.Effect | e.Event], None] | None = None,
        classes: Implementation = PRODUCT,
    ) -> None:
        self.coordinator = coordinator
        self.publisher = publisher.name
        self._subscribers = dict(subscribers)
        self.points = points if points is not None else Points(os.environ)
        addresses = (publisher, *self._subscribers.values())
        busy: set[Lean] = set()
        self._log = DecisionLog(
            coordinator,
            distribution,
            [one.name for one in addresses],
            self.points,
            busy,
            answer_timeout_s=answer_timeout_s,
        )
        self._participants = {
            one.name: classes.participant(one, coordinator, answer_timeout_s=answer_timeout_s)
            for one in addresses
        }
        self._finishers = Finishers(publisher.dsn, f"twopc finisher {coordinator}", busy)
        self._hub = Hub(
            publisher=publisher.name,
            participants=self._participants,
            log=self._log,
            finishers=self._finishers,
            points=self.points,
            damage=partial(heuristics.record_found, self._log.database),
            in_doubt_after_s=in_doubt_after_s,
            observe=observe,
        )
        self._plans = TransactionPlans(
            {one.name: one.application_dsn for one in self._subscribers.values()},
            self._introductions(),
            lock_timeout_ms=lock_timeout_ms,
            busy=busy,
        )
        self._engine = CoordinatorEngine(self._hub, self._log, classes)
        self.keeper = ServerKeeper(
            coordinator,
            distribution=distribution,
            publisher=publisher.name,
            addresses=addresses,
            log=self._log,
            points=self.points,
            busy=busy,
            engine=self._engine,
            recovery=classes.recovery,
            recovery_interval_s=recovery_interval_s,
            deadlock_interval_s=deadlock_interval_s,
            answer_timeout_s=answer_timeout_s,
            markers_kept_s=markers_kept_s,
        )
        """Background work of the coordinator."""
        self._engine.keeper = self.keeper

    def watch(self, observe: Callable[[str, x.Effect | e.Event], None] | None) -> None:
        """Replace the function that observes every effect and event; None for no function."""
        self._hub.observe = observe

    def _introductions(self) -> dict[str, Introduction]:
        log = self._log
        return {
            name: Introduction(self._participants[name], self.coordinator, log.key, log.own)
            for name in self._subscribers
        }

    # -- opening and closing -----------------------------------------------------------------------

    async def open(self) -> None:
        """Open an epoch, recover transactions that dead processes of this name have left, and start the background
        work.

        Raises:
            ConfigurationError: the decision log cannot be reached, or is not installed.
        """
        try:
            await self._log.epoch("presumed_abort")
            await self.keeper.open()
        except psycopg.Error as error:
            await self.close()
            raise ConfigurationError(
                f"decision log of coordinator {self.coordinator!r}: {error}"
            ) from error
        except BaseException:
            await self.close()
            raise

    async def close(self) -> None:
        """Stop: roll back open transactions, and wait for those that are being committed. Idempotent."""
        # For as long as a commit may take to determine its outcome; recovery continues after that.
        if not await self._engine.stop(self._hub.in_doubt_after_s):
            count = len(self._engine.active)
            _log.warning("closed with transactions under way", count=count)
        await self.keeper.close()
        await self._plans.close()
        await self._finishers.close()
        await self._log.close()
        await together(*(one.close() for one in self._participants.values()))

    async def __aenter__(self) -> Self:
        await self.open()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    # -- transactions ------------------------------------------------------------------------------

    def transaction(
        self,
        subscriber: str,
        *,
        isolation: str | None = None,
        shipping: str = "eager",
        commit: str = "presumed_abort",
        role: str | None = None,
    ) -> Transaction:
        """Return a global transaction at a Subscriber, to be used in ``async with``.

        Args:
            subscriber: name of the Subscriber.
            isolation: ``read committed``, ``repeatable read`` or ``serializable``; None for the default of the
                database.
            shipping: ``eager``: each statement is applied at the Publisher at once; ``lazy``: all of them at
                commit.
            commit: ``presumed_abort``, ``presumed_commit``, ``presumed_nothing`` or ``last_agent``.
            role: role to use at the Subscriber; None for the role of the application's connection string.

        Raises:
            ConfigurationError: the Subscriber or an option does not exist.
        """
        plan = self._plans.of(subscriber, isolation, shipping, commit, role)
        return Transaction(self._engine, plan)

    def several(
        self,
        subscribers: Sequence[str],
        *,
        isolation: str | None = None,
        shipping: str = "eager",
        commit: str = "presumed_abort",
        role: str | None = None,
    ) -> SeveralTransaction:
        """Return a global transaction at several Subscribers, which commits at all of them or at none.

        At the Publisher each Subscriber has a branch of its own, with its own originator.

        Args:
            subscribers: names of the Subscribers.
            isolation: this and the rest as for `transaction`; there is no last agent.

        Raises:
            ConfigurationError: a Subscriber or an option does not exist, or the names are too long.
        """
        check(self.coordinator, self.publisher, subscribers, commit)
        return SeveralTransaction(
            self._engine,
            [self._plans.of(one, isolation, shipping, commit, role) for one in subscribers],
        )

    async def run(
        self,
        subscriber: str,
        statement: str,
        params: Sequence[Any] = (),
        *,
        isolation: str | None = None,
        shipping: str = "eager",
        commit: str = "presumed_abort",
        role: str | None = None,
    ) -> RunResult:
        """Run a transaction of one statement, in as few messages as possible.

        Args:
            subscriber: name of the Subscriber.
            statement: with ``$1``, ``$2`` ... for parameters; prepared at its first use in a session.
            params: values of the parameters.
            isolation: this and the rest as for `transaction`.

        Raises:
            RejectedError: the transaction was rolled back at both nodes.
            InDoubtError: the outcome is not known.
            ResultLostError: the transaction was committed; the statement's result is lost.
        """
        if _READS.match(statement):
            reading = self.transaction(subscriber, isolation=isolation, role=role)
            return await oneshot.read(reading, statement, params)
        plan = self._plans.of(subscriber, isolation, shipping, commit, role)
        return await self._engine.run(plan, statement, params)

    # -- recovery and inspection -------------------------------------------------------------------

    async def recover(self) -> list[SettledBranch]:
        """Run one pass of recovery now, and return the branches that it has settled.

        Raises:
            psycopg.Error: the distribution database cannot be reached.
        """
        return await self.keeper.recover()

    async def in_doubt(self) -> list[in_doubt.InDoubtBranch]:
        """Return every branch prepared at any participant, oldest first, with the action that will be taken.

        Raises:
            psycopg.Error: a server cannot be reached.
        """
        participants = [*self._participants.values()]
        return await in_doubt.in_doubt(self._log.database, participants, self.coordinator)

    async def heuristics(self) -> list[Heuristic]:
        """Return the branches of this coordinator that were finished without waiting for the decision."""
        return await heuristics.read(self._log.database, f"{PREFIX}:{self.coordinator}:")

    async def force(self, gid: str, outcome: Outcome, reason: str) -> Outcome:
        """Finish a prepared branch at an operator's request, which is recorded first; return the branch's outcome.

        Raises:
            ConfigurationError: the gid is not a branch of this coordinator, or is not prepared.
            psycopg.Error: the request was not recorded, or the branch not finished.
        """
        return await in_doubt.force(
            self._log.database, self._participants, self.coordinator, gid, outcome, reason
        )
