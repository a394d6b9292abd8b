"""Test that a coordinator's background task ends when the coordinator is closed."""

from __future__ import annotations

import asyncio
from contextlib import suppress

import pytest

from tests.drivers.bank import Bank
from twopc.drivers.recovery import SettledBranch


async def test_it_ends_although_a_query_swallows_its_cancellation(
    bank: Bank, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The task ends although psycopg swallows its cancellation.

    psycopg takes a cancellation for that of the running query; a query that succeeds nevertheless
    returns its rows.
    """
    begun = asyncio.Event()

    async def recover() -> list[SettledBranch]:
        begun.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return []

    async with asyncio.timeout(30), bank.coordinator(recovery_interval_s=0.001) as coordinator:
        monkeypatch.setattr(coordinator.keeper, "recover", recover)
        await begun.wait()
