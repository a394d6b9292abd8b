"""Carries out what `subscriber.distribution_agent.mending_plan` asks for when a batch fails, in virtual time.

It must not decide anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from sim.model.distribution.loads import call_of
from sim.model.distribution.processes import at_once
from sim.model.words import Steps
from subscriber.distribution_agent.failures import Culprit, Failure
from subscriber.distribution_agent.loads import Command
from subscriber.distribution_agent.mending_plan import (
    Alone,
    Barriers,
    Find,
    Found,
    IsConstraint,
    Net,
    Request,
    Skip,
    mend,
    net_of,
)
from subscriber.distribution_agent.planner import Batch
from twopc.drivers.lean import Report
from twopc.lsn import lsn_text
from twopc.proc_execution import base_of

if TYPE_CHECKING:
    from sim.model.distribution.agent import DistributionAgent


class Mending:
    """Takes a failure of an agent's to its end."""

    def __init__(self, agent: DistributionAgent, *, final: bool) -> None:
        self._agent = agent
        self._final = final

    def mend(self, failure: Failure) -> Steps[None]:
        """Bring what can be brought. PassingError, AheadError, DeliveryError"""
        agent = self._agent
        plan = mend(
            failure,
            subscriber=agent.subscriber,
            own=agent.planner.own,
            skip_errors=agent.profile.skip_errors,
            final=self._final,
        )
        answer: Any = None
        while True:
            try:
                request = plan.send(answer)
            except StopIteration:
                return
            answer = yield from self._perform(request)

    def _perform(self, request: Request) -> Steps[Any]:
        match request:
            case Alone():
                return (yield from self._agent.alone(request.batch))
            case Barriers():
                return (yield from self._barriers())
            case Net():
                return (yield from self._net(request.upto))
            case Find():
                return (yield from self._find(request.batch))
            case IsConstraint():
                return self._is_constraint(request.name)
            case Skip():
                return (yield from self._skip(request))

    def _barriers(self) -> Steps[list[int]]:
        agent = self._agent
        assert agent.source is not None
        own, position = agent.planner.own or 0, agent.position
        return (
            yield from agent.source.ask(
                lambda _: at_once(agent.store.own_transactions(position, own)), "own transactions"
            )
        )

    def _commands(self, after: int, upto: int) -> Steps[list[Command]]:
        agent = self._agent
        assert agent.source is not None
        return (
            yield from agent.source.ask(
                lambda _: at_once(agent.store.commands(after, upto)), "commands"
            )
        )

    def _net(self, upto: int) -> Steps[Report | None]:
        """None if it worked."""
        from sim.model.distribution.agent import report_of

        agent, planner = self._agent, self._agent.planner
        assert agent.target is not None
        commands = [
            each
            for each in (yield from self._commands(agent.position, upto))
            if each.article_id in planner.wanted(each.seqno, each.xid)
        ]
        net = net_of(commands, agent.registry.articles, planner)
        if isinstance(net, Report):
            return net
        error = yield from agent.target.net(upto, [(code, text.decode()) for code, text in net])
        if error is not None:
            return report_of(error)
        passed = {each.seqno for each in commands if each.originator != planner.own}
        agent.counts.transactions += len(passed)
        agent.counts.commands += len(net)
        agent.counts.batches += 1
        agent.seen = upto
        yield from agent.tell(
            "net",
            upto,
            f"{len(commands)} commands clashed with the Subscriber's own changes and were applied as their"
            f" net effect up to its own transaction {lsn_text(upto)}",
            transactions=len(passed),
            commands=len(net),
        )
        return None

    def _find(self, batch: Batch) -> Steps[Found | None]:
        from sim.model.distribution.agent import report_of

        agent, planner = self._agent, self._agent.planner
        assert agent.target is not None
        commands = [
            each
            for each in (yield from self._commands(batch.upto - 1, batch.upto))
            if each.article_id in batch.articles and not agent.habits.is_own(each, planner)
        ]
        found = yield from agent.target.try_out([call_of(each) for each in commands])
        if found is None:
            return None
        at, error = found
        culprit = Culprit()
        if at is not None:
            each = commands[at]
            culprit = Culprit(
                command_id=each.command_id,
                article=agent.registry.articles.get(base_of(each.article_id)),
                routine=agent.registry.routines.get(base_of(each.article_id)),
                type=each.type,
                command=each.command,
            )
        return Found(culprit=culprit, report=report_of(error), constraint=error.constraint)

    def _is_constraint(self, name: str) -> bool:
        indexes = {
            index.name: index.constraint
            for table in self._agent.node.tables.values()
            for index in table.indexes
        }
        return indexes.get(name, True)

    def _skip(self, request: Skip) -> Steps[None]:
        agent, batch = self._agent, request.batch
        yield from agent.tell(
            "skipped", batch.upto, request.message, error=request.error, transactions=1
        )
        yield from agent.reach("agent.before_skip")
        yield from agent.move(batch.upto)
        agent.counts.skipped += 1
