"""What an agent does when a batch fails, as a plan: a generator of requests that is sent what came of each. Pure.

A failure that may pass by itself is left to the next attempt. Otherwise the batch's transactions are tried
one by one, so that only the one that fails does not come through. If the Subscriber's own changes may be
the reason, everything up to one of its own transactions is taken together and applied as its net effect.
Then, if the error is one to pass over, the transaction is dropped and recorded; else it stops the agent.
"""

from __future__ import annotations

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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
from subscriber.distribution_agent.planner import Batch, Planner
from subscriber.propagation import Change, Layout, net_effect
from twopc.distributed import DistributedArticle
from twopc.drivers.lean import Report
from twopc.errors import DeliveryError, SubscriptionError
from twopc.lsn import lsn_text

_NOT_SUPPORTED = "0A000"


class PassingError(Exception):
    """It may work a little later."""


class AheadError(DeliveryError):
    """A command clashes with what may be the Subscriber's own change, and that change has not come through
    the Publisher's log yet: it is tried again when more of the log has been read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Alone:
    """Bring each transaction of a batch in a commit of its own, command by command in the Publisher's order.

    Answered by the first `Failure`, or None.
    """

    batch: Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Barriers:
    """Which transactions after the position are the Subscriber's own: their positions, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Net:
    """Apply everything up to a position as its net effect; answered by a `Report`, or None if it worked."""

    upto: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Find:
    """Try a transaction's commands one by one, and take all of them back again.

    Answered by `Found`, or None if none fails now.
    """

    batch: Batch


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """The command that fails, or, without one, the check at the commit."""

    culprit: Culprit
    report: Report
    constraint: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class IsConstraint:
    """Whether something of this name is a constraint, and no plain unique index."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Skip:
    """Record that a transaction is dropped, durably, and then move the position past it.

    Recorded first: a skip that is recorded twice is better than one that nobody knows of.
    """

    batch: Batch
    error: str
    """The number or SQLSTATE."""
    message: str
    command: str
    report: Report


Request = Alone | Barriers | Net | Find | IsConstraint | Skip
Plan = Generator[Request, Any, None]


def mend(
    failure: Failure, *, subscriber: str, own: int | None, skip_errors: Collection[str], final: bool
) -> Plan:
    """Bring what can be brought of the batch that failed.

    Args:
        own: the Subscriber as an originator; None if its changes come back like others'.
        skip_errors: see `Profile`.
        final: what clashes with no own transaction that is known is an error at once.

    Raises:
        PassingError: trying again may help.
        AheadError: so it may, once the log has been read further.
        DeliveryError: it does not.
    """
    _pass(failure.report)
    found: Failure | None = yield Alone(batch=failure.batch)
    if found is None:
        return
    failure = found
    _pass(failure.report)
    may_be_own = own is not None and is_conflict(failure.report)
    if may_be_own and (yield from _net(failure, subscriber, final=final)):
        return
    yield from _end(failure, subscriber, skip_errors)


def _net(failure: Failure, subscriber: str, *, final: bool) -> Generator[Request, Any, bool]:
    """Apply everything up to one of the Subscriber's own transactions as its net effect.

    Which one made the row that is in the way is not known: the range is made longer as long as
    something is.
    """
    barriers: Sequence[int] = yield Barriers()
    tried = 1
    while barriers:
        upto = barriers[min(tried, len(barriers)) - 1]
        found: Report | None = yield Net(upto=upto)
        if found is None:
            return True
        if not is_conflict(found):
            _pass(found)
            break
        if tried >= len(barriers):
            break
        tried *= 2
    if not final and is_duplicate(failure.report):
        seqno = lsn_text(failure.batch.upto)
        raise AheadError(
            f"{subscriber}: transaction {seqno} clashes with a row that may be the Subscriber's own:"
            f" {failure.report.message}",
            node=subscriber,
            sqlstate=failure.report.sqlstate,
            number=number_of(failure.report),
            seqno=seqno,
        )
    return False


def _end(failure: Failure, subscriber: str, skip_errors: Collection[str]) -> Plan:
    """Pass over the transaction, or stop."""
    found: Found | None = yield Find(batch=failure.batch)
    if found is None:
        raise PassingError(f"the second attempt went well: {failure.report}")
    report = found.report
    _pass(report)
    is_constraint = True
    if found.constraint:
        is_constraint = yield IsConstraint(name=found.constraint)
    number = number_of(report, is_constraint=is_constraint)
    error = delivery_error(subscriber, failure.batch, found.culprit, report, number)
    if not is_skipped(report, number, skip_errors):
        raise error
    yield Skip(
        batch=failure.batch,
        error=str(number or report.sqlstate),
        message=str(error),
        command=found.culprit.text,
        report=report,
    )


def net_of(
    commands: Iterable[Command], articles: Mapping[int, DistributedArticle], planner: Planner
) -> list[tuple[int, bytes]] | Report:
    """What commands amount to; a report where that cannot be worked out.

    Args:
        commands: those that the subscription takes, the Subscriber's own among them.
        articles: the Publisher's, by number.
    """
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
        return net_effect(layouts, changes)
    except SubscriptionError as error:
        return Report(message=str(error), sqlstate=_NOT_SUPPORTED)


def _pass(report: Report) -> None:
    if may_pass(report):
        raise PassingError(str(report))
