"""Randomised transactions at the Publisher and several Subscribers, and a ledger of their changes.

Every statement writes its own token into the rows that it changes, and no key is used twice.
A change can therefore be identified wherever it is delivered. The changes of a transaction
are entered when it has committed; changes that were rolled back, to a savepoint or as a
whole, are not entered.
"""

from __future__ import annotations

import asyncio
import itertools
import random
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import psycopg
from psycopg import AsyncConnection

from twopc.errors import RejectedError
from twopc.sim.topology import Topology
from twopc.subscriber.distribution_agent import Profile

TABLES = """
create table item (id bigint primary key, token bigint not null, n int not null default 0, note text);
create table line (id bigint primary key, token bigint not null, n int not null default 0, note text);
"""
TABLE_NAMES = ("item", "line")

#: The delivery witness of a Subscriber: a trigger that fires only for agents, and records their
#: changes in their own transactions.
WITNESS = """
create unlogged table delivered (what text, op text, id bigint, token bigint);
create function deliver() returns trigger language plpgsql as $$
begin
    insert into delivered values (tg_table_name, lower(left(tg_op, 3)),
        case when tg_op = 'DELETE' then old.id else new.id end,
        case when tg_op = 'DELETE' then 0 else new.token end);
    return null;
end $$;
create trigger deliver after insert or update or delete on item for each row execute function deliver();
create trigger deliver after insert or update or delete on line for each row execute function deliver();
alter table item enable replica trigger deliver;
alter table line enable replica trigger deliver;
grant insert on delivered to public;
"""

#: A change of one row: table, operation, key, token. The token of a delete is 0.
Change = tuple[str, str, int, int]


class Executes(Protocol):
    """A transaction at any node."""

    async def execute(self, query: str, params: Any = None) -> Any:
        """Execute one statement."""


@dataclass(slots=True)
class Ledger:
    """Committed changes by their origin, and counts of transactions."""

    committed: dict[str, list[Change]] = field(default_factory=dict)
    transactions: int = 0
    rolled_back: int = 0
    """Transactions rolled back on purpose, as a whole."""
    rejected: int = 0
    """Transactions rejected because of a conflict, a lock or a deadlock."""
    savepoints: int = 0
    """Rollbacks to a savepoint."""
    refused: dict[str, int] = field(default_factory=dict)
    """Rejected transactions by kind."""

    def enter(self, origin: str, changes: list[Change]) -> None:
        """Enter the changes of a committed transaction."""
        self.transactions += 1
        self.committed.setdefault(origin, []).extend(changes)

    def refuse(self, kind: str) -> None:
        """Count a rejected transaction."""
        self.rejected += 1
        self.refused[kind] = self.refused.get(kind, 0) + 1


class _RolledBackError(Exception):
    """Rolls a transaction back on purpose."""


