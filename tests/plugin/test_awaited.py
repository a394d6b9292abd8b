"""Tests of the topology on a test's event loop, which equals the blocking one."""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import psycopg
import pytest

from tests.plugin.running import Project
from twopc.sim.testing import asynchronous, blocking_bench, session
from twopc.sim.testing.asynchronous import AsyncTestTopology
from twopc.sim.testing.blocking_bench import TestTopology
from twopc.sim.testing.loop_calls import LoopCalls

pytest_plugins = ["pytester"]

GIVE = "update account set balance = balance + 1 where id = 1"
#: Members that connect threads and are not for tests: of the blocking classes, and of the others.
PLUMBING = ({"bed", "call", "submit"}, {"bed", "blocking", "call"})
TWINS = [
    (blocking_bench.TestTopology, asynchronous.AsyncTestTopology),
    (blocking_bench.TestNode, asynchronous.AsyncTestNode),
    (session.TestSession, asynchronous.AsyncTestSession),
    (session.Started, asynchronous.AsyncStarted),
    (session.Watched, asynchronous.AsyncWatched),
]


def surface(kind: type) -> dict[str, Any]:
    """Return the public members of a class: its own, and those that methods assign to `self`."""
    own = {name: member for name, member in vars(kind).items() if not name.startswith("_")}
    assigned = inspect.getsource(kind).split("self.")[1:]
    names = [text.split(" = ")[0] for text in assigned if " = " in text.split("\n")[0]]
    return {name: None for name in names if name.isidentifier() and name[0] != "_"} | own


def parameters(member: Any) -> list[str] | None:
    """Return the parameters of a method, or None if `member` is not one."""
    if not callable(member) or isinstance(member, type):
        return None
    return [
        f"{each.kind.name} {each.name}={each.default}"
        for each in inspect.signature(member).parameters.values()
    ]


@pytest.mark.parametrize(("one", "other"), TWINS, ids=lambda kind: kind.__name__)
def test_the_same_surface(one: type, other: type) -> None:
    """Both classes have the same public names, with the same parameters."""
    here, there = surface(one), surface(other)
    assert here.keys() - PLUMBING[0] == there.keys() - PLUMBING[1]
    differing = [
        name
        for name in here.keys() & there.keys() - PLUMBING[0]
        if here[name] is not None and parameters(here[name]) != parameters(there[name])
    ]
    assert differing == []


@pytest.fixture
async def twopc(make_bank: Callable[..., TestTopology]) -> AsyncIterator[AsyncTestTopology]:
    """A topology with any client allowed."""
    yield AsyncTestTopology(await asyncio.to_thread(make_bank, any_client=True))


async def test_every_order_of_awaited_functions(twopc: AsyncTestTopology) -> None:
    """Coroutine functions run on the test's loop, and blocking functions in a thread.

    A function that takes an argument gets the topology.
    """
    loop = asyncio.get_running_loop()
    loops = []

    async def store() -> str:
        loops.append(asyncio.get_running_loop())
        dsn = twopc.dsn("sub1")
        async with await psycopg.AsyncConnection.connect(dsn) as connection:
            await connection.execute(GIVE)
        return "given"

    async def office(topology: AsyncTestTopology) -> None:
        clerk = await topology.session("pub")
        await clerk.execute(GIVE)
        await clerk.commit()

    def blocks() -> None:
        assert asyncio._get_running_loop() is None

    seen = {}

    async def check(run: Any) -> None:
        rows = await twopc.node("pub").rows("account")
        seen[run.text] = (rows[0]["balance"], run.results.get("a0"), list(run.errors))

    orders = await twopc.run_orders(
        {"a": [store], "b": [office], "c": [blocks]}, before=["b0 < c0", "a0 < c0"], check=check
    )
    assert seen == {"a0 b0 c0": (102, "given", []), "b0 a0 c0": (101, None, ["a0"])}
    assert orders.total == 2
    assert {*loops} == {loop}


