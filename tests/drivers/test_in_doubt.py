"""Tests of branches in doubt as an operator sees them, and of heuristic outcomes."""

from __future__ import annotations

import asyncio
from typing import Any

import psycopg
import pytest

from tests.drivers.bank import PUB, SUB, Bank
from tests.fix_link import until
from twopc import errors
from twopc.drivers import InDoubtBranch, Points, PostgresCoordinator
from twopc.protocol.effects import Outcome

UPDATE = "update account set balance = balance + 1 where id = 1"


class Held:
    """A transaction held at a protocol point until the test releases it."""

    def __init__(self, bank: Bank, coordinator: PostgresCoordinator, point: str) -> None:
        self.arrived = asyncio.Event()
        self._go = asyncio.Event()
        coordinator.points.arm(point, self._hold)
        self._coordinator = coordinator
        self.task = asyncio.create_task(self._work())

    async def _hold(self, _: str) -> None:
        self.arrived.set()
        await self._go.wait()

    async def _work(self) -> None:
        async with self._coordinator.transaction(SUB) as transaction:
            self.gid = transaction.gid
            await transaction.execute(UPDATE)

    async def let_go(self) -> None:
        self._go.set()
        await self.task


async def held(bank: Bank, coordinator: PostgresCoordinator, point: str) -> Held:
    made = Held(bank, coordinator, point)
    await made.arrived.wait()
    return made


def by_node(found: list[InDoubtBranch]) -> dict[str, InDoubtBranch]:
    return {one.node: one for one in found}


async def test_a_prepared_branch_is_shown_with_what_it_blocks(bank: Bank) -> None:
    async with bank.coordinator(points=Points()) as coordinator:
        work = await held(bank, coordinator, "coordinator.before_decision")
        blocked = await psycopg.AsyncConnection.connect(
            bank.topology.node(PUB).dsn, autocommit=True, application_name="a clerk"
        )
        waiting = asyncio.create_task(
            blocked.execute("update account set balance = 9 where id = 1")
        )
        query = "select 1 from pg_stat_activity where application_name = 'a clerk' and wait_event_type = 'Lock'"

        def is_waiting() -> bool:
            with psycopg.connect(bank.topology.node(PUB).dsn, autocommit=True) as eyes:
                return bool(eyes.execute(query).fetchall())

        await until(is_waiting, "the clerk to wait")
        found = by_node(await coordinator.in_doubt())
        assert set(found) == {PUB, SUB}
        there = found[PUB]
        assert there.gid == f"{work.gid}:{PUB}"
        assert there.ours
        assert there.decision == ""
        assert there.age_s >= 0
        assert there.relations == ("account",)
        assert [one.application_name for one in there.waiters] == ["a clerk"]
        assert there.next_action.startswith("wait:")
        assert found[SUB].waiters == ()
        await work.let_go()
        await waiting
        await blocked.close()
        assert await coordinator.in_doubt() == []


async def test_the_rows_are_counted_where_one_may_look(bank: Bank) -> None:
    for node in (PUB, SUB):
        role = bank.topology.node(node).coordinator_role
        await bank.fetch(node, f'grant select on account to "{role}"')
    async with bank.coordinator(points=Points()) as coordinator:
        work = await held(bank, coordinator, "coordinator.before_decision")
        found = await coordinator.in_doubt()
        assert [one.relations for one in found] == [("account",), ("account",)]
        assert [one.rows_locked for one in found] == [1, 1]
        await work.let_go()


async def test_a_decision_is_shown(bank: Bank) -> None:
    async with bank.coordinator(points=Points()) as coordinator:
        work = await held(bank, coordinator, "coordinator.decision_logged")
        found = await coordinator.in_doubt()
        assert [(one.decision, one.next_action.partition(":")[0]) for one in found] == [
            ("commit", "commit"),
            ("commit", "commit"),
        ]
        await work.let_go()


@pytest.mark.parametrize(
    ("gid", "words"),
    [
        ("somebody else's", "not a branch"),
        ("twopc:other:1:1:pub", "belongs to coordinator 'other'"),
        ("twopc:{name}:999999:1:pub", "knows no epoch 999999"),
        ("twopc:{name}:1:1:sub1", "prepared at 'pub'"),
    ],
)
async def test_what_is_left_alone_is_shown_with_the_reason(
    bank: Bank, gid: str, words: str
) -> None:
    gid = gid.format(name=bank.coordinator_name)
    quoted = gid.replace("'", "''")
    connection = await psycopg.AsyncConnection.connect(bank.topology.node(PUB).dsn, autocommit=True)
    async with connection, bank.coordinator() as coordinator:
        await connection.execute("begin; create table tt (n integer)")
        await connection.execute(f"prepare transaction '{quoted}'".encode())
        try:
            await coordinator.recover()
            (one,) = await coordinator.in_doubt()
            assert one.gid == gid
            assert one.next_action.startswith("left alone")
            assert words in one.next_action
        finally:
            await connection.execute(f"rollback prepared '{quoted}'".encode())


