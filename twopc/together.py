"""Several things at the same time, none of which outlives the others' failure."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def together(*work: Awaitable[T]) -> list[T]:
    """What each came to, once all have ended.

    `asyncio.gather` raises as soon as one fails and leaves the others running: on connections that whoever
    catches the error closes next, which libpq answers by reading freed memory, or what was opened since.

    Raises:
        BaseException: the first failure, in the order of `work`.
    """
    result = await asyncio.gather(*work, return_exceptions=True)
    done: list[T] = []
    for each in result:
        if isinstance(each, BaseException):
            raise each
        done.append(each)
    return done
