"""Operate a topology that is there already, from the connection strings of its nodes.

What each node is, and what its coordinator is called, is read from the databases. Works beside the
coordinators that are running, and without one: no epoch is taken here.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Iterable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import psycopg
from psycopg import AsyncConnection

from twopc.drivers import in_doubt
from twopc.drivers.database import Database
from twopc.drivers.decided import Decided
from twopc.drivers.in_doubt import InDoubtBranch
from twopc.drivers.participant import Participant
from twopc.drivers.points import Points
from twopc.drivers.recovery import Recovery, Settled
from twopc.errors import ConfigurationError
from twopc.names import BranchId
from twopc.protocol import VARIANTS
from twopc.protocol.effects import Outcome
from twopc.sim.topology import Topology
from twopc.sql import path

#: A busy machine takes its time; one that is not there refuses at once.
CONNECT_TIMEOUT_S = 30

_KIND = """
select array_remove(array[
    case when to_regclass('msrepl.sysarticles') is not null then 'publisher' end,
    case when to_regclass('msrepl.mssubscription_agents') is not null then 'subscriber' end,
    case when to_regclass('msrepl.coordinator_epoch') is not null then 'distribution' end
], null)
"""
_COORDINATORS = "select distinct coordinator, variant from msrepl.coordinator_epoch order by 1"
_TOPOLOGIES = "select name from msrepl.coordinator order by 1"
_SUBSCRIBER = "select publisher, subscriber from msrepl.mssubscription_agents"


async def attach(
    nodes: Mapping[str, str], *, coordinator: str | None = None, newcomers: Collection[str] = ()
) -> Topology:
    """The topology whose nodes are at these connection strings (administrators').

    Args:
        nodes: name to connection string. Names of Publisher and Subscribers must be those under which
            they were set up; they are part of gids.
        coordinator: its name; None: the only one that the distribution database knows.
        newcomers: nodes that are, or are to become, Subscribers and may hold nothing of ours yet.

    Raises:
        ConfigurationError: a node cannot be reached or is none, or it is not clear which coordinator.
    """
    if not nodes:
        raise ConfigurationError("name the nodes: --node pub=DSN --node store_a=DSN ...")
    kinds: dict[str, list[str]] = {}
    names: list[str] = []
    for name, dsn in nodes.items():
        async with await _connect(name, dsn) as connection:
            kinds[name] = await _kind(connection, name, is_new=name in newcomers)
            if "distribution" in kinds[name]:
                names = await _names(connection, nodes)

    def of(kind: str) -> list[str]:
        return [name for name, found in kinds.items() if kind in found]

    publishers, logs = of("publisher"), of("distribution")
    if len(publishers) != 1:
        raise ConfigurationError(
            f"{len(publishers)} of the nodes given are Publishers; it must be one: `twopc install` makes one"
        )
    dsns = dict(nodes)
    if logs == publishers:  # both in one database
        dsns["distribution"] = nodes[publishers[0]]
        logs = ["distribution"]
    return Topology(
        publisher=publishers[0],
        subscribers=of("subscriber"),
        dsns=dsns,
        distribution=logs[0] if logs else None,
        name=coordinator or _only(names),
        attach=True,
    )


async def install(name: str, nodes: Mapping[str, str]) -> str:
    """Make a database a Publisher, and give it a distribution database.

    Args:
        name: the topology's.
        nodes: the Publisher and, under ``distribution``, the distribution database; without it the Publisher's
            database is both.

    Returns:
        The Publisher's name.

    Raises:
        ConfigurationError: there is not one Publisher, it is one already, or a server is not fit.
    """
    publishers = [each for each in nodes if each != "distribution"]
    if len(publishers) != 1:
        raise ConfigurationError(
            f"{len(publishers)} of the nodes given are to be Publishers; name one, and 'distribution' if it is "
            "another database"
        )
    for each, dsn in nodes.items():
        async with await _connect(each, dsn) as connection:
            row = await (await connection.execute(_KIND)).fetchone()
            if row is not None and {"publisher", "subscriber"} & {*row[0]}:
                raise ConfigurationError(
                    f"node {each!r}: database {connection.info.dbname!r} is a {row[0][0].capitalize()} already: "
                    "`twopc uninstall` first"
                )
    made = Topology(publisher=publishers[0], subscribers=(), dsns=nodes, name=name, keep=True)
    async with made:
        return publishers[0]


async def _connect(name: str, dsn: str) -> AsyncConnection[Any]:
    try:
        return await AsyncConnection.connect(
            dsn,
            autocommit=True,
            connect_timeout=CONNECT_TIMEOUT_S,
            options=path.options(dsn),
        )
    except psycopg.Error as error:
        raise ConfigurationError(f"node {name!r}: {error}") from None


async def _kind(connection: AsyncConnection[Any], name: str, *, is_new: bool) -> list[str]:
    row = await (await connection.execute(_KIND)).fetchone()
    if row is None or not row[0]:
        if is_new:
            return ["subscriber"]
        raise ConfigurationError(
            f"node {name!r}: database {connection.info.dbname!r} holds nothing of ours: neither a "
            "publication, nor a subscription, nor a decision log: leave it out, or `twopc subscribe` it"
        )
    if "subscriber" in row[0]:
        known = await (await connection.execute(_SUBSCRIBER)).fetchone()
        if known is not None and known[1] != name:
            raise ConfigurationError(
                f"node {name!r}: this Subscriber was set up as {known[1]!r}; use that name"
            )
    return [str(kind) for kind in row[0]]


async def _names(connection: AsyncConnection[Any], nodes: Iterable[str]) -> list[str]:
    """The coordinators that a distribution database knows, by their topologies' names."""
    topologies: set[str] = set()
    cursor = await connection.execute("select to_regclass('msrepl.coordinator') is not null")
    if await cursor.fetchone() == (True,):
        cursor = await connection.execute(_TOPOLOGIES)
        topologies = {name for (name,) in await cursor.fetchall()}
    cursor = await connection.execute(_COORDINATORS)
    known = await cursor.fetchall()
    return sorted(
        topologies | {_named(owner, variant, topologies, nodes) for owner, variant in known}
    )


def _named(coordinator: str, variant: str, topologies: Iterable[str], nodes: Iterable[str]) -> str:
    """The coordinator; for one in whose name any client of a Subscriber writes, that of its topology.

    The Subscriber need not be one of the nodes given, and may have left.
    """
    if VARIANTS[variant].last_agent:
        for topology in topologies:
            if coordinator.startswith(f"{topology}."):
                return topology
        for node in nodes:
            coordinator = coordinator.removesuffix(f".{node}")
    return coordinator


def _only(names: list[str]) -> str | None:
    if len(names) > 1:
        raise ConfigurationError(
            f"the decision log knows several coordinators: say --coordinator {' or '.join(names)}"
        )
    return names[0] if names else None


@asynccontextmanager
async def _sites(topology: Topology) -> AsyncIterator[tuple[Database, dict[str, Participant]]]:
    """The distribution database and the participants, as recovery uses them."""
    database = Database(
        topology.distribution, topology.node(topology.distribution).dsn, "twopc operator"
    )
    participants = {
        name: Participant(topology.address(name), topology.name)
        for name in (topology.publisher, *topology.subscribers)
    }
    try:
        yield database, participants
    finally:
        await database.close()
        for participant in participants.values():
            await participant.close()


async def recover(topology: Topology) -> list[Settled]:
    """One pass of recovery; see `twopc.drivers.recovery`."""
    async with _sites(topology) as (database, participants):
        recovery = Recovery(
            topology.name,
            publisher=topology.publisher,
            participants=participants,
            decisions=Decided(database),
            points=Points(),
        )
        return await recovery.run()


async def look(topology: Topology) -> list[InDoubtBranch]:
    """Every prepared transaction at any node, oldest first; see `twopc.drivers.in_doubt`."""
    async with _sites(topology) as (database, participants):
        return await in_doubt.in_doubt(
            database,
            [*participants.values()],
            topology.name,
            any_client=topology.wiring.coordinators - {topology.name},
        )


async def force(topology: Topology, gid: str, outcome: Outcome, reason: str) -> Outcome:
    """Finish one branch at an operator's word, recorded first as heuristic.

    Raises:
        ConfigurationError: it is no branch of this coordinator, or not prepared.
    """
    branch = BranchId.parse(gid)
    coordinator = topology.name
    if branch is not None and branch.global_id.coordinator in topology.wiring.coordinators:
        coordinator = branch.global_id.coordinator  # any client's are ours too
    async with _sites(topology) as (database, participants):
        return await in_doubt.force(database, participants, coordinator, gid, outcome, reason)