class Client:
    """One application session, which executes transactions at one node."""

    def __init__(
        self, topology: Topology, node: str, ledger: Ledger, *, number: int, seed: str
    ) -> None:
        self.topology = topology
        self.node = node
        self.ledger = ledger
        self.random = random.Random(f"{seed} {node} {number}")
        self.live: dict[str, list[int]] = {name: [] for name in TABLE_NAMES}
        self.others: list[Client] = []
        self._keys = itertools.count(number * 10**9)
        self._tokens: Iterator[int] = itertools.count(number * 10**12)
        self._changes: list[Change] = []
        self._connection: AsyncConnection[Any] | None = None

    async def close(self) -> None:
        """Close the connection, if there is one."""
        if self._connection is not None:
            await self._connection.close()

    async def run_once(self) -> None:
        """Run one transaction to any outcome."""
        self._changes = []
        kept = {name: [*keys] for name, keys in self.live.items()}
        try:
            if self.node == self.topology.publisher:
                await self._at_publisher()
            else:
                await self._at_subscriber()
        except _RolledBackError:
            self.ledger.rolled_back += 1
        except RejectedError as error:
            self.ledger.refuse(error.kind)
        except psycopg.errors.OperationalError as error:  # a lock timeout, a deadlock
            self.ledger.refuse(error.sqlstate or "lost")
        else:
            self.ledger.enter(self.node, self._changes)
            return
        self.live = kept

    async def _at_subscriber(self) -> None:
        commit = self.random.choice(("presumed_abort", "presumed_abort", "last_agent"))
        shipping = self.random.choice(("eager", "lazy"))
        async with self.topology.transaction(
            self.node, commit=commit, shipping=shipping
        ) as transaction:
            await self._statements(transaction)

    async def _at_publisher(self) -> None:
        if self._connection is None:
            dsn = self.topology.node(self.node).app_dsn
            self._connection = await AsyncConnection.connect(dsn, autocommit=True)
            await self._connection.execute("set lock_timeout = '5s'")
        async with self._connection.transaction():
            await self._statements(self._connection)

    async def _statements(self, transaction: Executes) -> None:
        for _ in range(self.random.randint(1, 4)):
            if self.random.random() < 0.15:
                await self._undone(transaction)
            else:
                await self._statement(transaction)
        if self.random.random() < 0.1:
            raise _RolledBackError

    async def _undone(self, transaction: Executes) -> None:
        """Execute statements after a savepoint, and roll most of them back."""
        kept, live = len(self._changes), {name: [*keys] for name, keys in self.live.items()}
        await transaction.execute("savepoint s")
        for _ in range(self.random.randint(1, 2)):
            await self._statement(transaction)
        if self.random.random() < 0.7:
            await transaction.execute("rollback to savepoint s")
            del self._changes[kept:]
            self.live = live
            self.ledger.savepoints += 1
        await transaction.execute("release savepoint s")

    async def _statement(self, transaction: Executes) -> None:
        table = self.random.choice(TABLE_NAMES)
        mine = self.live[table]
        kinds: list[tuple[int, Callable[[Executes, str], Awaitable[None]]]] = [(4, self._insert)]
        if len(mine) > 3:
            kinds += [(6, self._update), (2, self._move), (2, self._delete)]
        if self.others:
            kinds += [(1, self._update_others)]
        weights = [weight for weight, _ in kinds]
        (chosen,) = self.random.choices([kind for _, kind in kinds], weights)
        await chosen(transaction, table)

    async def _change(
        self, transaction: Executes, table: str, op: str, query: str, params: list[Any], token: int
    ) -> list[int]:
        cursor = await transaction.execute(query, params)
        keys = [row[0] for row in await cursor.fetchall()]
        self._changes += [(table, op, key, token) for key in keys]
        return keys

    async def _insert(self, transaction: Executes, table: str) -> None:
        token = next(self._tokens)
        keys = [next(self._keys) for _ in range(self.random.randint(1, 3))]
        query = (
            f"insert into {table} (id, token) select k, %s from unnest(%s::bigint[]) k returning id"
        )
        self.live[table] += await self._change(
            transaction, table, "ins", query, [token, keys], token
        )

    async def _update(self, transaction: Executes, table: str) -> None:
        token = next(self._tokens)
        keys = self.random.sample(self.live[table], self.random.randint(1, 3))
        query = f"update {table} set token = %s, n = n + 1 where id = any (%s) returning id"
        await self._change(transaction, table, "upd", query, [token, sorted(keys)], token)

    async def _update_others(self, transaction: Executes, table: str) -> None:
        """Update a row of another client, which may have changed or may have been deleted."""
        theirs = self.random.choice(self.others).live[table]
        if not theirs:
            return
        token = next(self._tokens)
        query = f"update {table} set token = %s, note = %s where id = %s returning id"
        params = [token, f"by {self.node}", self.random.choice(theirs)]
        await self._change(transaction, table, "upd", query, params, token)

    async def _move(self, transaction: Executes, table: str) -> None:
        """Change a key to one that was never used."""
        token = next(self._tokens)
        old, new = self.random.choice(self.live[table]), next(self._keys)
        query = f"update {table} set id = %s, token = %s where id = %s returning id"
        if await self._change(transaction, table, "upd", query, [new, token, old], token):
            self.live[table].append(new)
        self.live[table].remove(old)

    async def _delete(self, transaction: Executes, table: str) -> None:
        key = self.random.choice(self.live[table])
        query = f"delete from {table} where id = %s returning id"
        await self._change(transaction, table, "del", query, [key], 0)
        self.live[table].remove(key)


async def make(topology: Topology, *, streams: int = 1) -> None:
    """Create the tables, the subscriptions and the Subscribers' delivery witnesses.

    Args:
        streams: over which each agent spreads its commands.
    """
    profile = Profile(subscription_streams=streams)
    await topology.execute(topology.publisher, TABLES)
    for table in TABLE_NAMES:
        await topology.publish(table)
    for subscriber in topology.subscribers:
        await topology.subscribe(subscriber, profile=profile)
        await topology.execute(subscriber, WITNESS)
    for table in TABLE_NAMES:
        await topology.regenerate(table)


async def play(
    topology: Topology,
    ledger: Ledger,
    *,
    transactions: int,
    seed: str,
    clients: int = 2,
    between: Callable[[int], Awaitable[None]] | None = None,
) -> None:
    """Run that many transactions, spread over clients of every node.

    Args:
        clients: at each node.
        between: called with the number of transactions begun, by whichever client has just ended one.
    """
    nodes = [*topology.subscribers, topology.publisher]
    made = [
        Client(topology, node, ledger, number=number, seed=seed)
        for number, node in enumerate(nodes * clients, 1)
    ]
    for client in made:
        client.others = [other for other in made if other is not client]
    left = iter(range(transactions))

    async def work(client: Client) -> None:
        for number in left:
            await client.run_once()
            if between is not None:
                await between(number)

    try:
        async with asyncio.TaskGroup() as group:
            for client in made:
                group.create_task(work(client))
    finally:
        for client in made:
            await client.close()
