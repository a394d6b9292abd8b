"""The kinds of databases: which is the Publisher, which are Subscribers, which holds the distribution tables.

They are read from the databases themselves; those of databases that cannot be reached are derived from the others.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection, conninfo

from twopc.drivers.in_doubt import reason_of
from twopc.errors import ConfigurationError
from twopc.protocol import VARIANTS
from twopc.server.connection_strings import bounded
from twopc.sql import path
from twopc.together import together

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
_PUBLISHERS = "select publisher from msrepl.mspublisher_databases"
_SUBSCRIBERS = "select subscriber from msrepl.msdistribution_agents"


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """What a node's database records of itself and of other nodes."""

    kinds: Sequence[str]
    coordinators: Sequence[str] = ()
    """Coordinators that a distribution database contains."""
    publishers: Collection[str] = ()
    """Nodes that are Publishers according to this database."""
    subscribers: Collection[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Survey:
    """The kinds of the given nodes."""

    dsns: Mapping[str, str]
    kinds: Mapping[str, Sequence[str]]
    """Kinds of each node: ``publisher``, ``subscriber``, ``distribution``, or several of them."""
    coordinators: Sequence[str]
    """Coordinators that the distribution database contains."""
    unreachable: Mapping[str, str]
    """Nodes that could not be queried, with the reason."""

    def of(self, kind: str) -> list[str]:
        """Return the nodes of a kind."""
        return [name for name in self.dsns if kind in self.kinds[name]]


async def survey(
    nodes: Mapping[str, str], newcomers: Collection[str] = (), *, partly: bool = False
) -> Survey:
    """Query the kinds of all nodes; see `twopc.sim.operate.attach`.

    Raises:
        ConfigurationError: a node is not set up, or cannot be reached; if `partly`, no node can be reached.
    """
    answers: dict[str, Answer] = {}
    unreachable: dict[str, str] = {}

    async def ask(name: str, dsn: str) -> None:
        try:
            answers[name] = await _ask(name, dsn, nodes, is_new=name in newcomers)
        except psycopg.errors.InsufficientPrivilege:
            role = conninfo.conninfo_to_dict(dsn).get("user")
            raise ConfigurationError(
                f"node {name!r}: role {role!r} may not look at what is installed there: give an administrator's "
                "connection string (`twopc up --nodes` prints those of its own)"
            ) from None
        except psycopg.OperationalError as error:
            if not partly:
                raise ConfigurationError(f"node {name!r}: {error}") from None
            unreachable[name] = reason_of(error)

    await together(*(ask(name, dsn) for name, dsn in nodes.items()))
    if not answers:
        reasons = (f"\n  node {name!r}: {reason}" for name, reason in unreachable.items())
        raise ConfigurationError("no node can be reached:" + "".join(reasons))
    kinds = {name: answer.kinds for name, answer in answers.items()}
    return Survey(
        dsns=nodes,
        kinds={**kinds, **presumed(unreachable, answers.values(), newcomers)},
        coordinators=[name for each in answers.values() for name in each.coordinators],
        unreachable=unreachable,
    )


def presumed(
    unreachable: Iterable[str], answers: Collection[Answer], newcomers: Collection[str] = ()
) -> dict[str, list[str]]:
    """Return the presumed kinds of nodes that cannot be queried.

    Raises:
        ConfigurationError: several of them may be the Publisher.
    """
    publishers = {name for each in answers for name in each.publishers}
    subscribers = {name for each in answers for name in each.subscribers} | {*newcomers}
    known = {kind for each in answers for kind in each.kinds}
    results: dict[str, list[str]] = {}
    unknown: list[str] = []
    for name in unreachable:
        if name in publishers:
            results[name] = ["publisher"]
        elif name in subscribers:
            results[name] = ["subscriber"]
        elif name == "distribution" and "distribution" not in known:
            results[name] = ["distribution"]
        else:
            unknown.append(name)
    if unknown and not publishers and "publisher" not in known:
        if len(unknown) > 1:
            # after a wrong guess, recovery would query the wrong node for the outcome of transactions
            raise ConfigurationError(
                f"none of the nodes that can be reached tells which of {', '.join(unknown)} is the Publisher: "
                "start one of them"
            )
        return {**results, unknown[0]: ["publisher"]}
    return {**results, **{name: ["subscriber"] for name in unknown}}


async def connect(dsn: str) -> AsyncConnection[Any]:
    """Open an administrator's connection in autocommit mode. Raises psycopg.OperationalError."""
    return await AsyncConnection.connect(bounded(dsn), autocommit=True, options=path.options(dsn))


async def _ask(name: str, dsn: str, nodes: Iterable[str], *, is_new: bool) -> Answer:
    """Query the kinds of a node.

    Raises:
        ConfigurationError: the node is not set up, or under another name.
        psycopg.OperationalError: the node cannot be reached.
    """
    async with await connect(dsn) as connection:
        result = await kinds_at(connection)
        await _check(connection, name, result, is_new=is_new)
        publishers: list[str] = []
        subscribers: list[str] = []
        coordinators: list[str] = []
        if "subscriber" in result:
            cursor = await connection.execute(_SUBSCRIBER)
            publishers += [publisher for publisher, _ in await cursor.fetchall()]
        if "distribution" in result:
            coordinators = await _names(connection, nodes)
            cursor = await connection.execute(
                "select to_regclass('msrepl.mspublisher_databases') is not null"
            )
            if await cursor.fetchone() == (True,):
                for query, names in ((_PUBLISHERS, publishers), (_SUBSCRIBERS, subscribers)):
                    names += [
                        each for (each,) in await (await connection.execute(query)).fetchall()
                    ]
        return Answer(
            kinds=result or ["subscriber"],
            coordinators=coordinators,
            publishers=publishers,
            subscribers=subscribers,
        )


async def kinds(dsn: str) -> list[str]:
    """Return the kinds of a database: ``publisher``, ``subscriber``, ``distribution``, several of them, or none.

    Raises:
        psycopg.OperationalError: the database cannot be reached.
    """
    async with await connect(dsn) as connection:
        return await kinds_at(connection)


async def kinds_at(connection: AsyncConnection[Any]) -> list[str]:
    """Return the kinds of a connection's database; see `kinds`."""
    row = await (await connection.execute(_KIND)).fetchone()
    return [str(kind) for kind in row[0]] if row is not None else []


async def _check(
    connection: AsyncConnection[Any], name: str, result: Sequence[str], *, is_new: bool
) -> None:
    if not result and not is_new:
        raise ConfigurationError(
            f"node {name!r}: database {connection.info.dbname!r} holds nothing of ours: neither a "
            "publication, nor a subscription, nor a decision log: leave it out, or `twopc subscribe` it"
        )
    if "subscriber" in result:
        known = await (await connection.execute(_SUBSCRIBER)).fetchone()
        if known is not None and known[1] != name:
            raise ConfigurationError(
                f"node {name!r}: this Subscriber was set up as {known[1]!r}; use that name"
            )


async def _names(connection: AsyncConnection[Any], nodes: Iterable[str]) -> list[str]:
    """Return the coordinators that a distribution database contains, by their topologies' names."""
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
    """Return the coordinator's topology: for a name under which any client of a Subscriber writes, without the
    Subscriber.

    The Subscriber need not be one of the given nodes, and may have unsubscribed.
    """
    if VARIANTS[variant].last_agent:
        for topology in topologies:
            if coordinator.startswith(f"{topology}."):
                return topology
        for node in nodes:
            coordinator = coordinator.removesuffix(f".{node}")
    return coordinator
