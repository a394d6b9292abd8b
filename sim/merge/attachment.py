"""Attachment to an existing topology of merge replication, given the connection strings of its nodes.

The role of each node is read from its database.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import AsyncConnection, conninfo

from twopc.drivers.in_doubt import reason_of
from twopc.errors import ConfigurationError
from twopc.server.connection_strings import bounded_dsns
from twopc.sim.merge.topology import MergeTopology
from twopc.sql import path
from twopc.together import together

_MERGES = "select to_regclass('msrepl.sysmergesubscriptions') is not null"
_UNFINISHED = "select from msrepl.sysmergesubscriptions where is_publisher and status not in (1, 2)"
_NEIGHBOURS = "select subscriber_server, is_self, is_publisher from msrepl.sysmergesubscriptions where via is null order by 1"


@dataclass(frozen=True, slots=True, kw_only=True)
class _MergeNode:
    """The subscriptions that a node's database records."""

    publisher: str | None
    """Publisher of the node."""
    subscribers: tuple[str, ...]
    """Subscribers of the node."""


async def attach(nodes: Mapping[str, str], *, partly: bool = False) -> MergeTopology:
    """Return the topology whose nodes are at these connection strings (administrators'). Nothing in it is changed.

    Args:
        nodes: name to connection string. Names are those under which the nodes were set up.
        partly: include nodes that cannot be reached, as long as one can; `MergeWiring.unreachable` names them with
            the reason.

    Raises:
        ConfigurationError: a node cannot be reached, does not merge, or has another name; or the topmost Publisher
            cannot be determined.
    """
    if not nodes:
        raise ConfigurationError("name the nodes: --node pub=DSN --node anna=DSN ...")
    dsns = bounded_dsns(nodes)
    answers: dict[str, _MergeNode] = {}
    unreachable: dict[str, str] = {}

    async def ask(name: str, dsn: str) -> None:
        try:
            answers[name] = await _ask(name, dsn)
        except psycopg.errors.InsufficientPrivilege:
            role = conninfo.conninfo_to_dict(dsn).get("user")
            raise ConfigurationError(
                f"node {name!r}: role {role!r} may not look at what is installed there: give an administrator's "
                "connection string (`twopc up --nodes` prints those of its own)"
            ) from None
        except psycopg.OperationalError as error:
            unreachable[name] = reason_of(error)

    await together(*(ask(name, dsn) for name, dsn in dsns.items()))
    if unreachable and (not partly or not answers):
        reasons = "".join(f"\n  node {name!r}: {why}" for name, why in unreachable.items())
        raise ConfigurationError("these nodes cannot be reached:" + reasons)
    publisher = _publisher(answers, unreachable)
    topology = MergeTopology(
        tree=_tree([*nodes], answers, publisher),
        dsns=dsns,
        attach=True,
    )
    topology.wiring.unreachable = unreachable
    return topology


async def attach_publisher(nodes: Mapping[str, str]) -> MergeTopology:
    """Return the topology for publishing: an existing one, or the single named node, which need not merge yet.

    Raises:
        ConfigurationError: see `attach`.
    """
    [*named] = nodes
    if len(named) != 1 or await _does_merge(nodes, named[0]):
        return await attach(nodes)
    dsns = bounded_dsns(nodes)
    return MergeTopology(tree={named[0]: ()}, dsns=dsns, attach=True)


async def attach_subscriber(
    nodes: Mapping[str, str], subscriber: str, publisher: str | None
) -> MergeTopology:
    """Return the topology of the other nodes, with a Subscriber that does not merge yet, or not completely.

    Args:
        publisher: the Subscriber's Publisher; None: the topmost one.

    Raises:
        ConfigurationError: the Subscriber merges already, or is not named; see `attach` for the other nodes.
    """
    if subscriber not in nodes:
        raise ConfigurationError(f"name {subscriber} as well, by --node {subscriber}=DSN")
    others = {name: dsn for name, dsn in nodes.items() if name != subscriber}
    if not others:
        raise ConfigurationError("name the Publisher as well, by --node NAME=DSN")
    if await _does_merge(nodes, subscriber, whole=True):
        raise ConfigurationError(
            f"node {subscriber!r} merges already: `twopc merge unsubscribe {subscriber}` first, or `twopc merge reinit`"
        )
    there = (await attach(others)).tree
    above = there.root if publisher is None else publisher
    if above not in (there.root, *there.subscribers):
        there.publisher_of(above)  # raises: there is no such node
    tree = {name: [*there.subscribers_of(name)] for name in there.publishers}
    tree.setdefault(above, []).append(subscriber)
    dsns = bounded_dsns(nodes)
    return MergeTopology(tree=tree, dsns=dsns, attach=True)


