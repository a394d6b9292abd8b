"""Two nodes, a decision log and a coordinator in virtual time, with a minimal link between the nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twopc.drivers.points import Points
from twopc.errors import TransactionError
from twopc.names import branch_gid
from twopc.protocol import Participant
from twopc.protocol.variants import VARIANTS, Settings
from twopc.sim.model.coordinator import CoordinatorPlace, CoordinatorProcess
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.replication.subscription import flush_log
from twopc.sim.model.transaction import ModelTransaction
from twopc.sim.model.values import Cause, Delay, Label, ModelTiming, Steps
from twopc.sim.model.wiring import Wiring

PUBLISHER, SUBSCRIBER = "pub", "sub1"
TABLE = "create table account (id int primary key, balance int not null check (balance >= 0))"


class Link:
    """The sessions that a Subscriber's sessions have open at the Publisher."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._sessions: dict[NodeSession, NodeSession] = {}

    def remote(self, tx: Any, text: str) -> Steps[int]:
        """``select remote('…')``: run a statement at the Publisher, in the same global transaction."""
        session: NodeSession = tx.top.session
        gid = tx.settings["msrepl.gid"]
        there = self._sessions.get(session)
        if there is None or there.dead is not None or not there.in_transaction:
            there = self._sessions[session] = self._pair.nodes[PUBLISHER].connect("link", "link")
            yield from there.execute("begin")
            marker = "insert into msrepl.branch_marker (gid, xid, participants) values (:gid, pg_current_xact_id(), :sites)"
            yield from there.execute(
                marker, {"gid": branch_gid(gid, PUBLISHER), "sites": [SUBSCRIBER]}
            )
            yield from tx.run(marker, {"gid": branch_gid(gid, SUBSCRIBER), "sites": [PUBLISHER]})
        yield from there.execute(text)
        return 1

    def prepare(self, tx: Any, gid: str, _: Any, proof: str) -> Steps[int]:
        """``call msrepl.prepare_publisher(gid, null, proof)``: prepare the Publisher's branch."""
        there = self._sessions.pop(tx.top.session, None)
        if there is None:
            return 0
        yield from there.execute(f"prepare transaction '{branch_gid(gid, PUBLISHER)}'")
        there.close()
        return 1

    def reset(self, tx: Any) -> Steps[str]:
        """``select msrepl.reset_link()``: roll back the open transaction at the Publisher."""
        there = self._sessions.pop(tx.top.session, None)
        if there is not None:
            there.close()
        return ""
        yield  # makes this function a generator


class Pair:
    """Two nodes, the network, the decision log and a coordinator."""

    def __init__(self, seed: int = 0, wiring: Wiring | None = None, **timing: Any) -> None:
        self.kernel = SimpyKernel(seed)
        self.timing = ModelTiming(restart=Delay(a=0.5), **timing)
        self.network = Network(self.kernel, self.timing, answer_timeout_s=2.0)
        settings = Settings(
            variant=VARIANTS["presumed_abort"].on_postgres(), inquiry_s=float("inf")
        )
        self.nodes = {
            name: ModelNode(
                name, self.kernel, timing=self.timing, clock=lambda: 1e9 + self.kernel.now,
                lock_timeout_s=5.0, prepared_max=10, participant=Participant, settings=settings,
            )
            for name in (PUBLISHER, SUBSCRIBER)
        }  # fmt: skip
        link = Link(self)
        for node in self.nodes.values():
            node.define(TABLE)
            node.define("insert into account values (1, 100), (2, 100)")
            node.add_function("remote", link.remote)
            node.add_function("msrepl.prepare_publisher", link.prepare)
            node.add_function("msrepl.reset_link", link.reset)
            node.add_function("msrepl.flush_log", flush_log)
        publisher = self.nodes[PUBLISHER]
        chosen = wiring or Wiring()
        self.ledger = chosen.ledger(
            self.kernel, lambda: publisher.started if publisher.up else None, self.timing.flush
        )
        self.place = CoordinatorPlace(
            self.network, self.nodes, self.ledger, publisher=PUBLISHER, log_at=PUBLISHER,
            wiring=chosen,
        )  # fmt: skip
        self.points = Points()
        self.seen: list[Any] = []
        """Effects and events of the coordinator's machines."""
        self.first = self.process(1, self.points)

    def process(self, number: int, points: Points | None = None) -> CoordinatorProcess:
        """Start a coordinator process, which runs recovery as long as it lives."""
        made = CoordinatorProcess(
            self.place, "c", number, points=points, in_doubt_after_s=1.0, recovery_interval_s=0.5,
            observe=lambda _, what: self.seen.append(what),
        )  # fmt: skip
        made.spawn(made.keep_recovering(), "recovery")
        return made

    def transfer(
        self,
        variant: str = "presumed_abort",
        amount: int = 10,
        process: CoordinatorProcess | None = None,
    ) -> Steps[tuple[str, str]]:
        """Withdraw an amount at both nodes; return the outcome that the application gets, and the gid."""
        one: ModelTransaction = (process or self.first).transaction(SUBSCRIBER, variant=variant)
        text = f"update account set balance = balance - {amount} where id = 1"
        try:
            yield from one.begin()
            yield from one.execute(text)
            yield from one.execute("select remote(:text)", {"text": text})
            yield from one.commit()
        except TransactionError as error:
            yield from one.rollback()
            return type(error).__name__, one.gid
        return "committed", one.gid

    def run(self, work: Steps[Any]) -> Any:
        """Run work to its end in the first process."""
        return self.kernel.run(self.first.spawn(work, "test"))

    def until(self, seconds: float) -> None:
        """Let virtual time pass."""
        self.kernel.run(self.kernel.now + seconds)

    def balances(self) -> tuple[str | None, str | None]:
        """Return the balance of account 1 at both nodes."""
        there, here = (
            node.rows("account", ["id", "balance"])[0]["balance"] for node in self.nodes.values()
        )
        return there, here

    def prepared(self) -> list[str]:
        """Return the gids of all prepared transactions of both nodes."""
        return [gid for node in self.nodes.values() for gid in node.prepared()]

    def crash_node(self, name: str) -> None:
        """Crash a node, which restarts by itself."""
        self.nodes[name].crash()
        if name == PUBLISHER:
            self.ledger.crash()
        self.network.node_lost(name)
        self.kernel.spawn(self.nodes[name].restart(), f"restart of {name}")

    def at(self, seconds: float, action: Callable[[], None]) -> None:
        """Perform an action after a delay."""

        def act() -> Steps[None]:
            yield self.kernel.delay(seconds, Label(actor="fault", cause=Cause.FAULT, what="fault"))
            action()

        self.kernel.spawn(act(), "fault")
