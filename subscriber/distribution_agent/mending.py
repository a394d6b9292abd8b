"""What an agent does when a batch fails: finds the culprit, and goes around it if it may.

A failure that may pass by itself is left to the next attempt. Otherwise the batch's transactions are tried
one by one, so that only the one that fails does not come through. If the Subscriber's own changes may be
the reason, everything up to one of its own transactions is taken together and applied as its net effect.
Then, if the error is one to pass over, the transaction is dropped and recorded; else it stops the agent.
"""

from __future__ import annotations

from collections.abc import Sequence

from subscriber.distribution_agent.arrays import block
from subscriber.distribution_agent.delivery import Delivery
from subscriber.distribution_agent.failures import (
    Culprit,
    Failure,
    delivery_error,
    is_conflict,
    is_duplicate,
    is_skipped,
    may_pass,
    number_of,
)
from subscriber.distribution_agent.loads import Command
from subscriber.distribution_agent.pipe import Statement, Step
from subscriber.distribution_agent.planner import Batch
from subscriber.distribution_agent.profile import Profile
from subscriber.distribution_agent.reporting import Reporting
from subscriber.distribution_agent.target import BEGIN, CHECK_NOW, COMMIT, ROLLBACK
from subscriber.propagation import Change, Layout, net_effect
from twopc.drivers.lean import Report
from twopc.errors import DeliveryError, SubscriptionError
from twopc.log import get_logger
from twopc.lsn import lsn_text

logger = get_logger(__name__)

_IS_CONSTRAINT = Statement(
    """
    select exists (
        select from pg_constraint k join pg_class c on c.oid = k.conrelid
        join pg_namespace n on n.oid = c.relnamespace
        where concat_ws('.', n.nspname, c.relname, k.conname) = $1)
    """
)
_APPLY_NET = Statement("select msrepl.apply_net($1::int[], $2::text[])", binary=True)
_NOT_SUPPORTED = "0A000"
_ONE_BY_ONE = 500


class PassingError(Exception):
    """It may work a little later."""


class AheadError(DeliveryError):
    """A command clashes with what may be the Subscriber's own change, and that change has not come through
    the Publisher's log yet: it is tried again when more of the log has been read."""


