"""A small bank for tests of faults: one published table, and coordinators with options of a test."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Self

import psycopg
from psycopg import conninfo

from tests.fix_link import until
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
        """Create, publish and subscribe the tables; run the given statements."""
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
        """Close the administrators' connections, so that another event loop can open its own."""
        for node in self.topology.nodes:
            await (await self.topology.admin(node)).close()

    async def reset(self) -> None:
        """Set every account to 0 with one new row version at all nodes, and empty the decision log."""
        self.seen.clear()
        salt = next(_salts)
        for node in (PUB, *self.topology.subscribers):
            role = table_role(owner_role(self.topology.node(node).database), "public", "account")
            await self.fetch(
                node,
                "set session_replication_role = replica; truncate msrepl.branch_marker;"
                # At the Publisher, rows keep the given version only if the table role sets it.
                + (f" set role {role};" if node == PUB else "")
                + f" update account set balance = 0, msrepl_tran_version = md5('{salt} ' || id)::uuid;"
                " reset role",
            )
        await self.fetch(
            self.topology.distribution,
            "delete from msrepl.decision; delete from msrepl.heuristic_outcome",
        )

    def address(self, name: str, **changes: Any) -> ParticipantAddress:
        """Return a node's address; `changes` are parameters of its connection strings."""
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
        """Open a coordinator that runs no recovery by itself, unless `options` differ.

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
        """Return an account's balance at a node."""
        rows = await self.fetch(node, "select balance from account where id = %s", (account,))
        return int(rows[0][0])

    async def balances(self, account: int = 1) -> tuple[int, int]:
        """Return an account's balance at the Publisher and at the Subscriber."""
        return await self.balance(PUB, account), await self.balance(SUB, account)

    async def prepared(self) -> list[str]:
        """Return the sorted gids of this project that are prepared at any node."""
        found: list[str] = []
        for node in (PUB, *self.topology.subscribers):
            rows = await self.fetch(
                node, "select gid from pg_prepared_xacts where database = current_database()"
            )
            found += [gid for (gid,) in rows if gid.startswith(f"{PREFIX}:")]
        return sorted(found)

    async def markers(self, node: str) -> dict[str, bool]:
        """Return the branch markers at a node; the value is True for a fence."""
        return dict(await self.fetch(node, "select gid, fence from msrepl.branch_marker"))

    async def decisions(self) -> list[tuple[int, int, str, list[str]]]:
        """Return the rows of the decision log."""
        query = "select epoch, sequence, kind, participants from msrepl.decision order by 1, 2"
        return await self.fetch(self.topology.distribution, query)  # type: ignore[return-value]

    async def fetch(self, node: str, query: str, params: Any = None) -> list[tuple[Any, ...]]:
        """Return rows at a node, over a new connection, because its server may have been restarted."""
        async with await psycopg.AsyncConnection.connect(
            self.topology.node(node).dsn, autocommit=True
        ) as connection:
            cursor = await connection.execute(query.encode(), params)
            return await cursor.fetchall() if cursor.description else []

    async def buried(self) -> None:
        """Wait until the server has noticed the end of killed coordinator processes."""
        dsn = self.topology.node(self.topology.distribution).dsn

        def are_gone() -> bool:
            with psycopg.connect(dsn, autocommit=True) as eyes:
                return not eyes.execute("select from msrepl.living_epoch").fetchall()

        await until(are_gone, "the dead processes' epochs to be dead")

    async def assert_atomic(self, accounts: Iterable[int] = (1,)) -> None:
        """Assert that accounts are equal at both sites and that no branch is prepared."""
        for account in accounts:
            there, here = await self.balances(account)
            assert there == here, f"account {account}: {there} at the Publisher, {here} here"
        assert await self.prepared() == []

    def effects(self, kind: Callable[[Any], bool] = bool) -> list[Any]:
        """Return observed effects and events of a kind, without their transactions."""
        return [what for _, what in self.seen if kind(what)]