async def test_an_order_that_fails(twopc: AsyncTestTopology) -> None:
    """The error of an order that fails names it, and its history is available."""

    async def check(run: Any) -> None:
        assert run.text == "a0 b0"

    async def nothing() -> None:
        """Do nothing."""

    with pytest.raises(AssertionError) as caught:
        await twopc.run_orders({"a": [nothing], "b": [nothing]}, check=check)
    assert caught.value.__notes__ == ["in the order: b0 a0"]
    files = [each.path.name for each in caught.traceback]
    assert files[-1] == "test_awaited.py"
    assert "thread.py" not in files
    assert [each.step for each in twopc.history if each.kind == "ok"] == ["b0", "a0"]


async def test_a_test_that_gives_up(twopc: AsyncTestTopology) -> None:
    """If a test is cancelled, its awaited functions are, too, and no further function is called."""
    begun = asyncio.Event()
    calls = []

    async def waits_for_ever() -> None:
        calls.append(len(calls))
        begun.set()
        await asyncio.Event().wait()

    async def nothing() -> None:
        """Do nothing."""

    playing = asyncio.create_task(
        twopc.run_orders({"a": [waits_for_ever], "b": [nothing]}, check=lambda _: None)
    )
    await begun.wait()
    playing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await playing
    assert calls == [0]


async def test_a_test_that_gives_up_as_a_function_begins() -> None:
    """A function that its thread has begun, but not yet recorded, is cancelled, too."""
    begun, may_note = asyncio.Event(), threading.Event()

    class Late(set[Any]):
        """A set that adds an element only after it was iterated over."""

        def add(self, each: Any) -> None:
            may_note.wait()
            super().add(each)

        def __iter__(self) -> Iterator[Any]:
            noted = [*super().__iter__()]
            may_note.set()
            return iter(noted)

    async def waits_for_ever() -> None:
        begun.set()
        await asyncio.Event().wait()

    calls = LoopCalls(None)
    calls._running = Late()
    playing = asyncio.create_task(calls.run(calls.of(waits_for_ever)))
    await begun.wait()
    playing.cancel()
    ended, _ = await asyncio.wait({playing}, timeout=60)
    for each in [*calls._running]:
        each.cancel()
    assert ended
    assert playing.cancelled()


async def test_an_application_in_a_task(twopc: AsyncTestTopology) -> None:
    """The wait of an application in a task is found; a task that has ended cannot be blocked."""
    alice = await twopc.session("pub", name="alice")
    await alice.execute(GIVE)
    dsn = twopc.dsn("pub", application_name="web")
    async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
        work = asyncio.create_task(connection.execute(GIVE))
        web = await twopc.watch("pub", application_name="web", work=work)
        assert await web.blocked_by(alice)
        assert (web.holder, web.name) == ("alice", "web")
        await alice.commit()
        await work
        assert not await web.blocked_by(alice)


def test_awaited(project: Project) -> None:
    """The fixture `twopc_async` works on the event loop of a user's test."""
    project.test(
        """
        import pytest

        @pytest.mark.asyncio
        async def test_awaited(twopc_async):
            twopc = twopc_async
            alice, bob = await twopc.session("sub1"), await twopc.session("sub2", name="bob")
            await alice.execute("update account set balance = 90 where id = 1")
            step = await bob.start("update account set balance = 80 where id = 1")
            assert await step.blocked_by(alice)
            assert (step.holder, step.done) == ("sub1", False)
            assert repr(bob) == "<session bob at sub2>"
            await alice.commit()
            with pytest.raises(twopc.Conflict):
                await step.result()
            await bob.rollback()
            await twopc.settle()
            await twopc.assert_converged()
            await twopc.assert_atomic()
            await twopc.assert_nothing_in_doubt()
            assert (await twopc.node("sub2").rows("account"))[0]["balance"] == 90
            assert "bob" in twopc.explain()

        @pytest.mark.asyncio
        async def test_orders(twopc_async):
            async def nothing():
                pass

            async def check(run):
                assert run.text == twopc_async.orders

            await twopc_async.run_orders({"a": [nothing], "b": [nothing]}, check=check)
        """
    )
    project.run("-q", "--twopc-orders", "b0 a0").assert_outcomes(passed=2)
