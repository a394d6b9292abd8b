"""Handling of a batch that fails.

A failure that may pass by itself is left to the next attempt. Otherwise the batch's transactions are tried
one by one, so that only the failing one is not delivered. If the Subscriber's own changes may be the cause,
all transactions up to one of the Subscriber's own are combined and applied as their net effect. Finally, if the
error is one to skip, the transaction is dropped and recorded; otherwise the error stops the agent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from twopc.distributed_article import DistributedArticle
from twopc.drivers.lean import ServerReport
from twopc.errors import SubscriptionError
from twopc.log import get_logger
from twopc.lsn import lsn_text
from twopc.proc_execution import CALL_TYPE, DEFINITION_TYPE, base_of
from twopc.subscriber.distribution_agent import steps as s
from twopc.subscriber.distribution_agent.delivery import Delivery
from twopc.subscriber.distribution_agent.failures import (
    Culprit,
    DeliveryFailure,
    delivery_error,
    is_conflict,
    is_duplicate,
    is_skipped,
    may_pass,
    number_of,
)
from twopc.subscriber.distribution_agent.loads import DecodedCommand, part_of
from twopc.subscriber.distribution_agent.planner import Batch, BatchPlanner
from twopc.subscriber.distribution_agent.ports import (
    AgentEvent,
    AheadError,
    PassingError,
    perform,
)
from twopc.subscriber.distribution_agent.profile import Profile
from twopc.subscriber.propagation import Layout, OrderedCommand, net_effect

logger = get_logger(__name__)

_NOT_SUPPORTED = "0A000"
_ONE_BY_ONE = 500


class Mending:
    """Handles a failure.

    Args:
        subscriber: name of the Subscriber.
        final: whether a conflict that no known own transaction explains is an error immediately.
    """

    def __init__(
        self, delivery: Delivery, subscriber: str, profile: Profile, *, final: bool
    ) -> None:
        self.delivery = delivery
        self.source = delivery.source
        self.target = delivery.target
        self._subscriber = subscriber
        self._profile = profile
        self._final = final

    async def mend(self, failure: DeliveryFailure) -> None:
        """Deliver the transactions of the failed batch that can be delivered.

        Raises:
            PassingError: a retry may help.
            AheadError: a retry may help once the log has been read further.
            DeliveryError: a retry does not help.
        """
        _raise_if_passing(failure.report)
        first = await self._deliver_one_by_one(failure.batch)
        if first is None:
            return
        _raise_if_passing(first.report)
        may_be_own = self.delivery.planner.own.originator is not None and is_conflict(first.report)
        if not (may_be_own and await self._apply_net_effects(first)):
            await self._skip_or_raise(first)

    async def _deliver_one_by_one(self, batch: Batch) -> DeliveryFailure | None:
        """Deliver each transaction of a batch in its own commit, command by command in the Publisher's order;
        return the first failure.
        """
        logger.info("batch tried one by one", upto=lsn_text(batch.upto))
        self.delivery.exact = True
        try:
            for each in batch.apart():
                failure = await self.delivery.serial([each])
                if failure is not None:
                    return failure
        finally:
            self.delivery.exact = False
        return None

    async def _apply_net_effects(self, failure: DeliveryFailure) -> bool:
        """Apply all transactions up to one of the Subscriber's own as their net effect; return whether this worked.

        Which own transaction made the conflicting row is unknown: the range is extended while conflicts
        remain.
        """
        barriers = await self.barriers()
        tried = 1
        while barriers:
            report = await self.apply_net(barriers[min(tried, len(barriers)) - 1])
            if report is None:
                return True
            if not is_conflict(report):
                _raise_if_passing(report)
                break
            if tried >= len(barriers):
                break
            tried *= 2
        if not self._final and is_duplicate(failure.report):
            seqno = lsn_text(failure.batch.upto)
            raise AheadError(
                f"{self._subscriber}: transaction {seqno} clashes with a row that may be the Subscriber's own:"
                f" {failure.report.message}",
                node=self._subscriber,
                sqlstate=failure.report.sqlstate,
                number=number_of(failure.report),
                seqno=seqno,
            )
        return False

    async def barriers(self) -> list[int]:
        """Return the commit positions of the Subscriber's own transactions after the position, in order."""
        own = self.delivery.planner.own.originator or 0
        return await self.source.own_transactions(self.target.position, own)

    async def apply_net(self, upto: int) -> ServerReport | None:
        """Apply all transactions up to a position as their net effect; return the failure, or None."""
        delivery, target = self.delivery, self.target
        planner = delivery.planner
        commands = [
            each
            async for each in self.source.commands(target.position, upto)
            if each.article_id in planner.articles_for(each.seqno, each.xid)
        ]
        # definitions touch no rows, so all of them may come first
        defining = [_with_code(each) for each in commands if each.type == DEFINITION_TYPE]
        rows = [
            replace(each, article_id=base_of(each.article_id))
            for each in commands
            if each.type != DEFINITION_TYPE
        ]
        net = net_of(rows, await self.source.articles(), planner)
        if isinstance(net, ServerReport):
            return net
        steps: list[s.Step] = [s.BeginBatch(), s.Move(target.position, upto)]
        if defining:
            steps.append(s.Apply(part_of(defining), exact=True))
        if net:
            steps.append(s.ApplyNet(tuple(net)))
        answer = await target.lines[0].send(*steps, s.CommitBatch())
        if answer.failure is not None:
            await target.lines[0].send(s.Rollback())
            return answer.failure
        passed = {each.seqno for each in commands if each.originator != planner.own.originator}
        delivery.counts.transactions += len(passed)
        delivery.counts.commands += len(net)
        delivery.counts.batches += 1
        target.position = delivery.seen = upto
        await self.source.history.event(
            AgentEvent(
                event="net",
                transactions=len(passed),
                commands=len(net),
                seqno=upto,
                message=f"{len(commands)} commands clashed with the Subscriber's own changes and were applied"
                f" as their net effect up to its own transaction {lsn_text(upto)}",
            )
        )
        return None

    async def _skip_or_raise(self, failure: DeliveryFailure) -> None:
        """Skip the transaction, or raise the error that stops the agent."""
        batch = failure.batch
        culprit = await self._find_culprit(batch)
        if culprit is None:
            raise PassingError(f"the second attempt went well: {failure.report}")
        report, constraint = culprit.report, culprit.constraint
        _raise_if_passing(report)
        is_constraint = not constraint or await self.target.is_constraint(constraint)
        number = number_of(report, is_constraint=is_constraint)
        error = delivery_error(self._subscriber, batch, culprit, number)
        if not is_skipped(report, number, self._profile.skip_errors):
            raise error
        # Record before skipping: a skip recorded twice is better than an unrecorded one.
        skipped = AgentEvent(
            event="skipped",
            transactions=1,
            seqno=batch.upto,
            error=str(number or report.sqlstate),
            message=str(error),
            command=culprit.text,
        )
        await self.source.history.event(skipped, durable=True)
        logger.warning("transaction skipped", seqno=lsn_text(batch.upto), error=report.message)
        await self.skip(batch)

    async def skip(self, batch: Batch) -> None:
        """Skip a whole transaction."""
        await self.delivery.skip(batch)

    async def _find_culprit(self, batch: Batch) -> Culprit | None:
        """Find the failing command by trying the transaction's commands one by one; roll all of them back."""
        first = self.target.lines[0]
        # outside a transaction block each command would be committed
        await perform(first, s.BeginBatch())
        try:
            culprit = await self._find_culprit_in(batch)
        except Exception:
            await first.send(s.Rollback())
            raise
        await first.send(s.Rollback())
        return culprit

    async def _find_culprit_in(self, batch: Batch) -> Culprit | None:
        planner = self.delivery.planner
        chunk: list[DecodedCommand] = []
        async for each in self.source.commands(batch.upto - 1, batch.upto):
            if each.article_id not in batch.articles:
                continue
            if planner.own.has(each.originator, each.article_id):
                continue
            chunk.append(each)
            if len(chunk) == _ONE_BY_ONE:
                if (culprit := await self._try(chunk)) is not None:
                    return culprit
                chunk = []
        if chunk and (culprit := await self._try(chunk)) is not None:
            return culprit
        answer = await self.target.lines[0].send(s.CheckConstraints())
        if answer.failure is None:
            return None
        return Culprit(report=answer.failure, constraint=answer.constraint)

    async def _try(self, commands: Sequence[DecodedCommand]) -> Culprit | None:
        steps = [s.Apply(part_of([_with_code(each)]), exact=True) for each in commands]
        answer = await self.target.lines[0].send(*steps)
        if answer.failure is None:
            return None
        each = commands[answer.failed_at]
        article_id = base_of(each.article_id)
        of_routine = each.type in (CALL_TYPE, DEFINITION_TYPE)
        return Culprit(
            report=answer.failure,
            constraint=answer.constraint,
            command_id=each.command_id,
            article=None if of_routine else (await self.source.articles()).get(article_id),
            routine=(await self.source.proc_articles()).get(article_id) if of_routine else None,
            type=each.type,
            command=each.command,
        )


def net_of(
    commands: Iterable[DecodedCommand],
    articles: Mapping[int, DistributedArticle],
    planner: BatchPlanner,
) -> list[tuple[int, bytes]] | ServerReport:
    """Return the net effect of commands, or a report if there is none.

    Args:
        commands: commands that the subscription takes, including the Subscriber's own.
        articles: the Publisher's, by number.
    """
    layouts = {
        article_id: Layout.of_article(each.article, each.propagation)
        for article_id, each in articles.items()
    }
    changes = [
        OrderedCommand(
            article_id=each.article_id,
            type=each.type,
            command=each.command.encode(),
            own=planner.own.has(each.originator, each.article_id),
        )
        for each in commands
    ]
    try:
        return net_effect(layouts, changes)
    except SubscriptionError as error:
        return ServerReport(message=str(error), sqlstate=_NOT_SUPPORTED)


def _with_code(command: DecodedCommand) -> tuple[int, bytes]:
    return command.article_id * 100 + command.type, command.command.encode()


def _raise_if_passing(report: ServerReport) -> None:
    if may_pass(report):
        raise PassingError(str(report))
