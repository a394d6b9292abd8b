"""The servers of the crash tests: a Publisher, a Subscriber and a decision log, one server each.

They are set up once and used for many cells; each cell has its own row and coordinator's name.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Self

import psycopg
from psycopg import sql

from tests.grid.program import Task
from twopc.drivers import ParticipantAddress
from twopc.names import PREFIX
from twopc.server import EmbeddedServer
from twopc.server.polling import wait_for
from twopc.sim.topology import Node, Topology

PUBLISHER = "pub"
SUBSCRIBER = "sub1"
LOG = "distribution"
SITES = (PUBLISHER, SUBSCRIBER)
NODES = (*SITES, LOG)

#: Time after a coordinator's start within which no branch of a dead process may stay prepared.
RECOVERY_S = 3.0

ROWS = 50_000
TALLIES = 1000
#: Key of the advisory lock that delays the PREPARE of changes of `gated` or `gated_here`. A row
#: below zero makes PREPARE fail there.
GATE = 4711
AT_PUBLISHER = (
    "create table kind (id int primary key)",
    "insert into kind values (1)",
    "create table account (id int primary key, balance int not null)",
    f"insert into account select g, 100 from generate_series(1, {ROWS}) as g",
    "create table entry (id int primary key,"
    " kind int not null references kind deferrable initially deferred, amount int not null)",
    "create table badge (id int primary key, code int unique deferrable initially deferred)",
    "create table tally (id int primary key, count int not null, list text not null)",
    f"insert into tally select g, 0, '' from generate_series(1, {TALLIES}) as g",
)
#: The statement of the oracle's clients: increments the count, and appends the client's number.
TALLY = "update tally set count = count + 1, list = list || '{{}};' where id = {}"
#: A row that the Subscriber does not have, since it is not delivered.
ONLY_THERE = "insert into badge values (0, 0)"
#: Tables in whose triggers PREPARE waits, at either site, while the advisory lock `GATE` is held.
GATED = (
    "create table gated (id int primary key)",
    "create or replace function pass_the_gate() returns trigger language plpgsql as"
    f" $$ begin perform pg_advisory_xact_lock_shared({GATE});"
    " if new.id < 0 then raise exception 'nothing below zero passes'; end if; return null; end $$",
    "create constraint trigger pass_the_gate after insert on gated deferrable initially deferred"
    " for each row execute function pass_the_gate()",
)
AT_SUBSCRIBER = (
    "create table only_here (number int unique deferrable initially deferred)",
    "create table parent_here (id int primary key)",
    "create table child_here (id int references parent_here deferrable initially deferred)",
    *(text.replace("gated", "gated_here") for text in GATED),
)
TABLES_HERE = "only_here, parent_here, child_here, gated_here"

_PREPARED = """
select gid, transaction::text, prepared::text, owner::text, database::text
from pg_prepared_xacts where database = current_database() order by gid
"""
_ROWS = """
select a.balance, a.msrepl_tran_version::text, e.kind, e.amount, e.msrepl_tran_version::text
from account as a left join entry as e on e.id = a.id where a.id = %s
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class SiteState:
    """The state of one cell at a site."""

    prepared: tuple[str, ...]
    """Gids of the cell's coordinator that are prepared."""
    markers: tuple[tuple[str, bool], ...]
    """Gids with a marker, and whether it is a fence."""
    row: tuple[Any, ...]
    """The cell's account and entry."""


