"""A bank with a coordinator, and events in a transaction before it is asked to prepare."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import psycopg
import pytest

from tests.drivers.bank import PUB, SUB, Bank
from tests.fix_link import until
from twopc import errors
from twopc.drivers import PostgresCoordinator, Transaction
from twopc.waits import link_name


class Stand:
    """A bank with a coordinator, and connections that interfere with its transactions."""

    def __init__(self, bank: Bank, coordinator: PostgresCoordinator, after: AsyncExitStack) -> None:
        self.bank = bank
        self.coordinator = coordinator
        self.after = after
        """Closed after the transaction."""

    async def at(self, node: str, query: str, params: Any = None) -> list[tuple[Any, ...]]:
        return await self.bank.fetch(node, query, params)

    async def connect(self, node: str) -> psycopg.AsyncConnection[Any]:
        """Return a connection that is closed after the transaction."""
        dsn = self.bank.topology.node(node).dsn
        connection = await psycopg.AsyncConnection.connect(dsn, autocommit=True)
        self.after.push_async_callback(connection.close)
        return connection


Do = Callable[[Stand, Transaction], Awaitable[None]]

UPDATE = "update account set balance = 1 where id = 1"
LAZY = {"shipping": "lazy"}
V, C = errors.VoteError, errors.ConflictError


@dataclass(frozen=True)
class Case:
    """An event between an update and its commit, and the refusal that must follow."""

    do: Do
    error: type[BaseException] = V
    sqlstate: str = ""
    kind: str = ""
    options: Mapping[str, str] = field(default_factory=dict)


def sql(*statements: str) -> Do:
    async def do(stand: Stand, tx: Transaction) -> None:
        for statement in statements:
            await tx.execute(statement)

    return do


def swallowed(statement: str) -> Do:
    async def do(stand: Stand, tx: Transaction) -> None:
        with pytest.raises((psycopg.Error, errors.TransactionError)):
            await tx.execute(statement)

    return do


# -- events of the application ---------------------------------------------------------------------


async def swallowed_serialization_failure(stand: Stand, tx: Transaction) -> None:
    await stand.at(SUB, "update local_row set k = k + 1")
    with pytest.raises(C):
        await tx.execute("select k from local_row for update")


async def swallowed_conflict(stand: Stand, tx: Transaction) -> None:
    await publisher_changed(2)(stand, tx)
    with pytest.raises(C):
        await tx.execute("update account set balance = 1 where id = 2")


async def write_skew(stand: Stand, tx: Transaction) -> None:
    """Create a write skew under SERIALIZABLE, which fails in PREPARE itself."""
    other = await stand.connect(SUB)
    await other.execute("begin isolation level serializable")
    await other.execute("select count(*) from local_plain")
    await tx.execute("select count(*) from local_unique")
    await other.execute("insert into local_unique values (1)")
    await tx.execute("insert into local_plain values (1)")
    await other.execute("commit")


async def ended_past_us(stand: Stand, tx: Transaction) -> None:
    """Roll back past the coordinator, with a statement in bytes."""
    await tx.execute(b"rollback")


# -- gids ------------------------------------------------------------------------------------------


def taken_gid(name: str, elsewhere: str) -> Do:
    """Prepare the gid of a branch in another database: gids are unique in a cluster."""

    async def do(stand: Stand, tx: Transaction) -> None:
        gid = f"{tx.gid}:{name}"
        await stand.at(elsewhere, "create table if not exists taken (n integer)")
        connection = await stand.connect(elsewhere)
        await connection.execute("begin; insert into taken values (1)")
        await connection.execute(f"prepare transaction '{gid}'".encode())
        stand.after.push_async_callback(connection.execute, f"rollback prepared '{gid}'".encode())

    return do


# -- interference ----------------------------------------------------------------------------------


def while_it_prepares(action: str = "") -> Do:
    """Delay PREPARE in a deferred trigger, and apply `action` to its backend."""

    async def do(stand: Stand, tx: Transaction) -> None:
        gate, pid = await stand.connect(SUB), tx.pid
        await gate.execute("select pg_advisory_lock(77)")
        await tx.execute("insert into local_gated values (1)")
        if not action:
            return

        def is_stuck() -> list[tuple[Any, ...]]:
            with psycopg.connect(stand.bank.topology.node(SUB).dsn, autocommit=True) as eyes:
                query = "select 1 from pg_stat_activity where pid = %s and wait_event = 'advisory'"
                return eyes.execute(query, (pid,)).fetchall()

        async def interfere() -> None:
            await until(is_stuck, "PREPARE to reach the gate")
            await gate.execute(f"select {action}({pid})".encode())

        task = asyncio.create_task(interfere())
        stand.after.push_async_callback(lambda: task)

    return do


async def kill_session(stand: Stand, tx: Transaction) -> None:
    await stand.at(SUB, "select pg_terminate_backend(%s, 5000)", (tx.pid,))


async def kill_link(stand: Stand, tx: Transaction) -> None:
    query = """
        select pg_terminate_backend(pid, 5000) from pg_stat_activity where application_name = %s
    """
    await stand.at(PUB, query, (link_name(SUB, tx.pid),))


def publisher_changed(account: int) -> Do:
    async def do(stand: Stand, tx: Transaction) -> None:
        await stand.at(PUB, "update account set balance = 99 where id = %s", (account,))
        back = "update account set balance = 0 where id = %s"
        stand.after.push_async_callback(stand.at, PUB, back, (account,))

    return do


async def publisher_inserted(stand: Stand, tx: Transaction) -> None:
    await tx.execute("insert into account values (1000, 1)")
    await stand.at(PUB, "insert into account values (1000, 0)")
    stand.after.push_async_callback(stand.at, PUB, "delete from account where id = 1000")


async def publisher_locks_it(stand: Stand, tx: Transaction) -> None:
    blocker = await stand.connect(PUB)
    await blocker.execute("begin; select 1 from account where id = 1 for update")
