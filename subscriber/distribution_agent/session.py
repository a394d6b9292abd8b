"""A session at a Subscriber on a server: the statements that perform an agent's steps.

The module must not know which steps come next.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from functools import partial

from twopc.drivers.lean import ServerReport
from twopc.lsn import lsn_text
from twopc.subscriber.distribution_agent import steps as s
from twopc.subscriber.distribution_agent.arrays import block
from twopc.subscriber.distribution_agent.dispatch import dispatch_text, handlers, run_text
from twopc.subscriber.distribution_agent.loads import StreamPart, SubscribedArticles
from twopc.subscriber.distribution_agent.pipe import Pipe, PipeAnswer, Query, Statement

#: Minimum number of commands that are tried as a set.
_SET_MIN = 32
#: Binary logarithm of the maximum number of parts applied one by one before a set is tried again.
_FAILURES_MAX = 10
_PREPARED = b"PREPARE TRANSACTION"

#: A commit keeps settings that code of a table's owner has made; RESET ALL restores the agent's.
_BEGIN = ((Statement("begin"), ()), (Statement("reset all"), ()))
_COMMIT = Statement("commit")
_ROLLBACK = Statement("rollback")
_MOVE = Statement("select msrepl.move_position($1, $2::pg_lsn, $3::pg_lsn)")
_DURABLE = Statement("set local synchronous_commit = on")
_APPLY_NET = Statement("select msrepl.apply_net($1::int[], $2::text[])", binary=True)
_CHECK_NOW = Statement("set constraints all immediate", kept=False)


class Applier:
    """Chooses the statement that applies a part, from the functions of the subscribed articles."""

    def __init__(self) -> None:
        self.subscribe(SubscribedArticles())

    def subscribe(self, subscription: SubscribedArticles) -> None:
        """Take over the functions of the subscribed articles."""
        by_code = handlers(subscription)
        self._mixed = Statement(dispatch_text(by_code), binary=True)
        self._runs = {
            code: Statement(run_text(taker), binary=True)
            for code, taker in by_code.items()
            if taker.many
        }
        self._parts_one_by_one: dict[int, int] = {}
        """For codes whose calls failed as a set: number of parts to apply one by one."""
        self._failures: dict[int, int] = {}

    def query(self, part: StreamPart, *, exact: bool) -> Query:
        """Return the query that applies a part: as a set if all commands are of one type, or one by one if `exact`."""
        params = (part.codes, part.calls)
        code = part.low
        if exact or part.count < _SET_MIN or code != part.high or code not in self._runs:
            return self._mixed, params
        if self._parts_one_by_one.get(code, 0) > 0:
            self._parts_one_by_one[code] -= 1
            return self._mixed, params
        return self._runs[code], params

    def learn(self, part: StreamPart, statement: Statement, is_set: bool) -> None:
        """Remember whether a part was applied as a set: a failed attempt as a set costs extra time."""
        if self._runs.get(part.low) is not statement:
            return
        if is_set:
            self._failures.pop(part.low, None)
            return
        failures = min(self._failures.get(part.low, 0) + 1, _FAILURES_MAX)
        self._failures[part.low], self._parts_one_by_one[part.low] = failures, 2**failures


class AgentSession:
    """See `twopc.subscriber.distribution_agent.ports.SessionPort`.

    Args:
        pipe: used exclusively by the session, from its first step on.
        publisher: name under which the position is stored.
    """

    def __init__(self, pipe: Pipe, publisher: str, applier: Applier) -> None:
        self.pipe = pipe
        self._publisher = publisher.encode()
        self._applier = applier

    def send(self, *steps: s.Step) -> asyncio.Future[PipeAnswer]:
        queries: list[Query] = []
        places: list[int] = []
        """Place of each step's first statement."""
        for step in steps:
            places.append(len(queries))
            queries += self._queries(step)
        return self.pipe.send(*queries, complete=partial(self._complete, steps, places, queries))

    def _queries(self, step: s.Step) -> Sequence[Query]:
        match step:
            case s.BeginBatch():
                return _BEGIN
            case s.Move():
                was, becomes = lsn_text(step.was).encode(), lsn_text(step.becomes).encode()
                return ((_MOVE, (self._publisher, was, becomes)),)
            case s.Apply():
                return (self._applier.query(step.part, exact=step.exact),)
            case s.ApplyNet():
                return ((_APPLY_NET, block(step.commands)),)
            case s.CheckConstraints():
                return ((_CHECK_NOW, ()),)
            case s.MakeDurable():
                return ((_DURABLE, ()),)
            case s.Prepare():
                return ((Statement(f"prepare transaction '{step.gid}'", kept=False), ()),)
            case s.CommitBatch():
                return ((_COMMIT, ()),)
            case s.Rollback():
                return ((_ROLLBACK, ()),)
            case s.FinishPrepared():
                verb = "commit" if step.commit else "rollback"
                return ((Statement(f"{verb} prepared '{step.gid}'", kept=False), ()),)

    def _complete(
        self,
        steps: Sequence[s.Step],
        places: Sequence[int],
        queries: Sequence[Query],
        answer: PipeAnswer,
    ) -> None:
        """Set the step at which an answer failed, and learn from a successful answer."""
        if answer.failure is not None:
            answer.failed_at = bisect_right(places, answer.failed_at) - 1
            return
        for step, place in zip(steps, places, strict=True):
            if isinstance(step, s.Apply):
                is_set = answer.results[place].get_value(0, 0) is None
                self._applier.learn(step.part, queries[place][0], is_set)
            elif isinstance(step, s.Prepare) and answer.tag(place) != _PREPARED:
                answer.failure = ServerReport(
                    message="the transaction had failed and was rolled back", sqlstate="25P02"
                )
