"""A client whose connection is lost at its COMMIT never gets the answer that it was rolled back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import psycopg
import pytest

from tests.agreement.test_catalogue import on_model
from tests.fix_topology import MakeTopology
from twopc.errors import InDoubtError, RejectedError
from twopc.sim.faults.wires import Fate, ServerWire
from twopc.sim.scenario.check import parse
from twopc.sim.sessions.any_client import AnyClientSession
from twopc.sim.sessions.plain import PlainPostgresSession
from twopc.sim.sessions.servers import PublisherSession
from twopc.sim.sessions.waits import Observer
from twopc.sim.topology import Topology

TAKE = "update account set balance = balance - 5 where id = 1"


class Ends:
    """A Publisher and a Subscriber, and proxies to both."""

    def __init__(self, topology: Topology, wires: dict[str, ServerWire]) -> None:
        self.topology = topology
        self.wires = wires

    def open(self, kind: type[PublisherSession], node: str, **options: Any) -> PublisherSession:
        """Return a scenario's session of a kind, which connects through the proxy to its node."""
        wire = self.wires[node]

        class Through(kind):  # type: ignore[misc, valid-type] # whichever it is
            @property
            def dsn(self) -> str:
                return wire.through(super().dsn)

        made: PublisherSession = Through(self.topology, node, Observer({}), **options)
        return made

    async def balance(self) -> int:
        """Return the account's balance at the Publisher."""
        ((balance,),) = await self.topology.execute("pub", "select balance from account")
        return int(balance)

    async def until(self, condition: Callable[[], Awaitable[Any]], what: str) -> None:
        """Wait until the condition holds, without blocking the event loop."""
        loop = asyncio.get_running_loop()
        end = loop.time() + 60
        while not await condition():
            assert loop.time() < end, f"waited for {what}"


async def lose(_: str) -> Fate:
    """Discard an answer, so that the client never gets it."""
    return "lose"


@pytest.fixture
async def ends(make_topology: MakeTopology) -> AsyncIterator[Ends]:
    """A topology with an account, with any client allowed at ``sub1``."""
    topology = await make_topology(subscribers=("sub1",))
    await topology.execute("pub", "create table account (id int primary key, balance int)")
    await topology.execute("pub", "insert into account values (1, 100)")
    await topology.publish("account")
    await topology.subscribe("sub1")
    await topology.allow_any_client("sub1")
    wires = {name: ServerWire(topology.node(name).app_dsn) for name in ("pub", "sub1")}
    for wire in wires.values():
        await wire.open()
    yield Ends(topology, wires)
    for wire in wires.values():
        await wire.close()


async def test_at_the_publisher(ends: Ends) -> None:
    """A transaction whose connection is lost at COMMIT is in doubt, whether or not it committed.

    If the connection was lost before COMMIT, or a statement had failed, it is rolled back.
    """
    office, wire = ends.open(PublisherSession, "pub"), ends.wires["pub"]
    await office.begin("read committed")
    await office.execute(TAKE, {})
    wire.watch(b"commit", lose)
    with pytest.raises(InDoubtError, match="the connection to pub is lost"):
        await office.commit()
    assert await ends.balance() == 95

    await office.begin("read committed")
    await office.execute(TAKE, {})
    wire.tear(requests=True, answers=False)
    with pytest.raises(InDoubtError):
        await office.commit()
    assert await ends.balance() == 95

    await office.begin("read committed")
    wire.tear(requests=True, answers=False)
    with pytest.raises(RejectedError):
        await office.execute(TAKE, {})
    with pytest.raises(RejectedError, match="before COMMIT was sent"):
        await office.commit()

    await office.begin("read committed")
    with pytest.raises(RejectedError):
        await office.execute("select 1/0", {})
    with pytest.raises(RejectedError, match="a statement of it had failed"):
        await office.commit()
    await office.close()
    assert await ends.balance() == 95


async def test_plain_everywhere(ends: Ends) -> None:
    """In plain sessions a COMMIT in a script, or a statement by itself, may be in doubt, too.

    Within a transaction, a lost statement means that the transaction is rolled back.
    """
    clerk = ends.open(PlainPostgresSession, "pub", as_administrator=False)
    wire = ends.wires["pub"]
    wire.watch(b"balance - 5", lose)
    with pytest.raises(InDoubtError):
        await clerk.execute(TAKE, {})
    await clerk.script("begin")
    await clerk.execute(TAKE, {})
    wire.watch(b"commit", lose)
    with pytest.raises(InDoubtError):
        await clerk.script("commit")
    assert await ends.balance() == 90
    await clerk.script("begin")
    wire.watch(b"balance - 5", lose)
    with pytest.raises(RejectedError):
        await clerk.execute(TAKE, {})
    wire.watch(b"begin", lose)
    with pytest.raises(RejectedError):
        await clerk.script(f"begin; {TAKE}")
    await clerk.close()
    assert await ends.balance() == 90


