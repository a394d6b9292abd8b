"""A small bank to break things in: one table, published, and a coordinator that a test may shape."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import psycopg
from psycopg import conninfo

from twopc.drivers import ParticipantAddress, PostgresCoordinator
from twopc.names import PREFIX, table_role
from twopc.publisher.publication import owner_role
from twopc.sim.topology import Topology

PUB, SUB = "pub", "sub1"
_salts = itertools.count()


class Bank:
    """Accounts at a Publisher and at a Subscriber, which subscribes to them."""

    def __init__(self, topology: Topology) -> None:
        self.topology = topology
        self.coordinator_name = topology.name
        self.seen: list[tuple[str, Any]] = []
        """Every effect and event of the coordinators that `coordinator` made."""

    @classmethod
    async def open(
        cls,
        topology: Topology,
        accounts: int = 20,
        *,
        before_publishing: str = "",
        publish: Sequence[str] = (),
        at_subscriber: str = "",
    ) -> Self:
        """Create, publish and subscribe the table, and others; run the statements given."""
        bank = cls(topology)
        await topology.execute(
            PUB, "create table account (id integer primary key, balance integer not null)"
        )
        await topology.execute(
            PUB, f"insert into account select g, 0 from generate_series(1, {accounts}) as g"
        )
        if before_publishing:
            await topology.execute(PUB, before_publishing)
        for table in ("account", *publish):
            await topology.publish(table)
        for subscriber in topology.subscribers:
            await topology.subscribe(subscriber)
            if at_subscriber:
                await topology.execute(subscriber, at_subscriber)
        return bank

    async def let_go(self) -> None:
        """Close the administrator's connections, so that another event loop can go on."""
        for node in self.topology.nodes:
            await (await self.topology.admin(node)).close()

    async def reset(self) -> None:
        """Every account at 0 and at the same, new version everywhere; nothing in the decision log."""
        self.seen.clear()
        salt = next(_salts)
        for node in (PUB, *self.topology.subscribers):
            role = table_role(owner_role(self.topology.node(node).database), "public", "account")
            await self.fetch(
                node,
                "set session_replication_role = replica; truncate msrepl.branch_marker;"
                # rows keep the versions that this role gives them at the Publisher
                + (f" set role {role};" if node == PUB else "")
                + f" update account set balance = 0, msrepl_tran_version = md5('{salt} ' || id)::uuid;"
                " reset role",
            )
        await self.fetch(
            self.topology.distribution,
            "delete from msrepl.decision; delete from msrepl.heuristic_outcome",
        )

    def address(self, name: str, **changes: Any) -> ParticipantAddress:
        """A node's address; `changes` go into its connection strings."""
        node = self.topology.node(name)
        return ParticipantAddress(
            name=name,
            dsn=conninfo.make_conninfo(node.coordinator_dsn, **changes),
            application_dsn=conninfo.make_conninfo(node.app_dsn, **changes),
        )

    @asynccontextmanager
    async def coordinator(
        self, *, through: dict[str, dict[str, Any]] | None = None, **options: Any
    ) -> AsyncIterator[PostgresCoordinator]:
        """A coordinator that recovers only when told so, unless `options` say otherwise.

        Args:
            through: changes to the connection strings of nodes (a wire's host and port).
            options: of `PostgresCoordinator`.
        """
        through = through or {}
        distribution = self.topology.node(self.topology.distribution).coordinator_dsn
        made = PostgresCoordinator(
            options.pop("name", self.coordinator_name),
            distribution=conninfo.make_conninfo(distribution, **through.get("distribution", {})),
            publisher=self.address(PUB, **through.get(PUB, {})),
            subscribers={
                name: self.address(name, **through.get(name, {}))
                for name in self.topology.subscribers
            },
            **{
                "recovery_interval_s": 3600.0,
                "observe": lambda gid, what: self.seen.append((gid, what)),
                **options,
            },
        )
        async with made:
            yield made

    async def balance(self, node: str, account: int = 1) -> int:
        """What an account holds at a node."""
        rows = await self.fetch(node, "select balance from account where id = %s", (account,))
        return int(rows[0][0])

    async def balances(self, account: int = 1) -> tuple[int, int]:
        """What an account holds at the Publisher and at the Subscriber."""
        return await self.balance(PUB, account), await self.balance(SUB, account)

    async def prepared(self) -> list[str]:
        """Gids of ours that are prepared at any node, in order."""
        found: list[str] = []
        for node in (PUB, *self.topology.subscribers):
            rows = await self.fetch(
                node, "select gid from pg_prepared_xacts where database = current_database()"
            )
            found += [gid for (gid,) in rows if gid.startswith(f"{PREFIX}:")]
        return sorted(found)

    async def markers(self, node: str) -> dict[str, bool]:
        """The branch markers at a node; True for a fence."""
        return dict(await self.fetch(node, "select gid, fence from msrepl.branch_marker"))

    async def decisions(self) -> list[tuple[int, int, str, list[str]]]:
        """The rows of the decision log."""
        query = "select epoch, sequence, kind, participants from msrepl.decision order by 1, 2"
        return await self.fetch(self.topology.distribution, query)  # type: ignore[return-value]

    async def fetch(self, node: str, query: str, params: Any = None) -> list[tuple[Any, ...]]:
        """Rows at a node, over a new connection: its server may have been restarted."""
        async with await psycopg.AsyncConnection.connect(
            self.topology.node(node).dsn, autocommit=True
        ) as connection:
            cursor = await connection.execute(query.encode(), params)
            return await cursor.fetchall() if cursor.description else []

    async def assert_atomic(self, accounts: Iterable[int] = (1,)) -> None:
        """The same at both sites, nothing of ours prepared, no decision left open."""
        for account in accounts:
            there, here = await self.balances(account)
            assert there == here, f"account {account}: {there} at the Publisher, {here} here"
        assert await self.prepared() == []

    def effects(self, kind: Callable[[Any], bool] = bool) -> list[Any]:
        """What was seen, without the transactions it belongs to."""
        return [what for _, what in self.seen if kind(what)]
