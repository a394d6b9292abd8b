"""What agents have delivered, passed over and left out, told transaction by transaction. Pure."""

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

#: Commands that are told of one transaction.
_TOLD = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelDelivery:
    """What an agent did with one transaction, or with the part of it that has one origin."""

    node: str
    """The Subscriber."""
    seqno: str
    """The transaction's place among the Publisher's."""
    origin: str
    """The Subscriber that it came from; the Publisher's name if from none."""
    gid: str = ""
    """The global transaction, without a branch; empty for a plain one."""
    commands: tuple[str, ...] = ()
    """``update account id=1``."""
    calls: int = 0
    """Of the commands: calls of routines."""
    definitions: int = 0
    """Of the commands: definitions of routines."""
    suppressed: bool = False
    """It was the Subscriber's own, and was not delivered."""
    skipped: str = ""
    """The error for which it was left out."""


def deliveries(
    transactions: Sequence[StoredTransaction], terms: Sequence[ArticleTerms], articles: Mapping[int, DistributedArticle], *,
    routines: Mapping[int, ProcArticle], node: str, origin: Callable[[int | None], str], gids: Mapping[int, str], skipped: Mapping[int, str],
) -> list[ModelDelivery]:  # fmt: skip
    """What an agent has met.

    Args:
        terms: of the Subscriber.
        origin: the name of whoever has the number of an originator.
        gids: of global transactions, by the Publisher's transaction id.
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
                    commands=_words(articles, routines, commands),
                    calls=sum(one.type == CALL_TYPE for one in commands),
                    definitions=sum(one.type == DEFINITION_TYPE for one in commands),
                    suppressed=all(own.has(number, one.article_id) for one in commands),
                    skipped=skipped.get(each.seqno, ""),
                )
            )
    return results


def _words(
    articles: Mapping[int, DistributedArticle],
    routines: Mapping[int, ProcArticle],
    commands: Sequence[DecodedCommand],
) -> tuple[str, ...]:
    lines = [_word(articles, routines, each) for each in commands]
    if len(lines) > _TOLD:
        lines[_TOLD:] = [f"{len(lines) - _TOLD} more"]
    return tuple(lines)


def _word(
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
