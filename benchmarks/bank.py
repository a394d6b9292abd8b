"""A bank in virtual time: clients at Subscribers, with each update made at both ends in one global transaction.

Everything is the model's: coordinator, driver, machines, nodes, connections; the history is written. The link between
the nodes is minimal, so that the benchmark measures two-phase commit.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TextIO

from twopc.names import branch_gid
from twopc.protocol import Participant
from twopc.protocol.effects import Log
from twopc.protocol.variants import VARIANTS, Settings
from twopc.sim.model.application import ModelConnection
from twopc.sim.model.coordinator import CoordinatorPlace, CoordinatorProcess
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.ledger import DecisionLedger
from twopc.sim.model.network import Network
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.session import NodeSession
from twopc.sim.model.values import Cause, Delay, Label, ModelTiming, RowChange, Steps
from twopc.sim.model.wiring import Wiring

PUBLISHER = "pub"
#: Initial balance of an account.
BALANCE = 1000
#: Accounts of a Subscriber per client: so few that some clients wait for each other.
ACCOUNTS = 20
TIMING = ModelTiming(message=Delay(a=0.0002), flush=Delay(a=0.0005))
TABLE = "create table account (id int primary key, balance int not null check (balance >= 0))"
UPDATE = "update account set balance = balance + :amount where id = :id"
_UPDATE, _COMMIT = json.dumps(UPDATE), json.dumps("commit")


class Counts:
    """The cost of a run, counted from the run's trace."""

    def __init__(self) -> None:
        self.messages = 0
        self.decisions = 0
        """Forced records in the decision log."""
        self.writes = 0
        """All forced writes."""
        self.transactions = 0

    @property
    def messages_each(self) -> float:
        """Messages per transaction."""
        return self.messages / self.transactions

    @property
    def writes_each(self) -> float:
        """Forced writes per transaction."""
        return self.writes / self.transactions

    def saw(self, _: str, what: Any) -> None:
        """Count an effect or event of a driver."""
        self.decisions += isinstance(what, Log) and what.forced


class CountingKernel(SimpyKernel):
    """A kernel that counts messages."""

    def __init__(self, seed: int, counts: Counts) -> None:
        super().__init__(seed)
        self._counts = counts

    def delay(self, duration: Delay | float, label: Label) -> Any:
        """Count the delay if it is that of a message; see `SimpyKernel.delay`."""
        self._counts.messages += label.cause in (Cause.MESSAGE, Cause.REPLY)
        return super().delay(duration, label)


class Link:
    """The connections of Subscribers' sessions to the Publisher: one each, opened at first use.

    It is also the trigger of the Subscribers' accounts: an update here is repeated at the Publisher.
    """

    name = "pay"
    when = "after row"
    operations = frozenset({"upd"})
    fires = "origin"

    def __init__(self, bank: Bank) -> None:
        self._bank = bank
        self._of: dict[NodeSession, ModelConnection] = {}

    def fire(self, tx: Any, table: str, changes: Sequence[RowChange]) -> Steps[None]:
        """Make the same update at the Publisher, in one global transaction."""
        ((_, _, old, new),) = changes
        assert old is not None and new is not None
        params = {"amount": new[1] - old[1], "id": new[0]}  # type: ignore[operator] # numbers
        session: NodeSession = tx.top.session
        bank, gid, here = self._bank, tx.settings["msrepl.gid"], session.node.name
        there = self._of.get(session)
        if there is None or there.is_lost:
            there = self._of[session] = yield from ModelConnection.open(
                bank.network, bank.nodes[PUBLISHER], here=here, actor=f"link:{here}:{session.pid}",
                role="link", name="link",
            )  # fmt: skip

        def work() -> Steps[None]:
            remote = there.session
            if not remote.in_transaction:
                yield from remote.execute("begin")
                yield from self._mark(remote.tx, gid, PUBLISHER, here)
            yield from remote.execute(UPDATE, params)

        yield from self._mark(tx, gid, here, PUBLISHER)
        yield from there.wire.ask(work, UPDATE, frozenset((PUBLISHER,)))

    def _mark(self, tx: Any, gid: str, here: str, other: str) -> Steps[None]:
        row = (
            branch_gid(gid, here), tx.assign(), [other], None, 0, None, None, False,
            datetime.fromtimestamp(tx.top.began, UTC),
        )  # fmt: skip
        yield from tx.insert("msrepl.branch_marker", row)

    def prepare(self, tx: Any, gid: str, _: Any, proof: str) -> Steps[int]:
        """Perform ``call msrepl.prepare_publisher(gid, null, proof)``; return the number of branches prepared there."""
        there = self._of[tx.top.session]
        text = f"prepare transaction '{branch_gid(gid, PUBLISHER)}'"
        yield from there.execute(text)
        return 1


