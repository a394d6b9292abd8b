"""What is new of the warnings of published routines is told: a step may have made a call differ."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

from twopc.log import get_logger
from twopc.proc_execution import ProcWarning
from twopc.publisher import proc_execution

_log = get_logger(__name__)


async def tell(publisher: AsyncConnection[Any]) -> None:
    """Look at every routine as it is now, and at the tables that it uses; log what was not known before."""
    for article, warnings in await proc_execution.examine_again(publisher):
        log(article.identity, warnings)


def log(routine: str, warnings: tuple[ProcWarning, ...]) -> None:
    """Log why sites may differ after a call."""
    for each in warnings:
        _log.warning("a call may differ", routine=routine, kind=each.kind, why=each.text)