# -- forced outcomes -------------------------------------------------------------------------------


async def test_a_forced_outcome_is_recorded_before_it_is_done(bank: Bank) -> None:
    async with bank.coordinator(points=Points()) as coordinator:
        work = await held(bank, coordinator, "coordinator.decision_logged")
        outcome = await coordinator.force(
            f"{work.gid}:{PUB}", Outcome.COMMITTED, "the boss said so"
        )
        assert outcome is Outcome.COMMITTED
        (record,) = await coordinator.heuristics()
        assert (record.gid, record.node, record.outcome, record.decided) == (
            f"{work.gid}:{PUB}", PUB, "committed", "committed",
        )  # fmt: skip
        assert record.forced
        assert not record.damage
        assert record.reason == "the boss said so"
        await work.let_go()
    await bank.assert_atomic()
    assert await bank.balances() == (1, 1)


@pytest.mark.parametrize("by", ["force", "hand"])
async def test_an_outcome_against_the_decision_is_damage_and_never_silent(
    bank: Bank, by: str
) -> None:
    async with bank.coordinator(points=Points()) as coordinator:
        work = await held(bank, coordinator, "coordinator.decision_logged")
        gid = f"{work.gid}:{PUB}"
        if by == "force":
            await coordinator.force(gid, Outcome.ABORTED, "in a hurry")
        else:
            await bank.fetch(PUB, f"rollback prepared '{gid}'")
        with pytest.raises(errors.HeuristicError, match="branch was finished by hand") as caught:
            await work.let_go()
        assert not caught.value.definite
        assert caught.value.node == PUB
        assert await bank.balances() == (0, 1), "the damage is theirs; the decision was followed"
        found = await coordinator.heuristics()
        assert [(one.forced, one.damage, one.outcome) for one in found] == [
            *([(True, True, "aborted")] if by == "force" else []),
            (False, True, "aborted"),
        ]
        await coordinator.recover()
        assert len(await coordinator.heuristics()) == len(found)


@pytest.mark.parametrize(
    ("gid", "words"),
    [
        ("nonsense", "no branch of coordinator"),
        ("twopc:other:1:1:pub", "no branch of coordinator"),
        ("twopc:{name}:1:1:nowhere", "no participant"),
        ("twopc:{name}:1:1:pub", "no branch .* is prepared at pub"),
    ],
)
async def test_force_refuses_what_it_does_not_know(bank: Bank, gid: str, words: str) -> None:
    async with bank.coordinator() as coordinator:
        with pytest.raises(errors.ConfigurationError, match=words):
            await coordinator.force(gid.format(name=bank.coordinator_name), Outcome.ABORTED, "x")
        assert await coordinator.heuristics() == []


# -- retention -------------------------------------------------------------------------------------


async def test_decisions_and_markers_are_forgotten_in_the_background(bank: Bank) -> None:
    async with bank.coordinator(recovery_interval_s=0.02, markers_kept_s=0.0) as coordinator:
        for _ in range(5):
            await coordinator.run(SUB, UPDATE)
        for _ in range(2):  # a fence, as the branch is aborted
            with pytest.raises(errors.RejectedError):
                await coordinator.run(SUB, "insert into account values (1, 1)")

        def left() -> list[Any]:
            found = []
            for node, table in (
                (PUB, "branch_marker"),
                (SUB, "branch_marker"),
                ("distribution", "decision"),
            ):
                with psycopg.connect(bank.topology.node(node).dsn, autocommit=True) as eyes:
                    found += eyes.execute(f"select * from msrepl.{table}".encode()).fetchall()
            return found

        await until(lambda: not left(), "everything to be forgotten")
    assert await bank.balances() == (5, 5)


async def test_markers_are_kept_for_those_who_ask_late(bank: Bank) -> None:
    async with bank.coordinator() as coordinator:
        await coordinator.run(SUB, UPDATE)
        await coordinator.recover()
        assert list((await bank.markers(PUB)).values()) == [False]
        assert list((await bank.markers(SUB)).values()) == [False]
