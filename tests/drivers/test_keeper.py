"""The watch that a coordinator keeps in the background ends when it is told to."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.drivers.bank import Bank
from twopc.drivers.recovery import SettledBranch


async def test_it_ends_although_a_query_swallows_its_cancellation(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """psycopg takes a cancellation for the query's; one that ends well all the same returns its rows."""
    begun = asyncio.Event()

    async def recover() -> list[SettledBranch]:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return []

    async with asyncio.timeout(30), bank.coordinator(recovery_interval_s=0.001) as coordinator:
        monkeypatch.setattr(coordinator.keeper, "recover", recover)
        await begun.wait()
