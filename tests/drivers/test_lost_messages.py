"""Tests of lost requests and answers: the outcome is looked up, never guessed.

A wire connects the coordinator with one server; it loses a message that contains given bytes, and
cuts the connection.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from typing import Any

import psycopg
import pytest

from tests.drivers.bank import PUB, SUB, Bank
from tests.fix_link import Wire, until
from twopc import errors
from twopc.drivers import Points, PostgresCoordinator
from twopc.server import EmbeddedServer

LOG = "distribution"
ABORT = b"{abort}"
REFUSED = "insert into refused values (1)"
GATED = "insert into gated values (1)"
UPDATE = "update account set balance = balance + 1 where id = 1"
AT_SUBSCRIBER = """
create function wait_at_gate() returns trigger language plpgsql as
$$ begin perform pg_advisory_xact_lock(77); return null; end $$;
create function refuse() returns trigger language plpgsql as
$$ begin raise exception 'not today'; end $$;
create table gated (k integer);
create table refused (k integer);
grant all on gated, refused to public;
create constraint trigger refuse after insert on refused deferrable initially deferred
    for each row execute function refuse();
create constraint trigger gate after insert on gated deferrable initially deferred
    for each row execute function wait_at_gate();
"""

#: Per case: the node behind the wire, the kind and bytes of the lost message, the variant, and the
#: outcome that the application must get.
CASES = {
    "the request to prepare": (SUB, "request", b"prepare transaction", "presumed_abort", "rejected"),
    "the votes": (SUB, "answer", b"prepare transaction", "presumed_abort", "rejected"),
    "the decision on its way to the log": (LOG, "request", b"log_decisions", "presumed_abort", "rejected"),
    "the log's acknowledgement": (LOG, "answer", b"log_decisions", "presumed_abort", "committed"),
    "the commit for the publisher": (PUB, "request", b"commit prepared", "presumed_abort", "committed"),
    "the publisher's acknowledgement": (PUB, "answer", b"commit prepared", "presumed_abort", "committed"),
    "the commit for the subscriber": (SUB, "request", b"commit prepared", "presumed_abort", "committed"),
    "the subscriber's acknowledgement": (SUB, "answer", b"commit prepared", "presumed_abort", "committed"),
    "the collected names' acknowledgement": (LOG, "answer", b"collecting", "presumed_commit", "rejected"),
    "the abort's acknowledgement in the log": (LOG, "answer", ABORT, "presumed_nothing", "rejected"),
    "the decision for the last agent": (SUB, "request", b";commit", "last_agent", "rejected"),
    "the last agent's decision": (SUB, "answer", b";commit", "last_agent", "committed"),
    "the commit behind the last agent": (PUB, "request", b"commit prepared", "last_agent", "committed"),
}  # fmt: skip


class Line(Wire):
    """A wire that can also stay down after a cut, or swallow answers without closing a connection."""

    def __init__(self, port: int) -> None:
        super().__init__(port)
        self.stays_down = False
        """The next cut closes all connections, and no new connection succeeds."""
        self.swallows = False
        """No answer arrives, and no connection is closed."""

    async def _requests(self, *ends: Any) -> None:
        cut = self.times_cut
        await super()._requests(*ends)
        self._after(cut)

    async def _answers(self, reader: Any, writer: Any, *rest: Any) -> None:
        cut = self.times_cut
        await super()._answers(_Reader(self, reader), writer, *rest)
        self._after(cut)

    def _after(self, cut: int) -> None:
        if self.stays_down and self.times_cut > cut:
            self.is_down = True
            self.cut()


class _Reader:
    """Reads answers for a `Line`, and drops them while the line swallows answers."""

    def __init__(self, line: Line, reader: asyncio.StreamReader) -> None:
        self._line = line
        self._reader = reader

    async def read(self, size: int) -> bytes:
        while (data := await self._reader.read(size)) and self._line.swallows:
            pass
        return data


@pytest.fixture
async def wire(server: EmbeddedServer) -> AsyncIterator[Line]:
    made = Line(server.port)
    await made.open()
    yield made
    await made.close()


def through(wire: Line) -> dict[str, Any]:
    """Return connection parameters that lead through a wire."""
    return {"host": "127.0.0.1", "port": wire.port}


async def attempt(coordinator: PostgresCoordinator, commit: str, *statements: str) -> str:
    try:
        async with coordinator.transaction(SUB, commit=commit) as transaction:
            for statement in statements or (UPDATE,):
                await transaction.execute(statement)
    except errors.RejectedError as error:
        assert error.sqlstate, "an application tells by it whether to try again"
        return "rejected"
    except errors.InDoubtError:
        return "in doubt"
    return "committed"


@pytest.mark.parametrize("what", CASES)
async def test_the_outcome_is_found_out(bank: Bank, wire: Line, what: str) -> None:
    node, kind, words, variant, told = CASES[what]
    async with bank.coordinator(through={node: through(wire)}) as coordinator:
        assert await attempt(coordinator, variant) == "committed"  # now the link's role is known
        setattr(wire, f"lost_{kind}", words)
        statements = (UPDATE, REFUSED) if words == ABORT else (UPDATE,)
        assert await attempt(coordinator, variant, *statements) == told
        assert wire.times_cut == 1
        await coordinator.recover()
        await bank.assert_atomic()
        assert await bank.balance(PUB) == (2 if told == "committed" else 1)
        assert await attempt(coordinator, variant) == "committed"
    async with bank.coordinator():  # its recovery forgets the remaining decisions
        assert await bank.decisions() == []


async def test_nothing_is_begun_without_the_log(bank: Bank, wire: Line) -> None:
    async with bank.coordinator(through={LOG: through(wire)}) as coordinator:
        wire.is_down = True
        wire.cut()
        assert await attempt(coordinator, "presumed_commit") == "rejected"
        wire.mend()
        assert await attempt(coordinator, "presumed_commit") == "committed"


@pytest.mark.parametrize("variant", ["presumed_abort", "last_agent"])
async def test_a_prepare_that_outlives_its_connection_is_fenced(
    bank: Bank, wire: Line, variant: str
) -> None:
    """A PREPARE that still runs when its connection is lost leaves no prepared branch.

    The wire is cut while the server executes PREPARE (or COMMIT), delayed by a deferred trigger.
    Without a fence, the branch would be prepared a moment later, and no process would finish it.
    """
    gate = await psycopg.AsyncConnection.connect(bank.topology.node(SUB).dsn, autocommit=True)
    async with gate, bank.coordinator(through={SUB: through(wire)}) as coordinator:
        await gate.execute("select pg_advisory_lock(77)")
        trying = asyncio.create_task(attempt(coordinator, variant, UPDATE, GATED))
        query = "select 1 from pg_stat_activity where wait_event = 'advisory' and datname = current_database()"

        def is_stuck() -> bool:
            with psycopg.connect(bank.topology.node(SUB).dsn, autocommit=True) as eyes:
                return bool(eyes.execute(query).fetchall())

        await until(is_stuck, "the server to be inside PREPARE")
        wire.cut()
        assert await trying == "rejected"
        await gate.execute("select pg_advisory_unlock(77)")
        await coordinator.recover()
        await bank.assert_atomic()
        assert await bank.balances() == (0, 0)
        assert await attempt(coordinator, variant) == "committed"


async def test_what_is_in_doubt_is_said_to_be_and_settled_later(bank: Bank, wire: Line) -> None:
    """A transaction is in doubt while the decision log does not answer, and is settled later."""
    async with bank.coordinator(through={LOG: through(wire)}, in_doubt_after_s=0.2) as coordinator:
        assert await attempt(coordinator, "presumed_abort") == "committed"
        wire.lost_answer = b"log_decisions"
        wire.stays_down = True
        assert await attempt(coordinator, "presumed_abort") == "in doubt"
        assert len(await bank.prepared()) == 2, "nothing is guessed"
        wire.is_down = wire.stays_down = False
        await coordinator.recover()
        await bank.assert_atomic()
        assert await bank.balances() == (2, 2)


async def test_a_last_agent_that_does_not_answer_leaves_it_in_doubt(bank: Bank, wire: Line) -> None:
    async with bank.coordinator(through={SUB: through(wire)}, in_doubt_after_s=0.2) as coordinator:
        assert await attempt(coordinator, "last_agent") == "committed"
        wire.lost_answer = b";commit"
        wire.stays_down = True
        assert await attempt(coordinator, "last_agent") == "in doubt"
        assert [gid.rpartition(":")[2] for gid in await bank.prepared()] == [PUB]
        await coordinator.recover()
        assert len(await bank.prepared()) == 1, "the agent cannot be asked"
        wire.is_down = wire.stays_down = False
        await coordinator.recover()
        await bank.assert_atomic()
        assert await bank.balances() == (2, 2)


async def test_what_was_committed_without_its_result(bank: Bank, wire: Line) -> None:
    """A commit whose answer is lost with the statement's result raises `ResultLostError`.

    The result and the last agent's decision are lost in one message.
    """
    async with bank.coordinator(through={SUB: through(wire)}) as coordinator:
        run = functools.partial(coordinator.run, SUB, commit="last_agent")
        assert (await run(f"{UPDATE} returning balance")).rows == ((1,),)
        wire.lost_answer = b";commit"
        with pytest.raises(errors.ResultLostError, match="committed at every site, but"):
            await run(f"{UPDATE} returning balance")
        assert wire.times_cut == 1
        await coordinator.recover()
        await bank.assert_atomic()
        assert await bank.balances() == (2, 2)
        assert (await run(f"{UPDATE} returning balance")).rows == ((3,),)


async def test_a_commit_is_answered_although_one_site_cannot_be_told(
    bank: Bank, wire: Line
) -> None:
    """A decided transaction is reported as committed although the Publisher is down in phase two.

    The Subscriber's branch is finished at once, the Publisher's by recovery.
    """
    async with bank.coordinator(through={PUB: through(wire)}) as coordinator:
        assert await attempt(coordinator, "presumed_abort") == "committed"
        wire.lost_request = b"commit prepared"
        wire.stays_down = True
        assert await attempt(coordinator, "presumed_abort") == "committed"
        assert await bank.balance(SUB) == 2
        assert [gid.rpartition(":")[2] for gid in await bank.prepared()] == [PUB]
        wire.is_down = wire.stays_down = False
        await coordinator.recover()
        await bank.assert_atomic()
        assert await bank.balances() == (2, 2)


async def test_a_connection_that_says_nothing_is_given_up(bank: Bank, wire: Line) -> None:
    """A connection without any answer and without an end of file is given up after a timeout."""
    points = Points()
    async with bank.coordinator(
        through={SUB: through(wire)}, answer_timeout_s=1.0, recovery_interval_s=0.05, points=points
    ) as coordinator:
        assert await attempt(coordinator, "presumed_abort") == "committed"
        points.arm("coordinator.before_prepare(pub)", lambda _: setattr(wire, "swallows", True))
        points.arm("coordinator.before_rollback(pub)", lambda _: setattr(wire, "swallows", False))
        assert await attempt(coordinator, "presumed_abort") == "rejected"
        await bank.assert_atomic()
        assert await bank.balances() == (1, 1)


async def test_a_decision_log_that_says_nothing_is_given_up(bank: Bank, wire: Line) -> None:
    """A commit does not wait forever for a decision log that accepts connections but never answers."""
    async with bank.coordinator(
        through={LOG: through(wire)}, answer_timeout_s=1.0, in_doubt_after_s=0.2
    ) as coordinator:
        assert await attempt(coordinator, "presumed_abort") == "committed"
        coordinator.points.arm(
            "coordinator.before_decision", lambda _: setattr(wire, "swallows", True)
        )
        async with asyncio.timeout(20):
            assert await attempt(coordinator, "presumed_abort") == "in doubt"
        coordinator.points.disarm()
        wire.swallows = False
        wire.cut()
        await coordinator.recover()
        await bank.assert_atomic()
        assert await attempt(coordinator, "presumed_abort") == "committed"
