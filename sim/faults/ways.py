"""The ways between a topology's nodes, led through wires where a fault needs one.

A coordinator communicates with each node; a Subscriber's sessions communicate with the Publisher over their links.
There is no communication between two Subscribers.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from psycopg import sql

from twopc.drivers import ParticipantAddress
from twopc.names import BranchId, GlobalId
from twopc.sim.faults.plans import COORDINATOR, FaultAction, FaultPlace, FaultPlan
from twopc.sim.faults.wires import ServerWire
from twopc.sim.topology import Topology
from twopc.subscriber.objects import SERVER

#: The end that connects, and the node that it connects to.
Way = tuple[str, str]

#: First words of faults that concern connections.
_OF_WAYS = frozenset({"cut", "black", "one"})
_OF_ANSWERS = frozenset({"lose", "repeat"})
#: Text that identifies the request sent after a point, or the request whose answer arrives at it.
REQUESTS = {
    "coordinator.before_prepare": b"prepare transaction",
    "coordinator.before_decision": b"log_decisions",
    "coordinator.before_commit": b"commit prepared",
    "reply.prepare": b"prepare transaction",
    "reply.commit": b"commit prepared",
}
_GID = re.compile(r"twopc:[A-Za-z0-9_.:/-]+")


class Ways:
    """The wires of one topology."""

    def __init__(self, topology: Topology, plans: Sequence[FaultPlan]) -> None:
        self._topology = topology
        self._required = {way for plan in plans for way in self.of(plan)}
        self._wires: dict[Way, ServerWire] = {}

    def has(self, plan: FaultPlan) -> bool:
        """Whether the wires that a fault needs are open."""
        return {*self.of(plan)} <= self._wires.keys()

    async def add(self, plan: FaultPlan) -> None:
        """Open the wires that one more fault needs."""
        self._required |= {*self.of(plan)}
        await self.open()

    async def open(self) -> None:
        """Open the missing wires; existing connections are not led through them."""
        for way in sorted(self._required - self._wires.keys()):
            who, node = way
            wire = self._wires[way] = ServerWire(self._topology.node(node).dsn)
            await wire.open()
            if who != COORDINATOR:
                await self._lead_link(who, wire)

    async def close(self) -> None:
        """Close every wire."""
        for wire in self._wires.values():
            await wire.close()

    async def _lead_link(self, subscriber: str, wire: ServerWire) -> None:
        rows = await self._topology.execute(
            subscriber,
            "select srvname, srvoptions from pg_foreign_server where srvname = %s",
            (SERVER,),
        )
        ((name, options),) = rows
        present = {entry.partition("=")[0] for entry in options}
        requested = {
            "host": wire.host,
            "port": str(wire.port),
            "sslmode": "disable",
            "gssencmode": "disable",
        }
        if "hostaddr" in present:
            requested["hostaddr"] = wire.host
        changes = sql.SQL(", ").join(
            sql.SQL("{} {} {}").format(
                sql.SQL("set" if option in present else "add"), sql.SQL(option), sql.Literal(value)
            )
            for option, value in requested.items()
        )
        alter = sql.SQL("alter server {} options ({})").format(sql.Identifier(name), changes)
        await self._topology.execute(subscriber, alter.as_string(None))

    def address(self, name: str) -> ParticipantAddress:
        """Return the connection strings with which the coordinator reaches a node."""
        plain = self._topology.address(name)
        return ParticipantAddress(
            name=name,
            dsn=self._led(name, plain.dsn),
            application_dsn=self._led(name, plain.application_dsn),
        )

    def distribution(self) -> str:
        """Return the connection string with which the coordinator reaches the decision log."""
        name = self._topology.distribution
        return self._led(name, self._topology.node(name).coordinator_dsn)

    def _led(self, node: str, dsn: str) -> str:
        wire = self._wires.get((COORDINATOR, node))
        return dsn if wire is None else wire.through(dsn)

    def of(self, plan: FaultPlan) -> list[Way]:
        """Return the ways that a fault concerns."""
        deed = plan.deed
        ways: list[Way] = []
        if deed.verb in _OF_WAYS:
            ways.append(ends(deed, self._topology.publisher))
        if deed.verb in _OF_ANSWERS or plan.place.name.startswith("reply."):
            ways += self.of_answers(plan.place)
        return ways

    def of_answers(self, place: FaultPlace) -> list[Way]:
        """Return the ways over which the answer of a point arrives."""
        topology = self._topology
        return ways_of_answers(
            place, topology.publisher, topology.subscribers, log=topology.distribution
        )

    def silent(self) -> list[Way]:
        """Return the ways on which a message was swallowed."""
        return [way for way, wire in self._wires.items() if wire.has_swallowed]

    def wires(self, ways: Sequence[Way]) -> list[ServerWire]:
        """Return the wires of these ways."""
        return [self._wires[way] for way in ways]


def ways_of_answers(
    place: FaultPlace, publisher: str, subscribers: Sequence[str], *, log: str
) -> list[Way]:
    """Return the ways over which the answer of a point arrives; the Publisher's PREPARE is requested by
    Subscribers.
    """
    if place.name == "coordinator.before_decision":
        return [(COORDINATOR, log)]
    prepares = place.name in ("coordinator.before_prepare", "reply.prepare")
    if prepares and place.node == publisher:
        return [(subscriber, place.node) for subscriber in subscribers]
    return [(COORDINATOR, place.node)]


def ends(deed: FaultAction, publisher: str) -> Way:
    """Return the way between a fault's two ends, the connecting end first."""
    one, other = deed.node, deed.other
    swapped = other == COORDINATOR or one == publisher
    return (other, one) if swapped else (one, other)


def gid_in(text: str) -> str:
    """Return the global transaction that a request names, without a branch; empty if it names none.

    The request may name a branch, or the transaction itself, as the call before a Subscriber's PREPARE does.
    """
    for gid in _GID.findall(text):
        branch = BranchId.parse(gid)
        named = branch.global_id if branch is not None else GlobalId.parse(gid)
        if named is not None:
            return str(named)
    return ""
