"""Classification and description of failures at the Subscriber, and whether a retry may help. Pure."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from twopc.distributed_article import DistributedArticle, read_command
from twopc.drivers.lean import ServerReport
from twopc.errors import DeliveryError, conflict_facts
from twopc.lsn import lsn_text
from twopc.proc_execution import CALL_TYPE, ProcArticle, ProcCall, call_text
from twopc.propagation import TYPE_OF, Format, parameters, record_values
from twopc.subscriber.distribution_agent.planner import Batch

ROW_NOT_FOUND = 20598
_DUPLICATE = "23505"

#: Classes and SQLSTATEs of failures that may pass by themselves: connections, deadlocks and serialization,
#: resources, an operator's intervention, the system.
_PASSING = ("08", "40", "53", "57", "58")
_LOCK_TIMEOUT = "55P03"
#: Maximum number of characters shown of a command, and of a key.
_SHOWN_MAX = 2000
_ENDS_TRANSACTION = "2D000"
#: Missing column, table or function, other type, generated column: procedures generated before an ALTER
#: TABLE.
_STALE = ("42703", "42P01", "42883", "42804", "428C9")
_OPERATIONS: dict[int, str] = {kind: operation for operation, kind in TYPE_OF.items()}


@dataclass(frozen=True, slots=True, kw_only=True)
class DeliveryFailure:
    """The failure of a delivery."""

    batch: Batch
    report: ServerReport


@dataclass(frozen=True, slots=True, kw_only=True)
class Culprit:
    """The command at which a source transaction fails; without a command, constraints fail at its commit."""

    report: ServerReport
    constraint: str = ""
    """See `StepsAnswer.constraint`."""
    command_id: int = 0
    article: DistributedArticle | None = None
    routine: ProcArticle | None = None
    """Routine that the command calls or redefines; `article` is then None."""
    type: int = 0
    command: str = ""

    @property
    def text(self) -> str:
        """The command in readable form."""
        if not self.command_id:
            return ""
        if self.routine is not None and self.type == CALL_TYPE:
            text = call_text(self.routine, ProcCall.parse(self.command))
        else:
            text = read_command(self.article, self.type, self.command).text
        if len(text) <= _SHOWN_MAX:
            return text
        return f"{text[:_SHOWN_MAX]}… ({len(text)} characters)"

    @property
    def key(self) -> str:
        """Key of the row as given by the command: ``id = 5``; empty if the command contains no key."""
        operation = _OPERATIONS.get(self.type)
        if operation is None or self.article is None:
            return ""
        article, form = self.article.article, self.article.propagation.method(operation).format
        if form in (Format.SQL, Format.NONE):
            return ""
        requested = parameters(article, operation, form)
        values = record_values(self.command.encode())
        if len(requested) != len(values):
            return ""
        images = {each.image for each in requested}
        image = next(each for each in ("key", "old", "new") if each in images)
        results = {
            parameter.column.name: value
            for parameter, value in zip(requested, values, strict=True)
            if parameter.image == image and parameter.column is not None
        }
        text = ", ".join(
            f"{name} = {'NULL' if (value := results[name]) is None else value.decode()}"
            for name in article.key
        )
        return text[:_SHOWN_MAX]


def may_pass(report: ServerReport) -> bool:
    """Return whether the same operation may succeed a little later."""
    return report.sqlstate[:2] in _PASSING or report.sqlstate in ("", _LOCK_TIMEOUT)


def number_of(report: ServerReport, *, is_constraint: bool = True) -> int:
    """Return the original's number of an error; 0 if it has none.

    Args:
        is_constraint: whether a duplicate key violates a constraint, not only a unique index.
    """
    facts = conflict_facts(report.detail)
    if facts is not None and facts.get("number"):
        return int(facts["number"])
    if report.sqlstate == _DUPLICATE:
        return 2627 if is_constraint else 2601
    return 0


def is_duplicate(report: ServerReport) -> bool:
    """Return whether a row with the same key is in the way.

    The row may be the Subscriber's own, made by a transaction that has not been read from the log yet, while the
    Publisher inserted and deleted a row with this key before.
    """
    return report.sqlstate == _DUPLICATE


def is_conflict(report: ServerReport) -> bool:
    """Return whether the Subscriber's own changes may be the cause: a duplicate key, or a missing row."""
    return is_duplicate(report) or number_of(report) == ROW_NOT_FOUND


def is_skipped(report: ServerReport, number: int, skip_errors: Collection[str]) -> bool:
    """Return whether an error is one to skip."""
    return report.sqlstate in skip_errors or (number != 0 and str(number) in skip_errors)


def delivery_error(subscriber: str, batch: Batch, culprit: Culprit, number: int) -> DeliveryError:
    """Return the error that stops the agent: it names transaction, command, row, and the remedy."""
    seqno, report = lsn_text(batch.upto), culprit.report
    where = [f"transaction {seqno}"]
    if culprit.command_id:
        where.append(f"command {culprit.command_id}")
    if culprit.article is not None:
        where.append(f"table {culprit.article.article.name}")
        if culprit.key:
            where.append(culprit.key)
    if culprit.routine is not None:
        what = "call" if culprit.type == CALL_TYPE else "definition"
        where.append(f"{what} of {culprit.routine.identity}")
    called = f"{number} " if number and str(number) not in report.message else ""
    text = f": {culprit.text}" if culprit.text else ""
    hint = f" {report.hint.rstrip('.')}." if report.hint else ""
    if report.sqlstate == _ENDS_TRANSACTION:
        hint = (
            " The agent commits whole transactions of the Publisher: take COMMIT and ROLLBACK out of the"
            " custom procedure."
        )
    elif report.sqlstate in _STALE and culprit.article is not None and not hint:
        hint = (
            " If the table was altered at the Subscriber, alter it alike at the Publisher and run: twopc regenerate"
            f" {culprit.article.article.name}."
        )
    return DeliveryError(
        f"{subscriber}: {', '.join(where)}{text}: {called}{report.message.rstrip('.')}.{hint} Nothing of the transaction"
        " was applied; what came before it was.",
        node=subscriber,
        sqlstate=report.sqlstate,
        number=number,
        seqno=seqno,
        command=culprit.text,
    )
