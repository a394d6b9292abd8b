"""Operation of an existing topology, given the connection strings of its nodes.

The kind of each node, and the coordinator's name, are read from the databases. Works in parallel with running
coordinators, and without one: this module takes no epoch.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Mapping, MutableMapping, Sequence
from contextlib import asynccontextmanager, suppress

import psycopg

from twopc.drivers import heuristics, in_doubt
from twopc.drivers.database import Database
from twopc.drivers.heuristics import Heuristic
from twopc.drivers.in_doubt import InDoubtBranch
from twopc.drivers.participant import ServerParticipant
from twopc.drivers.points import Points
from twopc.drivers.recorded_decisions import DecisionReader
from twopc.drivers.recovery import Recovery, SettledBranch
from twopc.errors import ConfigurationError, ServerError
from twopc.names import PREFIX, BranchId
from twopc.protocol.effects import Outcome
from twopc.server.connection_strings import bounded_dsns, plain_dsns
from twopc.sim.survey import connect, kinds_at, survey
from twopc.sim.topology import Topology


async def attach(
    nodes: Mapping[str, str],
    *,
    coordinator: str | None = None,
    newcomers: Collection[str] = (),
    partly: bool = False,
) -> Topology:
    """Return the topology whose nodes are at these connection strings (administrators').

    Args:
        nodes: name to connection string. Names of Publisher and Subscribers must be those under which they were set
            up; they are part of gids.
        coordinator: its name; None: the only one that the distribution database contains.
        newcomers: nodes that are, or are to become, Subscribers and may not have been set up yet.
        partly: include nodes that cannot be reached, as long as one can; `TopologyWiring.unreachable` names them
            with the reason. Their kinds are derived from the other nodes.

    Raises:
        ConfigurationError: a node cannot be reached or is not set up, or there are several coordinators to choose
            from.
        ServerError: a connection string is invalid.
    """
    if not nodes:
        raise ConfigurationError("name the nodes: --node pub=DSN --node store_a=DSN ...")
    nodes = bounded_dsns(nodes)
    result = await survey(nodes, newcomers, partly=partly)
    publishers, logs = result.of("publisher"), result.of("distribution")
    if len(publishers) != 1:
        raise ConfigurationError(
            f"{len(publishers)} of the nodes given are Publishers; it must be one: `twopc install` makes one"
        )
    dsns = dict(result.dsns)
    if logs == publishers:  # both in one database
        dsns["distribution"] = nodes[publishers[0]]
        logs = ["distribution"]
    topology = Topology(
        publisher=publishers[0],
        subscribers=result.of("subscriber"),
        dsns=dsns,
        distribution=logs[0] if logs else None,
        name=coordinator or _only(result.coordinators),
        attach=True,
    )
    topology.wiring.unreachable = result.unreachable
    return topology


async def install(name: str, nodes: Mapping[str, str]) -> str:
    """Set up a database as a Publisher, with a distribution database.

    Args:
        name: the topology's.
        nodes: the Publisher and, under ``distribution``, the distribution database; without it the Publisher's
            database is both.

    Returns:
        The Publisher's name.

    Raises:
        ConfigurationError: the nodes do not name exactly one Publisher, it is set up already, or a server is not
            fit.
    """
    publishers = [each for each in nodes if each != "distribution"]
    if len(publishers) != 1:
        raise ConfigurationError(
            f"{len(publishers)} of the nodes given are to be Publishers; name one, and 'distribution' if it is "
            "another database"
        )
    nodes = plain_dsns(nodes)
    for each, dsn in nodes.items():
        try:
            connection = await connect(dsn)
        except psycopg.OperationalError as error:
            raise ConfigurationError(f"node {each!r}: {error}") from None
        async with connection:
            known = await kinds_at(connection)
            if {"publisher", "subscriber"} & {*known}:
                raise ConfigurationError(
                    f"node {each!r}: database {connection.info.dbname!r} is a {known[0].capitalize()} already: "
                    "`twopc uninstall` first"
                )
    made = Topology(publisher=publishers[0], subscribers=(), dsns=nodes, name=name, keep=True)
    async with made:
        return publishers[0]


def _only(names: Sequence[str]) -> str | None:
    if len(names) > 1:
        raise ConfigurationError(
            f"the decision log knows several coordinators: say --coordinator {' or '.join(names)}"
        )
    return names[0] if names else None


@asynccontextmanager
async def _sites(
    topology: Topology,
) -> AsyncIterator[tuple[Database, dict[str, ServerParticipant]]]:
    """Yield the distribution database and the participants in the form that recovery needs."""
    unreachable = topology.wiring.unreachable
    database = Database(
        topology.distribution,
        topology.node(topology.distribution).dsn,
        "twopc operator",
        unreachable=unreachable.get(topology.distribution, ""),
    )
    participants = {
        name: ServerParticipant(
            topology.address(name), topology.name, unreachable=unreachable.get(name, "")
        )
        for name in (topology.publisher, *topology.subscribers)
    }
    try:
        yield database, participants
    finally:
        await database.close()
        for participant in participants.values():
            await participant.close()


async def recover(topology: Topology) -> list[SettledBranch]:
    """Run one pass of recovery; see `twopc.drivers.recovery`. Nodes that cannot be reached are left for a later
    pass.

    Raises:
        ServerError: the distribution database cannot be reached; nothing was settled.
    """
    async with _sites(topology) as (database, participants):
        try:
            await database.fetch("select 1")
        except psycopg.OperationalError as error:
            raise ServerError(
                f"{topology.distribution}: the decision log cannot be reached, and without it nothing can be "
                f"settled; nothing was changed: {in_doubt.reason_of(error)}"
            ) from None
        recovery = Recovery(
            topology.name,
            publisher=topology.publisher,
            participants=participants,
            decisions=DecisionReader(database),
            points=Points(),
        )
        return await recovery.run()


async def look(
    topology: Topology, unreachable: MutableMapping[str, str] | None = None
) -> list[InDoubtBranch]:
    """Return every prepared transaction at any node, oldest first; see `twopc.drivers.in_doubt`."""
    async with _sites(topology) as (database, participants):
        return await in_doubt.in_doubt(
            database,
            [*participants.values()],
            topology.name,
            any_client=topology.wiring.coordinators - {topology.name},
            unreachable=unreachable,
        )


async def damage(topology: Topology) -> list[Heuristic]:
    """Return the records of branches that ended against their decision, oldest first; empty if the distribution
    database cannot be reached.
    """
    results: list[Heuristic] = []
    async with _sites(topology) as (database, _):
        with suppress(psycopg.OperationalError):
            for coordinator in sorted(topology.wiring.coordinators):
                results += await heuristics.read(database, f"{PREFIX}:{coordinator}:")
    return sorted((one for one in results if one.damage), key=lambda one: one.recorded_at)


async def force(topology: Topology, gid: str, outcome: Outcome, reason: str) -> Outcome:
    """Finish one branch with an operator's outcome, after recording it as heuristic.

    Raises:
        ConfigurationError: the gid is not of a branch of this coordinator, or is not prepared.
    """
    branch = BranchId.parse(gid)
    coordinator = topology.name
    if branch is not None and branch.global_id.coordinator in topology.wiring.coordinators:
        # those of any client belong to the topology, too
        coordinator = branch.global_id.coordinator
    async with _sites(topology) as (database, participants):
        return await in_doubt.force(database, participants, coordinator, gid, outcome, reason)