async def attach_for_unsubscribe(nodes: Mapping[str, str], subscriber: str) -> MergeTopology:
    """Return the topology in which a subscription ends, which only the Publisher may know.

    Raises:
        ConfigurationError: see `attach`.
    """
    if subscriber in nodes and not await _does_merge(nodes, subscriber):
        for name, dsn in bounded_dsns(nodes).items():
            if name != subscriber and subscriber in (await _ask(name, dsn)).subscribers:
                return await attach_subscriber(nodes, subscriber, name)
    return await attach(nodes)


async def _does_merge(nodes: Mapping[str, str], name: str, *, whole: bool = False) -> bool:
    """Whether a node's database merges.

    Args:
        whole: a database whose initialisation was interrupted does not count.

    Raises:
        ConfigurationError: the database cannot be reached.
    """
    dsn = bounded_dsns(nodes)[name]
    try:
        async with await _connect(dsn) as connection:
            if await (await connection.execute(_MERGES)).fetchone() != (True,):
                return False
            return not (whole and (await connection.execute(_UNFINISHED)).rowcount)
    except psycopg.OperationalError as error:
        raise ConfigurationError(f"node {name!r} cannot be reached: {reason_of(error)}") from None


async def _connect(dsn: str) -> AsyncConnection[Any]:
    return await AsyncConnection.connect(dsn, autocommit=True, options=path.options(dsn))


def _publisher(answers: Mapping[str, _MergeNode], unreachable: Mapping[str, str]) -> str:
    """Return the one node that subscribes at no other.

    Raises:
        ConfigurationError: there is no such node, or there are several.
    """
    tops = [name for name, node in answers.items() if node.publisher is None]
    named = {node.publisher for node in answers.values() if node.publisher is not None}
    if len(tops) == 1:
        return tops[0]
    if len(tops) > 1:
        raise ConfigurationError(
            f"{' and '.join(tops)} subscribe nowhere, so each is a Publisher: name one of them"
        )
    missing = sorted(named - {*answers})
    if len(missing) == 1 and missing[0] in unreachable:
        return missing[0]
    raise ConfigurationError(
        f"the Publisher is missing: name {' and '.join(missing)} as well, by --node NAME=DSN"
    )


def _tree(
    nodes: Sequence[str], answers: Mapping[str, _MergeNode], top: str
) -> dict[str, list[str]]:
    """Return the Subscribers of each node. A node that does not answer and that no other records subscribes at
    `top`.

    Raises:
        ConfigurationError: a republisher is missing.
    """
    children: dict[str, list[str]] = {top: []}
    for name in nodes:
        if name == top:
            continue
        above = [each for each, node in answers.items() if name in node.subscribers]
        publisher = (answers[name].publisher if name in answers else None) or (*above, top)[0]
        if publisher not in nodes:
            raise ConfigurationError(
                f"{name} subscribes at {publisher}, which is missing: name it as well, by --node NAME=DSN"
            )
        children.setdefault(publisher, []).append(name)
    return children


async def _ask(name: str, dsn: str) -> _MergeNode:
    async with await _connect(dsn) as connection:
        if await (await connection.execute(_MERGES)).fetchone() != (True,):
            raise ConfigurationError(
                f"node {name!r}: database {connection.info.dbname!r} does not merge: leave it out, or subscribe it (`twopc merge "
                "publish` makes a Publisher, and `twopc merge subscribe` a Subscriber)"
            )
        rows = await (await connection.execute(_NEIGHBOURS)).fetchall()
    own = [each for each, is_self, _ in rows if is_self]
    if own != [name]:
        raise ConfigurationError(
            f"node {name!r}: this node was set up as {own[0]!r}; use that name"
        )
    above = [each for each, is_self, is_publisher in rows if is_publisher and not is_self]
    below = [each for each, is_self, is_publisher in rows if not is_publisher and not is_self]
    return _MergeNode(publisher=above[0] if above else None, subscribers=tuple(below))
