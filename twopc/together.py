"""Concurrent awaitables, none of which is still running when a failure is raised."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

T = TypeVar("T")


async def together(*work: Awaitable[T]) -> list[T]:
    """Run awaitables concurrently and return their results in order, once all have ended.

    `asyncio.gather` raises at the first failure and leaves the others running. If the caller that catches the error
    then closes their connections, libpq reads freed memory, or from a descriptor opened since.

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
