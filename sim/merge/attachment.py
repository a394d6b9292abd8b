"""Find a topology that merges already, from the connection strings of its nodes.

What each node is, is read from the databases.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

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
    """What a node says of itself."""

    publisher: str | None
    """The one that it subscribes at."""
    subscribers: tuple[str, ...]
    """Those that subscribe at it."""


async def attach(nodes: Mapping[str, str], *, partly: bool = False) -> MergeTopology:
    """The topology whose nodes are at these connection strings (administrators'). Nothing of it is changed.

    Args:
        nodes: name to connection string. Names are those under which the nodes were set up.
        partly: nodes that cannot be reached are part of it as well, as long as one can;
            `MergeWiring.unreachable` says which, and why.

    Raises:
        ConfigurationError: a node cannot be reached, does not merge, or has another name; or it is not known
            which of them is the Publisher.
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
    """The topology that is to publish: one that merges already, or the one node that is named, which need not merge yet.

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
    """The topology of the other nodes, with one that does not merge yet, or not wholly, as a Subscriber.

    Args:
        publisher: where it is to subscribe; None: at the topmost Publisher.

    Raises:
        ConfigurationError: it merges already, or is not named; see `attach` for the others.
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
        there.publisher_of(above)  # which says that there is no such node
    tree = {name: [*there.subscribers_of(name)] for name in there.publishers}
    tree.setdefault(above, []).append(subscriber)
    dsns = bounded_dsns(nodes)
    return MergeTopology(tree=tree, dsns=dsns, attach=True)


async def _does_merge(nodes: Mapping[str, str], name: str, *, whole: bool = False) -> bool:
    """Whether a node's database merges.

    Args:
        whole: one does not whose initialisation was cut off.

    Raises:
        ConfigurationError: it cannot be reached.
    """
    dsn = bounded_dsns(nodes)[name]
    try:
        async with await AsyncConnection.connect(
            dsn, autocommit=True, options=path.options(dsn)
        ) as connection:
            if await (await connection.execute(_MERGES)).fetchone() != (True,):
                return False
            return not (whole and (await connection.execute(_UNFINISHED)).rowcount)
    except psycopg.OperationalError as error:
        raise ConfigurationError(f"node {name!r} cannot be reached: {reason_of(error)}") from None


def _publisher(answers: Mapping[str, _MergeNode], unreachable: Mapping[str, str]) -> str:
    """The one node that subscribes nowhere.

    Raises:
        ConfigurationError: there is none, or there are several.
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
    """Who subscribes at whom; a node that does not answer, and that no other names, at the topmost Publisher.

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
    async with await AsyncConnection.connect(
        dsn, autocommit=True, options=path.options(dsn)
    ) as connection:
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
