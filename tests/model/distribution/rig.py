"""Nodes in virtual time with distribution, and a minimal form of immediate updating.

A change of a Subscriber is made at both nodes by one transaction each, and marked at the Publisher.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from twopc.drivers.points import Points
from twopc.protocol import Participant
from twopc.protocol.variants import VARIANTS, Settings
from twopc.sim.model.distribution.system_distribution import Distribution
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.values import (
    ModelSpec,
    ModelTiming,
    SqlError,
    Steps,
    SubscriberSpec,
    TableSpec,
)
from twopc.sim.model.wiring import Wiring

ACCOUNT = TableSpec(
    name="account", columns={"id": "int", "owner": "text", "balance": "int"}, key=("id",)
)
#: The version of rows that have not been changed.
FIRST = "00000000-0000-0000-0000-000000000000"
_MARK = """
insert into msrepl.branch_marker (gid, xid, participants, originator)
values (:gid, pg_current_xact_id(), :sites, :originator)
"""


def role_of(subscriber: str) -> str:
    """Return the name of a Subscriber's link role."""
    return f"link_{subscriber}"


class Rig:
    """A Publisher, Subscribers and distribution.

    Args:
        rows: of the first table, at every node.
    """

    def __init__(
        self, *subscribers: SubscriberSpec, tables: Sequence[TableSpec] = (ACCOUNT,),
        rows: Sequence[tuple[Any, ...]] = ((1, "ada", 100), (2, "bob", 100)), seed: int = 0,
        wiring: Wiring | None = None, poll_s: float = 0.0, timing: ModelTiming | None = None,
        sql: Mapping[str, Sequence[str]] | None = None,
    ) -> None:  # fmt: skip
        self.kernel = SimpyKernel(seed)
        specs = subscribers or (SubscriberSpec(name="sub1"), SubscriberSpec(name="sub2"))
        self.spec = ModelSpec(
            publisher="pub", subscribers=specs, tables=tuple(tables), agent_poll_s=poll_s,
            timing=timing or ModelTiming(), seed=seed,
        )  # fmt: skip
        self.network = Network(self.kernel, self.spec.timing, answer_timeout_s=2.0)
        self.nodes = {name: self._node(name) for name in ("pub", *(one.name for one in specs))}
        for name, node in self.nodes.items():
            for table in tables:
                columns = ", ".join(f"{column} {kind}" for column, kind in table.columns.items())
                node.define(
                    f"create table {table.name} ({columns}, msrepl_tran_version uuid not null"
                    f" default gen_random_uuid(), primary key ({', '.join(table.key)}))"
                )
                for text in table.sql:
                    node.define(text)
            for row in rows:
                literals = ", ".join("null" if v is None else f"'{v}'" for v in row)
                node.define(f"insert into {tables[0].name} values ({literals}, '{FIRST}')")
            for text in (sql or {}).get(name, ()):
                node.define(text)
        self.points = Points()
        self.distribution = Distribution(
            self.spec, wiring or Wiring(), self.network, self.nodes, role_of=role_of,
            points=self.points,
        )  # fmt: skip
        self._count = 0

    def _node(self, name: str) -> ModelNode:
        settings = Settings(
            variant=VARIANTS["presumed_abort"].on_postgres(), inquiry_s=float("inf")
        )
        return ModelNode(
            name, self.kernel, timing=self.spec.timing, clock=lambda: 1e9 + self.kernel.now,
            lock_timeout_s=5.0, prepared_max=20, participant=Participant, settings=settings,
        )  # fmt: skip

    # -- running -------------------------------------------------------------------------------------

    def run(self, work: Steps[Any]) -> Any:
        """Run work to its end."""
        return self.kernel.run(self.kernel.spawn(work, "test"))

    def until(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.kernel.run(self.kernel.now + seconds)

    def transaction(
        self, node: str, *texts: str, origin: str = "", end: str = "commit"
    ) -> Steps[bool]:
        """Execute statements in one transaction of a node, and return whether it committed.

        With an origin, it is marked as a transaction of that Subscriber.
        """
        session = self.nodes[node].connect("app", "app")
        try:
            yield from session.execute("begin")
            if origin:
                yield from self.mark(session, origin)
            for text in texts:
                yield from session.execute(text)
            yield from session.execute(end)
        except SqlError:
            yield from session.execute("rollback")
            return False
        finally:
            session.close()
        return True

    def mark(self, session: NodeSession, origin: str) -> Steps[None]:
        """Mark a transaction of the Publisher as a Subscriber's."""
        self._count += 1
        said = {
            "gid": f"twopc:c:1:{self._count}:pub",
            "sites": [origin],
            "originator": role_of(origin),
        }
        yield from session.execute(_MARK, said)

    def at(self, node: str, *texts: str, origin: str = "") -> None:
        """Execute a transaction to its end."""
        assert self.run(self.transaction(node, *texts, origin=origin))

    def own(self, subscriber: str, *texts: str) -> None:
        """Execute a Subscriber's own transaction, at the Publisher and at the Subscriber."""
        self.at("pub", *texts, origin=subscriber)
        self.at(subscriber, *texts)

    def sync(self, *subscribers: str) -> Any:
        """Deliver everything to these Subscribers, or to all."""
        return self.run(self.distribution.sync(subscribers))

    def rows(self, node: str, table: str = "account") -> list[dict[str, str | None]]:
        """Return the rows of a table by key, without row versions."""
        columns = [
            name for name in self.nodes[node].table(table).at if name != "msrepl_tran_version"
        ]
        return self.nodes[node].rows(table, columns)

    def balances(self, node: str) -> dict[str | None, str | None]:
        """Return the balances of accounts by id."""
        return {row["id"]: row["balance"] for row in self.rows(node)}

    def converged(self) -> bool:
        """Return whether all nodes have the same rows, including row versions."""
        found = [
            [node.rows(table.name, [*node.table(table.name).at]) for table in self.spec.tables]
            for node in self.nodes.values()
        ]
        return all(one == found[0] for one in found)

    def history(self, subscriber: str, event: str) -> list[Any]:
        """Return the events of a kind that an agent has recorded."""
        return [
            one for one in self.distribution.seats[subscriber].record.history if one.event == event
        ]

    def crash_node(self, name: str, kept_lsn: int | None = None) -> None:
        """Crash a node, which restarts by itself."""
        self.nodes[name].crash(kept_lsn)
        self.network.node_lost(name)
        self.kernel.spawn(self.nodes[name].restart(), f"restart of {name}")