class Mending:
    """Takes a failure to its end.

    Args:
        final: what clashes with no own transaction that is known is an error at once.
    """

    def __init__(
        self, delivery: Delivery, reporting: Reporting, profile: Profile, *, final: bool
    ) -> None:
        self._delivery = delivery
        self._source = delivery.source
        self._target = delivery.target
        self._reporting = reporting
        self._profile = profile
        self._final = final

    async def mend(self, failure: Failure) -> None:
        """Bring what can be brought of the batch that failed.

        Raises:
            PassingError: trying again may help.
            AheadError: so it may, once the log has been read further.
            DeliveryError: it does not.
        """
        _pass(failure.report)
        logger.info("batch tried one by one", upto=lsn_text(failure.batch.upto))
        found = await self._alone(failure.batch)
        if found is None:
            return
        failure = found
        _pass(failure.report)
        own = self._delivery.planner.own
        if own is not None and is_conflict(failure.report) and await self._net(failure):
            return
        await self._end(failure)

    async def _alone(self, batch: Batch) -> Failure | None:
        """Bring each transaction of a batch in a commit of its own, command by command in the Publisher's
        order; the first that fails."""
        self._delivery.exact = True
        try:
            for each in batch.apart():
                failure = await self._delivery.serial([each])
                if failure is not None:
                    return failure
        finally:
            self._delivery.exact = False
        return None

    # -- the Subscriber's own changes -----------------------------------------------------------

    async def _net(self, failure: Failure) -> bool:
        """Apply everything up to one of the Subscriber's own transactions as its net effect.

        Which one made the row that is in the way is not known: the range is made longer as long as
        something is.
        """
        delivery, position = self._delivery, self._target.position
        barriers = await self._source.own_transactions(position, delivery.planner.own or 0)
        tried = 1
        while barriers:
            upto = barriers[min(tried, len(barriers)) - 1]
            found = await self._apply_net(position, upto)
            if found is None:
                return True
            if not is_conflict(found):
                _pass(found)
                break
            if tried >= len(barriers):
                break
            tried *= 2
        if not self._final and is_duplicate(failure.report):
            raise AheadError(
                f"{self._source.subscriber}: transaction {lsn_text(failure.batch.upto)} clashes with a row"
                f" that may be the Subscriber's own: {failure.report.message}",
                node=self._source.subscriber,
                sqlstate=failure.report.sqlstate,
                number=number_of(failure.report),
                seqno=lsn_text(failure.batch.upto),
            )
        return False

    async def _apply_net(self, position: int, upto: int) -> Report | None:
        """None if it worked."""
        delivery, target = self._delivery, self._target
        planner = delivery.planner
        commands = [
            each
            async for each in self._source.commands(position, upto)
            if each.article_id in planner.wanted(each.seqno, each.xid)
        ]
        articles = await self._source.articles()
        layouts = {
            article_id: Layout.of_article(each.article, each.propagation)
            for article_id, each in articles.items()
        }
        changes = [
            Change(
                article_id=each.article_id,
                type=each.type,
                command=each.command.encode(),
                own=each.originator == planner.own and each.article_id not in planner.echoed,
            )
            for each in commands
        ]
        try:
            net = net_effect(layouts, changes)
        except SubscriptionError as error:
            return Report(message=str(error), sqlstate=_NOT_SUPPORTED)
        steps: list[Step] = [(BEGIN, ()), target.move(position, upto)]
        if net:
            steps.append((_APPLY_NET, block(net)))
        answer = await target.first.run(*steps, (COMMIT, ()))
        if answer.failure is not None:
            await target.first.run((ROLLBACK, ()))
            return answer.failure
        passed = {each.seqno for each in commands if each.originator != planner.own}
        delivery.counts.transactions += len(passed)
        delivery.counts.commands += len(net)
        delivery.counts.batches += 1
        target.position = delivery.seen = upto
        await self._reporting.event(
            "net",
            transactions=len(passed),
            commands=len(net),
            seqno=upto,
            message=f"{len(commands)} commands clashed with the Subscriber's own changes and were applied"
            f" as their net effect up to its own transaction {lsn_text(upto)}",
        )
        return None

    # -- the end ----------------------------------------------------------------------------------

    async def _end(self, failure: Failure) -> None:
        """Pass over the transaction, or stop."""
        culprit, report, constraint = await self._find(failure)
        _pass(report)
        number = number_of(report, is_constraint=await self._is_constraint(constraint))
        batch, profile = failure.batch, self._profile
        error = delivery_error(self._source.subscriber, batch, culprit, report, number)
        if not is_skipped(report, number, profile.skip_errors):
            raise error
        # recorded first: a skip that is recorded twice is better than one that nobody knows of
        await self._reporting.event(
            "skipped",
            transactions=1,
            seqno=batch.upto,
            error=str(number or report.sqlstate),
            message=str(error),
            command=culprit.text,
            sure=True,
        )
        logger.warning("transaction skipped", seqno=lsn_text(batch.upto), error=report.message)
        await self._delivery.skip(batch)

    async def _find(self, failure: Failure) -> tuple[Culprit, Report, str]:
        """Try the transaction's commands one by one, and take all of them back again."""
        batch, first = failure.batch, self._target.first
        planner = self._delivery.planner
        await first.run((BEGIN, ()))
        try:
            chunk: list[Command] = []
            async for each in self._source.commands(batch.upto - 1, batch.upto):
                own = each.originator == planner.own and each.article_id not in planner.echoed
                if own or each.article_id not in batch.articles:
                    continue
                chunk.append(each)
                if len(chunk) == _ONE_BY_ONE:
                    if (found := await self._try(chunk)) is not None:
                        return found
                    chunk = []
            if chunk and (found := await self._try(chunk)) is not None:
                return found
            answer = await first.run((CHECK_NOW, ()))
            if answer.failure is not None:
                return Culprit(), answer.failure, answer.constraint
        finally:
            await first.run((ROLLBACK, ()))
        if may_pass(failure.report):
            return Culprit(), failure.report, failure.constraint
        raise PassingError(f"the second attempt went well: {failure.report}")

    async def _try(self, commands: Sequence[Command]) -> tuple[Culprit, Report, str] | None:
        applier = self._delivery.applier
        steps = [
            applier.one_by_one(*block([(each.article_id * 100 + each.type, each.command.encode())]))
            for each in commands
        ]
        answer = await self._target.first.run(*steps)
        if answer.failure is None:
            return None
        each = commands[answer.failed_at]
        articles = await self._source.articles()
        culprit = Culprit(
            command_id=each.command_id,
            article=articles.get(each.article_id),
            type=each.type,
            command=each.command,
        )
        return culprit, answer.failure, answer.constraint

    async def _is_constraint(self, constraint: str) -> bool:
        if not constraint:
            return True
        answer = await self._target.first.run((_IS_CONSTRAINT, (constraint.encode(),)))
        return answer.failure is not None or answer.rows(0) == [("t",)]


def _pass(report: Report) -> None:
    if may_pass(report):
        raise PassingError(str(report))
