"""Transactions that agents have delivered, suppressed and skipped, as scenarios and tests report them.

The same on servers and in the model: derived from the stored commands by the terms of the agents. Without I/O.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import Any

from twopc.distributed_article import DistributedArticle, command_words
from twopc.lsn import lsn_text
from twopc.names import BranchId
from twopc.proc_execution import (
    CALL_TYPE,
    DEFINITION_TYPE,
    ProcArticle,
    ProcCall,
    base_of,
    call_text,
)
from twopc.subscriber.distribution_agent.loads import DecodedCommand
from twopc.subscriber.distribution_agent.planner import ArticleTerms, OwnCommands

#: Greatest number of commands shown for one transaction.
_SHOWN_MAX = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportedDelivery:
    """An agent's treatment of one transaction, or of the part of it that has one originator."""

    node: str
    """Name of the Subscriber."""
    seqno: str
    """Position of the transaction: its commit LSN at the Publisher."""
    origin: str
    """Name of the originator; that of the Publisher if there is none."""
    gid: str
    """Global transaction, without a branch; empty for a local transaction."""
    commands: tuple[str, ...]
    """Commands as text, for example ``update account id=1``."""
    calls: int
    """Number of commands that are calls of routines."""
    definitions: int
    """Number of commands that are definitions of routines."""
    suppressed: bool
    """Whether the transaction was the Subscriber's own and was therefore not delivered."""
    skipped: str
    """Error because of which the transaction was skipped; empty if it was not."""

    def record(self) -> dict[str, Any]:
        """Return the delivery's record of a history."""
        counted = {"calls": self.calls, "definitions": self.definitions}
        return {
            "kind": "suppress" if self.suppressed else "skip" if self.skipped else "deliver",
            "node": self.node,
            "gid": self.gid,
            "message": self.skipped,
            "data": {
                "seqno": self.seqno,
                "origin": self.origin,
                "commands": list(self.commands),
                **{name: number for name, number in counted.items() if number},
            },
        }


def deliveries(
    commands: Iterable[DecodedCommand], terms: Sequence[ArticleTerms], *,
    node: str, publisher: str, articles: Mapping[int, DistributedArticle], routines: Mapping[int, ProcArticle],
    originators: Mapping[int, str], markers: Mapping[int, str], skipped: Mapping[int, str],
) -> list[ReportedDelivery]:  # fmt: skip
    """Return what an agent did with transactions that it has processed, in commit order.

    Args:
        commands: all commands of the transactions, in order.
        terms: the Subscriber's terms.
        articles, routines: those of the commands, by number; unknown ones are shown by their commands only.
        originators: names by number.
        markers: gids of branches by the Publisher's transaction id.
        skipped: errors by position.
    """
    by_article = {each.article_id: each for each in terms}
    own = OwnCommands.of(terms)
    results = []
    for seqno, group in groupby(commands, attrgetter("seqno")):
        parts: dict[str, list[DecodedCommand]] = {}
        for each in group:
            wants = by_article.get(each.article_id)
            if wants is not None and wants.wants(seqno, each.xid):
                parts.setdefault(originators.get(each.originator or 0, publisher), []).append(each)
        for origin, part in sorted(parts.items()):
            branch = BranchId.parse(markers.get(part[0].xid, ""))
            results.append(
                ReportedDelivery(
                    node=node,
                    seqno=lsn_text(seqno),
                    origin=origin,
                    gid=str(branch.global_id) if branch is not None else "",
                    commands=_command_texts(articles, routines, part),
                    calls=sum(one.type == CALL_TYPE for one in part),
                    definitions=sum(one.type == DEFINITION_TYPE for one in part),
                    suppressed=all(own.has(one.originator, one.article_id) for one in part),
                    skipped=skipped.get(seqno, ""),
                )
            )
    return results


def _command_texts(
    articles: Mapping[int, DistributedArticle],
    routines: Mapping[int, ProcArticle],
    commands: Sequence[DecodedCommand],
) -> tuple[str, ...]:
    lines = [_command_text(articles, routines, each) for each in commands[:_SHOWN_MAX]]
    more = len(commands) - len(lines)
    return (*lines, *([f"{more} more"] if more else ()))


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
