"""Carries out what `mending_plan` asks for when a batch fails, at both databases.

It must not decide anything.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from subscriber.distribution_agent.arrays import block
from subscriber.distribution_agent.delivery import Delivery
from subscriber.distribution_agent.failures import Culprit, Failure
from subscriber.distribution_agent.loads import Command
from subscriber.distribution_agent.mending_plan import (
    AheadError,
    Alone,
    Barriers,
    Find,
    Found,
    IsConstraint,
    Net,
    PassingError,
    Request,
    Skip,
    mend,
    net_of,
)
from subscriber.distribution_agent.pipe import Statement, Step
from subscriber.distribution_agent.planner import Batch
from subscriber.distribution_agent.profile import Profile
from subscriber.distribution_agent.reporting import Reporting
from subscriber.distribution_agent.target import BEGINNING, CHECK_NOW, COMMIT, ROLLBACK
from twopc.drivers.lean import Report
from twopc.log import get_logger
from twopc.lsn import lsn_text
from twopc.proc_execution import CALL_TYPE, DEFINITION_TYPE, base_of

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
_ONE_BY_ONE = 500


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
        plan = mend(
            failure,
            subscriber=self._source.subscriber,
            own=self._delivery.planner.own,
            skip_errors=self._profile.skip_errors,
            final=self._final,
        )
        answer: Any = None
        while True:
            try:
                request = plan.send(answer)
            except StopIteration:
                return
            answer = await self._perform(request)

    async def _perform(self, request: Request) -> Any:
        match request:
            case Alone():
                return await self._alone(request.batch)
            case Barriers():
                own = self._delivery.planner.own or 0
                return await self._source.own_transactions(self._target.position, own)
            case Net():
                return await self._apply_net(self._target.position, request.upto)
            case Find():
                return await self._find(request.batch)
            case IsConstraint():
                return await self._is_constraint(request.name)
            case Skip():
                return await self._skip(request)

    async def _alone(self, batch: Batch) -> Failure | None:
        """Bring each transaction of a batch in a commit of its own, command by command in the Publisher's
        order; the first that fails."""
        logger.info("batch tried one by one", upto=lsn_text(batch.upto))
        self._delivery.exact = True
        try:
            for each in batch.apart():
                failure = await self._delivery.serial([each])
                if failure is not None:
                    return failure
        finally:
            self._delivery.exact = False
        return None

    async def _apply_net(self, position: int, upto: int) -> Report | None:
        """None if it worked."""
        delivery, target = self._delivery, self._target
        planner = delivery.planner
        commands = [
            each
            async for each in self._source.commands(position, upto)
            if each.article_id in planner.wanted(each.seqno, each.xid)
        ]
        # definitions touch no rows, so they may all come first
        defining = [each for each in commands if each.type == DEFINITION_TYPE]
        rows = [
            replace(each, article_id=base_of(each.article_id))
            for each in commands
            if each.type != DEFINITION_TYPE
        ]
        net = net_of(rows, await self._source.articles(), planner)
        if isinstance(net, Report):
            return net
        steps: list[Step] = [*BEGINNING, target.move(position, upto)]
        if defining:
            steps.append(delivery.applier.one_by_one(*block([_coded(each) for each in defining])))
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

    async def _find(self, batch: Batch) -> Found | None:
        """Try the transaction's commands one by one, and take all of them back again."""
        first = self._target.first
        planner = self._delivery.planner
        await first.run(*BEGINNING)
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
                return Found(culprit=Culprit(), report=answer.failure, constraint=answer.constraint)
        finally:
            await first.run((ROLLBACK, ()))
        return None

    async def _try(self, commands: Sequence[Command]) -> Found | None:
        applier = self._delivery.applier
        steps = [applier.one_by_one(*block([_coded(each)])) for each in commands]
        answer = await self._target.first.run(*steps)
        if answer.failure is None:
            return None
        each = commands[answer.failed_at]
        article_id = base_of(each.article_id)
        of_routine = each.type in (CALL_TYPE, DEFINITION_TYPE)
        culprit = Culprit(
            command_id=each.command_id,
            article=None if of_routine else (await self._source.articles()).get(article_id),
            routine=(await self._source.proc_articles()).get(article_id) if of_routine else None,
            type=each.type,
            command=each.command,
        )
        return Found(culprit=culprit, report=answer.failure, constraint=answer.constraint)

    async def _skip(self, request: Skip) -> None:
        batch = request.batch
        await self._reporting.event(
            "skipped",
            transactions=1,
            seqno=batch.upto,
            error=request.error,
            message=request.message,
            command=request.command,
            sure=True,
        )
        logger.warning(
            "transaction skipped", seqno=lsn_text(batch.upto), error=request.report.message
        )
        await self._delivery.skip(batch)

    async def _is_constraint(self, constraint: str) -> bool:
        answer = await self._target.first.run((_IS_CONSTRAINT, (constraint.encode(),)))
        return answer.failure is not None or answer.rows(0) == [("t",)]


def _coded(command: Command) -> tuple[int, bytes]:
    return command.article_id * 100 + command.type, command.command.encode()


__all__ = ["AheadError", "Mending", "PassingError"]
