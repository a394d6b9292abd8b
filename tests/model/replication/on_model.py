"""Play histories in virtual time."""

from __future__ import annotations

from typing import Any

from tests.model.replication.recording import Kept
from tests.model.replication.telling import Notes, Played, graph_of, refused, told, waiting
from tests.model.replication.world import (
    ALSO,
    NODES,
    PUBLISHER,
    SUBSCRIBERS,
    TABLES,
    History,
    directed,
    spec,
)
from twopc.errors import TransactionError
from twopc.sim.model.clients import PublisherClient, SubscriberClient
from twopc.sim.model.kernel import SimpyKernel
from twopc.sim.model.system import System, build
from twopc.sim.model.values import Steps
from twopc.waits import Party

#: The interval at which the steps are checked for an end or a wait, and the longest duration.
_LOOK_S, _PATIENCE_S = 0.005, 40.0


class ModelRun:
    """A history played on the model, step by step."""

    def __init__(self, history: History) -> None:
        self.history = history
        self.kernel = SimpyKernel(0)
        self.system: System = build(
            spec(shipping=history.shipping), kernel=self.kernel, recorder=Kept()
        )
        self.played = Played()
        self.notes = Notes(self.played)
        self.clients: dict[str, SubscriberClient | PublisherClient] = {}

    def run(self) -> Played:
        """Play all steps, and record the rows and prepared transactions that remain."""
        for number, (session, text) in enumerate(self.history.steps, 1):
            if session in self.notes.busy:
                self._until_ended(session)
            step = f"{number} {session}"
            self.notes.busy[session] = step
            self.kernel.spawn(self._step(session, step, text), session)
            self._until_settled()
            self.notes.tell(step, self._waits())
        for session in list(self.notes.busy):
            if session in self.notes.busy:
                self._until_ended(session)
        for client in self.clients.values():
            self.kernel.run(self.kernel.spawn(client.rollback(), "end"))
        self._pass(1.0)
        self._look_at_rows()
        return self.played

    def _step(self, session: str, step: str, text: str) -> Steps[None]:
        try:
            said = yield from self._do(session, text)
        except TransactionError as error:
            said = refused(error)
        del self.notes.busy[session]
        self.notes.ended[step] = said

    def _do(self, session: str, text: str) -> Steps[str]:
        node = NODES[session[0]]
        client = self.clients.get(session)
        if client is None:
            client = self.clients[session] = self.system.session(
                session, node, ALSO.get(session[0], ())
            )
        at, text = directed(text)
        verb, _, rest = text.partition(" ")
        if verb == "begin":
            yield from client.begin(rest or "read committed")
            return "begun"
        if text == "commit":
            yield from client.commit()
            return "committed"
        if text == "rollback":
            yield from client.rollback()
            return "rolled back"
        if text == "sync":
            yield from self.system.sync(() if node == PUBLISHER else (node,))
            return "synced"
        result: Any = yield from (
            client.execute(text, {}, at=at)
            if isinstance(client, SubscriberClient)
            else client.execute(text, {})
        )
        return told(result.tag, result.rows)

    def _pass(self, seconds: float) -> None:
        self.kernel.run(self.kernel.now + seconds)

    def _until_ended(self, session: str) -> None:
        step, until = self.notes.busy[session], self.kernel.now + _PATIENCE_S
        while self.notes.busy.get(session) == step:
            assert self.kernel.now < until, f"{step} does not end: {self.played.lines}"
            self._pass(_LOOK_S)
        self._until_settled()
        self.notes.tell("", self._waits())

    def _until_settled(self) -> None:
        until = self.kernel.now + _PATIENCE_S
        while True:
            self._pass(_LOOK_S)
            if all(self._waits().get(session) for session in self.notes.busy):
                return
            assert self.kernel.now < until, f"not settled: {self.notes.busy}"

    def _waits(self) -> dict[str, list[str]]:
        nodes = self.system.nodes
        sessions = [one for node in nodes.values() for one in node.wait_rows()]
        (seat,) = self.system.coordinators().values()
        graph = graph_of(sessions, seat.process.engine.transactions())
        at = {one.node: one.server for one in sessions}
        places = {
            name: (at.get(client.node, client.node), client.pid)
            for name, client in self.clients.items()
        }
        names = {Party(*place): name for name, place in places.items()}
        return {
            name: waiting(graph, *places[name], names) for name in self.notes.busy if name in places
        }

    def _look_at_rows(self) -> None:
        for node in (PUBLISHER, *SUBSCRIBERS):
            for table in TABLES:
                columns = [one.name for one in self.system.nodes[node].table(table.name).columns]
                rows = self.system.nodes[node].rows(table.name, columns)
                self.played.tables[f"{node}.{table.name}"] = [
                    str(tuple(row.values())) for row in rows
                ]
            self.played.prepared += self.system.nodes[node].prepared()
