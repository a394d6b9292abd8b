"""Logging of new warnings about published routines: a change may have made sites differ after a call."""

from __future__ import annotations

from typing import Any

from psycopg import AsyncConnection

from twopc.log import get_logger
from twopc.proc_execution import ProcWarning
from twopc.publisher import proc_execution

_log = get_logger(__name__)


async def tell(publisher: AsyncConnection[Any]) -> None:
    """Examine every routine, with the tables that it uses, as it is now; log warnings that were not known before."""
    for article, warnings in await proc_execution.examine_again(publisher):
        log(article.identity, warnings)


def log(routine: str, warnings: tuple[ProcWarning, ...]) -> None:
    """Log the reasons for which sites may differ after a call."""
    for each in warnings:
        _log.warning("a call may differ", routine=routine, kind=each.kind, why=each.text)
