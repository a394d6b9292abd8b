"""Transfer money at a Subscriber until killed.

Run ``python -m tests.chaos.worker KIND FOLDER NODE SEED FILE``. KIND is ``coordinated`` (a
coordinator in this process) or ``plain`` (an ordinary client). Each transfer is two updates and an
entry of the ledger in one transaction. The file gets a line for every transfer before it begins,
and another for its outcome, if that is definite: a transfer that was told as committed must be
everywhere in the end, one that was told as refused nowhere. The line of a refusal has its SQLSTATE.
"""

from __future__ import annotations

import asyncio
import random
import sys
import uuid
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
from psycopg import AsyncConnection

from twopc.errors import InDoubtError, ResultLostError, TwopcError
from twopc.sim.operate import attach
from twopc.sim.up.state import State, load

ACCOUNTS = 12
COMMITS = ("presumed_abort", "presumed_commit", "presumed_nothing", "last_agent")
SHIPPING = ("eager", "lazy")
DURABILITY = ("on", "off")
_PAUSE_S = 0.05
Execute = Callable[[str, Sequence[Any]], Awaitable[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """One transfer."""

    key: str
    payer: int
    payee: int
    amount: int

    async def make(self, execute: Execute) -> None:
        """Execute the statements of the transfer."""
        move = "update account set balance = balance + %s where id = %s"
        # in the order of the keys, so that two transfers of one site do not wait for each other
        for account, amount in sorted([(self.payer, -self.amount), (self.payee, self.amount)]):
            await execute(move, (amount, account))
        await execute(
            "insert into ledger values (%s, %s, %s, %s)",
            (self.key, self.payer, self.payee, self.amount),
        )


def drawn(chance: random.Random) -> Transfer:
    """Return a random transfer."""
    payer, payee = chance.sample(range(1, ACCOUNTS + 1), 2)
    key = str(uuid.UUID(int=chance.getrandbits(128)))
    return Transfer(key=key, payer=payer, payee=payee, amount=chance.randint(1, 9))


class Book:
    """The file of outcomes, written line by line."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1, encoding="utf-8")

    def write(self, word: str, key: str, sqlstate: str = "") -> None:
        """Write ``begun``, ``committed`` or ``refused``; a kill leaves the whole line or none."""
        self._file.write(f"{word} {key} {sqlstate}\n")


async def coordinated(state: State, node: str, chance: random.Random, book: Book) -> None:
    """Make transfers by the coordinator of this process, with any commit protocol and shipping."""
    async with await attach(
        state.dsns, coordinator=state.name, newcomers=state.subscribers
    ) as topology:
        while True:
            transfer = drawn(chance)
            book.write("begun", transfer.key)
            try:
                async with topology.transaction(
                    node,
                    commit=chance.choice(COMMITS),
                    shipping=chance.choice(SHIPPING),
                ) as transaction:
                    await transfer.make(transaction.execute)
            except (InDoubtError, ResultLostError):
                await asyncio.sleep(_PAUSE_S)
            except (TwopcError, psycopg.Error) as error:
                book.write("refused", transfer.key, error.sqlstate or type(error).__name__)
                await asyncio.sleep(_PAUSE_S)
            else:
                book.write("committed", transfer.key)


async def plain(state: State, node: str, chance: random.Random, book: Book) -> None:
    """Make transfers as psql would; a missing answer to COMMIT leaves the outcome open."""
    while True:
        try:
            async with await AsyncConnection.connect(
                state.nodes[node].app_dsn, autocommit=True
            ) as connection:
                while True:
                    await _by_itself(connection, chance, book)
        except psycopg.Error:
            await asyncio.sleep(_PAUSE_S)


async def _by_itself(connection: AsyncConnection[Any], chance: random.Random, book: Book) -> None:
    transfer = drawn(chance)
    book.write("begun", transfer.key)
    await connection.execute("begin")
    await connection.execute(f"set local msrepl.shipping = '{chance.choice(SHIPPING)}'".encode())
    await connection.execute(f"set local synchronous_commit = {chance.choice(DURABILITY)}".encode())
    try:
        await transfer.make(connection.execute)
        said = await connection.execute("commit")
    except psycopg.Error as error:
        if connection.closed or error.sqlstate is None:
            raise
        book.write("refused", transfer.key, error.sqlstate)
        await connection.execute("rollback")
        await asyncio.sleep(_PAUSE_S)
    else:
        word = "committed" if said.statusmessage == "COMMIT" else "refused"
        book.write(word, transfer.key, "" if word == "committed" else "25P02")


def main(kind: str, folder: str, node: str, seed: str, file: str) -> None:
    """Make transfers until a signal ends the process."""
    work = {"coordinated": coordinated, "plain": plain}[kind]
    asyncio.run(work(load(Path(folder)), node, random.Random(seed), Book(Path(file))))


if __name__ == "__main__":
    main(*sys.argv[1:])