@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of both sites and of the decision log at one moment."""

    sites: dict[str, SiteState]
    decisions: tuple[tuple[int, int, str], ...]
    """Epoch, sequence and kind of each decision."""


class Rig:
    """The three servers, with everything installed; a context manager that stops them."""

    def __init__(
        self, *, durable: bool = False, settings: dict[str, str] | None = None, planted: bool = True
    ) -> None:
        """`planted`: prepare transactions of others at both sites; see `others`."""
        self._options: dict[str, Any] = {"durable": durable, "settings": settings}
        self._planted = planted
        self.servers: dict[str, EmbeddedServer] = {}
        self._replaced: list[EmbeddedServer] = []
        self.topology: Topology
        self._names = itertools.count(1)
        self._rows = itertools.count(1)
        self._tallies = itertools.cycle(range(1, TALLIES + 1))

    def __enter__(self) -> Self:
        try:
            for node in NODES:
                self.servers[node] = EmbeddedServer.start(**self._options)
                self.servers[node].create_database(node)
            self.topology = asyncio.run(self._installed())
            if self._planted:
                self._plant()
        except BaseException:
            self._stop()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        for server in (*self.servers.values(), *self._replaced):
            server.stop()

    async def _installed(self) -> Topology:
        dsns = {node: server.dsn(node) for node, server in self.servers.items()}
        topology = Topology(subscribers=(SUBSCRIBER,), dsns=dsns, name="crash", keep=True)
        async with topology:
            for statement in (*AT_PUBLISHER, *GATED):
                await topology.execute(PUBLISHER, statement)
            for table in ("account", "entry", "badge", "tally", "gated"):
                await topology.publish(table)
            await topology.subscribe(SUBSCRIBER)
            await topology.execute(PUBLISHER, ONLY_THERE)
            for statement in AT_SUBSCRIBER:
                await topology.execute(SUBSCRIBER, statement)
            role = topology.node(SUBSCRIBER).app_role
            await topology.execute(SUBSCRIBER, f"grant insert, select on {TABLES_HERE} to {role}")
        return topology

    def node(self, name: str) -> Node:
        """Return the node of that name."""
        return self.topology.node(name)

    # -- work --------------------------------------------------------------------------------------

    def fresh_name(self) -> str:
        """Return a coordinator's name that was not used before."""
        return f"c{next(self._names)}"

    def fresh_row(self) -> int:
        """Return an account that was not used before."""
        row = next(self._rows)
        assert row <= ROWS
        return row

    def fresh_tally(self) -> int:
        """Return the tally that was used least recently."""
        return next(self._tallies)

    def task(self, name: str, **options: Any) -> Task:
        """Return the task of a process of coordinator `name`; see `Task` for the options."""
        return Task(
            coordinator=name,
            distribution=self.node(LOG).coordinator_dsn,
            publisher=self._address(PUBLISHER),
            subscriber=self._address(SUBSCRIBER),
            **options,
        )

    def _address(self, name: str) -> ParticipantAddress:
        node = self.node(name)
        return ParticipantAddress(name=name, dsn=node.coordinator_dsn, application_dsn=node.app_dsn)

    # -- queries -----------------------------------------------------------------------------------

    def fetch(self, node: str, query: str, params: Any = None) -> list[tuple[Any, ...]]:
        """Return rows, over a new connection, since servers are stopped and started."""
        with psycopg.connect(self.node(node).dsn, autocommit=True) as connection:
            cursor = connection.execute(query.encode(), params)
            return cursor.fetchall() if cursor.description else []

    def try_fetch(self, node: str, query: str, params: Any = None) -> list[tuple[Any, ...]] | None:
        """Return rows as `fetch` does, or None if the server does not answer."""
        try:
            return self.fetch(node, query, params)
        except psycopg.OperationalError:
            return None

    def look(self, name: str, row: int) -> State:
        """Return the state of a coordinator's cell."""
        prefix = f"{PREFIX}:{name}:"
        sites = {}
        for site in SITES:
            with psycopg.connect(self.node(site).dsn, autocommit=True) as connection:
                prepared = connection.execute(_PREPARED).fetchall()
                markers = connection.execute(
                    "select gid, fence from msrepl.branch_marker where starts_with(gid, %s) order by gid",
                    (prefix,),
                ).fetchall()
                rows = connection.execute(_ROWS, (row,)).fetchall()
            sites[site] = SiteState(
                prepared=tuple(gid for gid, *_ in prepared if gid.startswith(prefix)),
                markers=tuple(markers),
                row=rows[0],
            )
        decisions = self.fetch(
            LOG,
            "select epoch, sequence, kind from msrepl.decision where coordinator = %s order by 1, 2",
            (name,),
        )
        return State(sites=sites, decisions=tuple(decisions))

    def prepared(self, prefix: str = "") -> list[tuple[Any, ...]]:
        """Return the prepared transactions at both sites whose gid has this prefix."""
        return [
            row
            for site in SITES
            for row in self.fetch(site, _PREPARED)
            if row[0].startswith(prefix)
        ]

    def nothing_prepared(self, name: str, timeout_s: float = RECOVERY_S) -> None:
        """Wait until no transaction of a coordinator is prepared.

        Raises:

            TimeoutError: one still is.
        """
        prefix = f"{PREFIX}:{name}:"
        wait_for(
            lambda: not self.prepared(prefix),
            what=f"nothing of {prefix} to be prepared",
            timeout_s=timeout_s,
        )

    @contextmanager
    def closed_gate(self, node: str) -> Iterator[Callable[[], None]]:
        """Delay every PREPARE of changes of the gated tables; yields a function that opens the gate."""
        with psycopg.connect(self.node(node).dsn, autocommit=True) as keeper:
            keeper.execute("select pg_advisory_lock(%s)", (GATE,))

            def open_gate() -> None:
                keeper.execute("select pg_advisory_unlock(%s)", (GATE,))

            yield open_gate

    def at_gate(self, node: str) -> int:
        """Wait until a backend waits at the gate; return its pid."""
        query = (
            "select pid from pg_locks where locktype = 'advisory' and objid = %s and not granted"
        )
        rows = wait_for(
            lambda: self.fetch(node, query, (GATE,)), what="PREPARE to be at the gate", timeout_s=10
        )
        return int(rows[0][0])

    def gone(self, node: str, pid: int) -> None:
        """Wait until a backend has ended."""
        query = "select pid from pg_stat_activity where pid = %s"
        wait_for(
            lambda: not self.fetch(node, query, (pid,)), what=f"backend {pid} to end", timeout_s=10
        )

    # -- transactions of others --------------------------------------------------------------------

    def _plant(self) -> None:
        """Prepare transactions of others at both sites."""
        for site in SITES:
            for gid in (f"{PREFIX}:another:1:1:{site}", f"{PREFIX}:un:parsable", "pg_gid_1_7"):
                self.plant(site, gid)

    def plant(self, site: str, gid: str, *, role: str = "", database: str = "") -> None:
        """Prepare a transaction under a gid as another client would, in another role or database."""
        dsn = self.servers[site].superuser_dsn(database or self.node(site).database)
        with psycopg.connect(dsn, autocommit=True) as connection:
            connection.execute("create table if not exists planted (gid text)")
            connection.execute("grant insert on planted to public")
            if role:
                connection.execute(f"set role {role}".encode())
            connection.execute("begin")
            connection.execute("insert into planted values (%s)", (gid,))
            connection.execute(sql.SQL("prepare transaction {}").format(sql.Literal(gid)))

    def others(self) -> list[tuple[Any, ...]]:
        """Return the planted transactions, for a comparison before and after."""
        others = [f"{PREFIX}:another:", f"{PREFIX}:un:", "pg_gid_"]
        return [row for row in self.prepared() if row[0].startswith(tuple(others))]

    def sweep(self) -> None:
        """Start servers that are down, and roll back what cells that were given up have left prepared."""
        self.up()
        planted = self.others()
        for site in SITES:
            with psycopg.connect(self.node(site).dsn, autocommit=True) as connection:
                for row in connection.execute(_PREPARED).fetchall():
                    if row[0].startswith(f"{PREFIX}:") and row not in planted:
                        verb = sql.SQL("rollback prepared {}").format(sql.Literal(row[0]))
                        connection.execute(verb)

    # -- faults ------------------------------------------------------------------------------------

    def kill(self, nodes: Iterable[str]) -> None:
        """Kill servers, with all their processes, with SIGKILL."""
        for node in nodes:
            self.servers[node].kill()

    def replace(self, node: str, server: EmbeddedServer) -> None:
        """Replace a node's dead server by another one.

        The old data directory is kept as long as this rig, because connections lead there.
        """
        self._replaced.append(self.servers[node])
        self.servers[node] = server

    def up(self) -> None:
        """Start the servers that are down."""
        for server in self.servers.values():
            if not server.is_running():
                server.restart()
