"""Tests of validating Subscribers that get calls."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

import twopc.sim.validation
from tests.proc_execution.subscriber.test_topology import CALL, company
from tests.validation.ends import ends
from twopc.errors import SubscriptionError
from twopc.sim import Topology

MakeTopology = Callable[..., Awaitable[Topology]]


async def test_calls_meanwhile(make_topology: MakeTopology) -> None:
    """Validation repeats a table that calls write, and gives up if a call runs every time.

    Without calls, differences are found.
    """
    topology = await company(make_topology, "reader")
    await topology.execute("pub", "create table other (id int primary key)")
    await topology.publish("other")
    await topology.subscribe("reader", update_mode="read only")
    calls = 0

    async def advance() -> None:
        nonlocal calls
        if calls:
            calls -= 1
            await topology.execute("pub", CALL)
        await topology.sync("reader")

    calls = 2
    found = await twopc.sim.validation.validate(ends(topology, "reader"), advance=advance)
    assert [(each.passed, each.actual.rows) for each in found] == [(True, 60), (True, 0)]
    assert found[0].looks > 1
    calls = 1000
    with pytest.raises(SubscriptionError, match="employees is changed by calls of routines"):
        await twopc.sim.validation.validate(ends(topology, "reader"), advance=advance)
    found = await twopc.sim.validation.validate(
        ends(topology, "reader"), tables=["other"], advance=advance
    )
    assert [each.passed for each in found] == [True]
    calls = 0
    await topology.execute("reader", "update employees set salary = 0 where id in (3, 4)")
    found = await topology.validate("reader")
    assert [each.key for each in found[0].differences] == [("3",), ("4",)]


async def test_many_calls_raise_no_alarm(make_topology: MakeTopology) -> None:
    """Validation reports no false difference during calls, at Subscribers of both kinds."""
    topology = await company(make_topology, "reader", "writer")
    await topology.subscribe("reader", update_mode="read only")
    await topology.subscribe("writer")
    await topology.start_agents()
    stop = asyncio.Event()

    async def call() -> None:
        async with await topology.node("pub").connect() as connection:
            for _ in range(40):
                await connection.execute(CALL.encode())
                if stop.is_set():
                    return

    calling = asyncio.create_task(call())
    try:
        for name in ("reader", "writer"):
            try:
                found = await topology.validate(name, drive=False)
            except SubscriptionError as error:
                assert "changed by calls" in str(error)
                continue
            assert [each.passed for each in found] == [True]
    finally:
        stop.set()
        await calling
    assert [each.passed for each in await topology.validate(drive=False)] == [True, True]
