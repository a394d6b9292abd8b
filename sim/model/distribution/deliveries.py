"""Transactions that agents have delivered, suppressed and skipped. Without I/O."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from twopc.distributed_article import DistributedArticle, command_words
from twopc.lsn import lsn_text
from twopc.proc_execution import (
    CALL_TYPE,
    DEFINITION_TYPE,
    ProcArticle,
    ProcCall,
    base_of,
    call_text,
)
from twopc.sim.model.distribution.store import StoredTransaction
from twopc.subscriber.distribution_agent.loads import DecodedCommand
from twopc.subscriber.distribution_agent.planner import ArticleTerms, OwnCommands

#: Greatest number of commands shown for one transaction.
_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDelivery:
    """The treatment of one transaction by an agent, or of the part of it that has one originator."""

    node: str
    """Subscriber."""
    seqno: str
    """Position of the transaction in the Publisher's order."""
    origin: str
    """Subscriber from which the transaction came, or else the Publisher's name."""
    gid: str = ""
    """Global transaction, without a branch; empty for a plain transaction."""
    commands: tuple[str, ...] = ()
    """Commands as text, for example ``update account id=1``."""
    calls: int = 0
    """Number of commands that are calls of routines."""
    definitions: int = 0
    """Number of commands that are definitions of routines."""
    suppressed: bool = False
    """Whether the transaction was the Subscriber's own and was therefore not delivered."""
    skipped: str = ""
    """Error because of which the transaction was skipped."""


def deliveries(
    transactions: Sequence[StoredTransaction], terms: Sequence[ArticleTerms], articles: Mapping[int, DistributedArticle], *,
    routines: Mapping[int, ProcArticle], node: str, origin: Callable[[int | None], str], gids: Mapping[int, str], skipped: Mapping[int, str],
) -> list[ModelDelivery]:  # fmt: skip
    """Return what an agent did with transactions.

    Args:
        terms: the Subscriber's terms.
        origin: returns the name for the number of an originator.
        gids: global transactions by the Publisher's transaction id.
        skipped: errors by position.
    """
    by_article = {each.article_id: each for each in terms}
    own = OwnCommands.of(terms)
    results = []
    for each in transactions:
        parts: dict[int | None, list[DecodedCommand]] = {}
        for command in each.commands:
            wants = by_article.get(command.article_id)
            if wants is not None and wants.wants(each.seqno, each.xid):
                parts.setdefault(command.originator, []).append(command)
        for number, commands in sorted(parts.items(), key=lambda part: origin(part[0])):
            results.append(
                ModelDelivery(
                    node=node,
                    seqno=lsn_text(each.seqno),
                    origin=origin(number),
                    gid=gids.get(each.xid, ""),
                    commands=_command_texts(articles, routines, commands),
                    calls=sum(one.type == CALL_TYPE for one in commands),
                    definitions=sum(one.type == DEFINITION_TYPE for one in commands),
                    suppressed=all(own.has(number, one.article_id) for one in commands),
                    skipped=skipped.get(each.seqno, ""),
                )
            )
    return results


def _command_texts(
    articles: Mapping[int, DistributedArticle],
    routines: Mapping[int, ProcArticle],
    commands: Sequence[DecodedCommand],
) -> tuple[str, ...]:
    lines = [_command_text(articles, routines, each) for each in commands]
    if len(lines) > _SHOWN_MAX:
        lines[_SHOWN_MAX:] = [f"{len(lines) - _SHOWN_MAX} more"]
    return tuple(lines)


def _command_text(
    articles: Mapping[int, DistributedArticle],
    routines: Mapping[int, ProcArticle],
    each: DecodedCommand,
) -> str:
    number = base_of(each.article_id)
    if each.type == CALL_TYPE and number in routines:
        return call_text(routines[number], ProcCall.parse(each.command))
    if each.type == DEFINITION_TYPE and number in routines:
        return f"define {routines[number].identity}"
    return command_words(articles.get(number), each.type, each.command)
