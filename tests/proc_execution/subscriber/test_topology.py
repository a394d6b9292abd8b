"""Tests of published routines in a topology: which Subscribers get calls or rows, and changes of that."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import psycopg
import pytest

from twopc.errors import ArticleError, DeliveryError
from twopc.sim import Topology, operate
from twopc.subscriber.distribution_agent.profile import Profile

MakeTopology = Callable[..., Awaitable[Topology]]

EMPLOYEES = "create table employees (id int primary key, salary int not null)"
ROWS = "insert into employees select g, g from generate_series(1, 60) g"
GIVE_RAISE = """
create procedure give_raise(by int) language plpgsql as $$ begin
    update employees set salary = (salary * 10 + by) % 9973;
end $$
"""
CALL = "begin isolation level serializable; call give_raise(7); commit"
HELD = "select to_regprocedure('give_raise(int)') is not null"


async def company(make_topology: MakeTopology, *subscribers: str) -> Topology:
    """Return a topology with 60 employees and a published routine, without subscriptions."""
    topology = await make_topology(subscribers=subscribers)
    for statement in (EMPLOYEES, ROWS, GIVE_RAISE):
        await topology.execute("pub", statement)
    await topology.publish("employees")
    await topology.publish_procedure("give_raise", reads=["employees"], writes=["employees"])
    return topology


async def applied(topology: Topology) -> dict[str, int]:
    """Return the number of commands that each agent applies for one call."""
    await topology.execute("pub", CALL)
    return {name: each.commands for name, each in (await topology.sync()).items()}


async def test_one_call_or_its_rows(make_topology: MakeTopology) -> None:
    """A read-only Subscriber gets a call, an updating one its rows, and all have the same state."""
    topology = await company(make_topology, "reader", "writer")
    await topology.subscribe("reader", update_mode="read only")
    await topology.subscribe("writer")

    assert await applied(topology) == {"reader": 1, "writer": 60}

    await topology.assert_converged()
    assert [each.passed for each in await topology.validate()] == [True, True]
    told = {each.node: each for each in await topology.inspect.take_deliveries()}
    assert told["reader"].commands == ('{call "public"."give_raise" (7)}',)
    assert (told["reader"].calls, told["writer"].calls) == (1, 0)
    assert told["writer"].commands[-1] == "55 more"
    async with topology.transaction("writer") as transaction:
        await transaction.execute("call give_raise(3)")
    await topology.settle()
    await topology.assert_converged()
    await topology.stop_agents()
    dsns = {name: topology.node(name).dsn for name in ("pub", "reader", "writer", "distribution")}
    async with await operate.attach(dsns) as found:
        assert await applied(found) == {"reader": 1, "writer": 60}
        await found.assert_converged()


async def test_calls_begin_and_end(make_topology: MakeTopology) -> None:
    """Calls are sent once all read-only Subscribers have the routine, until it is unpublished."""
    topology = await make_topology(subscribers=("a", "b"))
    for statement in (EMPLOYEES, ROWS, GIVE_RAISE):
        await topology.execute("pub", statement)
    await topology.publish("employees")
    await topology.subscribe("a", update_mode="read only")
    await topology.subscribe("b", update_mode="read only")
    await topology.publish_procedure("give_raise")
    assert await applied(topology) == {"a": 60, "b": 60}
    await topology.refresh_subscriptions("a")
    assert await applied(topology) == {"a": 60, "b": 60}
    await topology.refresh_subscriptions()
    assert await applied(topology) == {"a": 1, "b": 1}
    await topology.execute("pub", CALL)  # not delivered yet when the routine is unpublished

    await topology.unpublish_procedure("give_raise")

    assert [await topology.execute(name, HELD) for name in ("pub", "a", "b")] == [
        [(True,)],
        [(False,)],
        [(False,)],
    ]
    await topology.assert_converged()
    assert await applied(topology) == {"a": 60, "b": 60}
    await topology.assert_converged()
    with pytest.raises(ArticleError, match="not published"):
        await topology.unpublish_procedure("give_raise")


async def test_unsubscribing_takes_the_routine(make_topology: MakeTopology) -> None:
    """Unsubscribing drops the routine, and the last read-only subscription ends the calls."""
    topology = await company(make_topology, "reader", "writer")
    await topology.subscribe("reader", update_mode="read only")
    await topology.subscribe("writer")
    await topology.unsubscribe("reader")
    assert await topology.execute("reader", HELD) == [(False,)]
    assert await applied(topology) == {"writer": 60}
    called = "select count(*) from msrepl.sysprocarticles where called"
    assert await topology.execute("pub", called) == [(0,)]
    await topology.unsubscribe("writer")
    assert await topology.execute("writer", HELD) == [(False,)]
    await topology.execute("reader", "drop table employees")
    await topology.subscribe("reader", update_mode="read only")
    assert await applied(topology) == {"reader": 1}
    await topology.assert_converged("employees")


async def test_bodies(make_topology: MakeTopology) -> None:
    """A body changed at a Subscriber remains until another definition or a new copy arrives."""
    topology = await company(make_topology, "reader")
    await topology.subscribe("reader", update_mode="read only")
    mine = "create table noted (at timestamptz default now()); grant insert on noted to public;" + (
        GIVE_RAISE.replace("create procedure", "create or replace procedure").replace(
            "begin", "begin insert into noted default values;"
        )
    )
    await topology.execute("reader", mine)
    noted = "select count(*) from noted"
    assert await applied(topology) == {"reader": 1}
    assert await topology.execute("reader", noted) == [(1,)]
    newer = GIVE_RAISE.replace("create procedure", "create or replace procedure").replace("10", "9")
    await topology.execute("pub", newer)
    assert await applied(topology) == {"reader": 2}  # the definition, the call
    assert await topology.execute("reader", noted) == [(1,)]
    await topology.assert_converged()

    await topology.execute("reader", mine.partition("public;")[2])
    await topology.reinitialise("reader")
    assert await applied(topology) == {"reader": 1}
    assert await topology.execute("reader", noted) == [(1,)]
    await topology.assert_converged()


async def test_calls_that_fail(make_topology: MakeTopology) -> None:
    """A failed call is not sent with xact_abort on; with it off, it fails at the agent, too."""
    topology = await make_topology(subscribers=("reader",))
    await topology.execute("pub", EMPLOYEES)
    await topology.execute("pub", ROWS)
    for name in ("strict", "lax"):
        body = GIVE_RAISE.replace("give_raise", name).replace("+ by", "+ 7 / by")
        await topology.execute("pub", body)
    await topology.publish("employees")
    await topology.publish_procedure("strict")
    await topology.publish_procedure("lax", xact_abort=False)
    await topology.subscribe("reader", update_mode="read only")
    here = await topology.admin("pub")

    async def call(name: str) -> None:
        async with here.transaction():
            await here.execute("set transaction isolation level serializable")
            await here.execute(f"call {name}(0)".encode())

    with pytest.raises(psycopg.errors.DivisionByZero):
        await call("strict")
    assert (await topology.sync())["reader"].commands == 0
    await call("lax")
    await topology.execute("pub", "update employees set salary = 1")
    with pytest.raises(DeliveryError, match=r"call of public.lax\(integer\)") as caught:
        await topology.sync()
    assert (caught.value.sqlstate, caught.value.command) == ("22012", '{call "public"."lax" (0)}')
    topology.agents.profiles["reader"] = Profile(skip_errors=["22012"])
    await topology.stop_agents()
    assert (await topology.sync())["reader"].skipped == 1
    await topology.assert_converged()


@asynccontextmanager
async def traffic(topology: Topology) -> AsyncIterator[list[int]]:
    """Run calls, serializable or not, and other changes at the Publisher; yield the number of commits."""
    stop, committed = asyncio.Event(), [0]

    async def write(seed: int) -> None:
        chance = random.Random(seed)
        async with await topology.node("pub").connect() as connection:
            while not stop.is_set():
                isolation = chance.choice(("serializable", "serializable", "read committed"))
                statements = [
                    f"call give_raise({chance.randint(0, 9)})",
                    f"update employees set salary = salary + 1 where id = {chance.randint(1, 60)}",
                ]  # this order prevents deadlocks
                if chance.random() < 0.5:
                    del statements[chance.randint(0, 1)]
                try:
                    async with connection.transaction():
                        await connection.execute(
                            f"set transaction isolation level {isolation}".encode()
                        )
                        for statement in statements:
                            await connection.execute(statement.encode())
                    committed[0] += 1
                except (psycopg.errors.SerializationFailure, psycopg.errors.DeadlockDetected):
                    continue

    tasks = [asyncio.create_task(write(seed)) for seed in range(2)]
    try:
        yield committed
    finally:
        stop.set()
        await asyncio.gather(*tasks)


async def test_switching_under_load(make_topology: MakeTopology) -> None:
    """Subscriptions of both kinds can begin, be reinitialised and end under load, without lost changes."""
    topology = await company(make_topology, "a", "b", "c")
    await topology.subscribe("a", update_mode="read only")
    async with traffic(topology) as committed:
        await topology.sync()
        await topology.subscribe("b", update_mode="read only")
        await topology.sync()
        await topology.subscribe("c")
        await topology.reinitialise("a")
        await topology.sync()
        await topology.unsubscribe("b")
        await topology.execute("b", "drop table employees")
        await topology.sync()
        await topology.subscribe("b", update_mode="read only")
        await topology.reinitialise("c")
    await topology.sync()
    assert committed[0] > 10
    await topology.assert_converged()
    assert await applied(topology) == {"a": 1, "b": 1, "c": 60}