async def test_any_client(ends: Ends) -> None:
    """The resolver finishes a decided branch even if the client has not got the answer."""
    alice, wire = ends.open(AnyClientSession, "sub1"), ends.wires["sub1"]
    await alice.begin("read committed")
    await alice.execute(TAKE, {})
    wire.watch(b"commit", lose)
    with pytest.raises(InDoubtError, match="the resolver finishes what was decided") as caught:
        await alice.commit()
    assert caught.value.gid.startswith(f"twopc:{ends.topology.name}.sub1:")

    async def paid() -> bool:
        return await ends.balance() == 95

    await ends.until(paid, "the Publisher's branch to be committed")
    await alice.begin("read committed")
    wire.tear(requests=True, answers=False)
    with pytest.raises(InDoubtError):
        await alice.commit()
    await alice.close()
    assert await ends.balance() == 95


async def test_a_look_that_fails_after_the_commit_changes_nothing(ends: Ends) -> None:
    """A failed query for the Publisher's branch after the commit does not change the outcome.

    The Subscriber's commit is the decision.
    """
    topology = ends.topology
    await topology.any_client.stop()
    alice = ends.open(AnyClientSession, "sub1")
    await alice.begin("read committed")
    await alice.execute(TAKE, {})
    commit = asyncio.create_task(alice.commit())
    looking = (await topology.admin("pub")).info.backend_pid

    async with await psycopg.AsyncConnection.connect(
        topology.node("pub").dsn, autocommit=True
    ) as other:

        async def looks() -> bool:
            cursor = await other.execute(
                "select from pg_stat_activity where pid = %s and query like %s",
                (looking, "%pg_prepared_xacts where gid%"),
            )
            return cursor.rowcount > 0

        await ends.until(looks, "the session to look for its branch")
        await other.execute("select pg_terminate_backend(%s, 60000)", (looking,))
    await commit
    await topology.any_client.start()

    async def paid() -> bool:
        return await ends.balance() == 95

    await ends.until(paid, "the Publisher's branch to be committed")
    await alice.close()


CUT = """\
twopc: 1
name: test
about: Written in a test.
topology: {publisher: pub, subscribers: [sub1], timeouts: {step: 60s}}
tables:
  t:
    columns: {id: int primary key, n: int}
    rows: [{id: 1, n: 10}, {id: 2, n: 20}]
sessions:
  office:
    node: pub
    steps:
      - o_begin: begin
      - o_write: {sql: "update t set n = 22 where id = 2"}
      - o_end: commit
  till:
    node: sub1
    way: any client
    steps:
      - t_begin: begin
      - t_write: {sql: "update t set n = 33 where id = 2"}
      - t_end: commit
  clerk:
    node: pub
    plain: true
    steps:
      - c_begin: begin
      - c_write: {sql: "update t set n = 11 where id = 1"}
      - c_end: commit
orders:
  - name: away
    steps: [o_begin, o_write, c_begin, c_write, {cut: pub}, o_end, c_end, {restore: pub}]
    expect:
      steps: {o_end: in_doubt, c_end: in_doubt}
      sessions: {office: in doubt, clerk: in doubt}
      tables: {t: {everywhere: [{id: 1, n: 10}, {id: 2, n: 20}]}}
  - name: the Subscriber
    steps: [t_begin, t_write, {cut: sub1}, t_end, {restore: sub1}]
    expect:
      steps: {t_end: in_doubt}
      sessions: {till: in doubt}
      tables: {t: {everywhere: [{id: 1, n: 10}, {id: 2, n: 20}]}}
"""


async def test_a_node_that_ends_its_sessions(play: Callable[..., Awaitable[Any]]) -> None:
    """Each kind of session that its node has ended is in doubt at COMMIT, when it notices that."""
    found = await play(CUT, head="")
    assert found.failures == []


def test_a_node_that_ends_its_sessions_in_the_model() -> None:
    """In the model, sessions are in doubt as on servers."""
    verdict, _ = on_model(parse(CUT, "test.twopc.yaml"))
    assert [failure.message for order in verdict.orders for failure in order.failures] == []