class Bank:
    """The simulated system.

    Args:
        nodes: number of nodes, including the Publisher.
        history: the file to which the history is written.
        counted: count the cost of the run, which itself takes time.
        timing: the durations of the model.
    """

    def __init__(
        self, *, clients: int, nodes: int, history: TextIO, seed: int = 0, counted: bool = False,
        timing: ModelTiming = TIMING,
    ) -> None:  # fmt: skip
        self.counts = Counts()
        self.kernel = CountingKernel(seed, self.counts) if counted else SimpyKernel(seed)
        self.network = Network(self.kernel, timing)
        self._history = history
        settings = Settings(
            variant=VARIANTS["presumed_abort"].on_postgres(), inquiry_s=float("inf")
        )
        self.subscribers = [f"sub{number}" for number in range(1, nodes)]
        self.nodes = {
            name: ModelNode(
                name, self.kernel, timing=timing, clock=lambda: 1e9 + self.kernel.now,
                lock_timeout_s=60.0, prepared_max=clients + 10, participant=Participant,
                settings=settings,
            )
            for name in (PUBLISHER, *self.subscribers)
        }  # fmt: skip
        self._kept_s = 10 / clients
        """Time for which ended transactions are kept: some thousand of them, whatever the number of clients."""
        self._accounts = ACCOUNTS * -(-clients // len(self.subscribers))
        link = Link(self)
        last = self._accounts * len(self.subscribers)
        for place, (name, node) in enumerate(self.nodes.items()):
            node.define(TABLE)
            first = 1 if name == PUBLISHER else (place - 1) * self._accounts + 1
            end = last if name == PUBLISHER else place * self._accounts
            node.define(
                f"insert into account select g, {BALANCE} from generate_series({first}, {end}) as g"
            )
            if name != PUBLISHER:
                node.add_trigger("account", link)
            node.add_function("msrepl.prepare_publisher", link.prepare)
        publisher = self.nodes[PUBLISHER]
        ledger = DecisionLedger(
            self.kernel, lambda: publisher.started if publisher.up else None, timing.flush
        )
        self.ledger = ledger
        place_ = CoordinatorPlace(
            self.network, self.nodes, ledger, publisher=PUBLISHER, log_at=PUBLISHER, wiring=Wiring()
        )
        self.process = CoordinatorProcess(
            place_, "c", recovery_interval_s=self._kept_s, markers_kept_s=self._kept_s,
            observe=self.counts.saw if counted else None,
        )  # fmt: skip
        self.kernel.spawn(self._trim(), "trim")
        self.process.spawn(self.process.keep_recovering(), "recovery")
        self._clients = clients
        self.paid = 0
        """Deposits less withdrawals of the clients, by the outcomes that were reported to them."""
        self._left = 0
        self._lines = 0

    def run(self, transactions: int) -> None:
        """Run this number of transactions, distributed over the clients, until the last one has ended."""
        self._left = transactions
        counts, forced = self.counts, self._forced()
        clients = [
            self.process.spawn(self._client(number), f"client {number}")
            for number in range(self._clients)
        ]
        self.kernel.run(self.kernel.env.all_of(clients))
        counts.transactions += transactions
        counts.writes += self._forced() - forced

    def _forced(self) -> int:
        return self.counts.decisions + sum(node.wal.forces for node in self.nodes.values())

    def _trim(self) -> Steps[None]:
        """Trim the logs of the nodes at intervals, since nothing reads them."""
        label = Label(actor="bank", cause=Cause.POLL, what="trim")
        while True:
            yield self.kernel.delay(self._kept_s, label)
            for node in self.nodes.values():
                node.wal.trim(node.wal.durable)

    def _client(self, number: int) -> Steps[None]:
        node = self.subscribers[number % len(self.subscribers)]
        first = number % len(self.subscribers) * self._accounts + 1
        chance = self.kernel.random(f"client:{number}")
        amount = 10
        while self._left:
            self._left -= 1
            one = self.process.transaction(node)
            params = {"amount": amount, "id": first + chance.randrange(self._accounts)}
            yield from one.begin()
            self._line(number, node, one.gid, "invoke", _UPDATE, params)
            yield from one.execute(UPDATE, params)
            self._line(number, node, one.gid, "ok", _UPDATE, params)
            self._line(number, node, one.gid, "invoke", _COMMIT, None)
            yield from one.commit()
            self._line(number, node, one.gid, "ok", _COMMIT, None)
            self.paid += amount
            amount = -amount

    def _line(self, client: int, node: str, gid: str, kind: str, sql: str, params: Any) -> None:
        """Write a record of `twopc.sim.report.history`, in the order of its fields."""
        said = (
            f', "params": {{"amount": {params["amount"]}, "id": {params["id"]}}}' if params else ""
        )
        self._history.write(
            f'{{"seq": {self._lines}, "t_us": {self.kernel.now * 1e6:.0f}, "kind": "{kind}", '
            f'"order": "", "session": "client{client}", "node": "{node}", "gid": "{gid}", "sql": {sql}{said}}}\n'
        )
        self._lines += 1

    def check(self) -> None:
        """Check that balances match the payments, that both ends are equal, and that nothing is left prepared.

        Raises:
            RuntimeError: the run is void.
        """
        columns = ["id", "balance"]
        there = self.nodes[PUBLISHER].rows("account", columns)
        here = [
            row for name in self.subscribers for row in self.nodes[name].rows("account", columns)
        ]
        by_id = {row["id"]: row for row in here}
        if len(by_id) != len(there) or any(by_id[row["id"]] != row for row in there):
            raise RuntimeError("void: the nodes differ")
        total = sum(int(row["balance"] or 0) for row in there)
        if total != BALANCE * len(there) + self.paid:
            raise RuntimeError(f"void: {total} is there, not what was paid")
        if any(node.prepared() for node in self.nodes.values()):
            raise RuntimeError("void: branches are left prepared")
