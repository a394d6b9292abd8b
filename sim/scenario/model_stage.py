"""Stage on a model, in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from twopc.drivers.recovery import SettledBranch
from twopc.errors import from_sqlstate
from twopc.names import PREFIX
from twopc.sim.deliveries import ReportedDelivery
from twopc.sim.model.bridge import performed
from twopc.sim.model.sql import parse
from twopc.sim.model.sql.ddl import condition
from twopc.sim.model.sql.types import client_value
from twopc.sim.model.system import System
from twopc.sim.model.values import (
    SqlError,
    StatementResult,
    Steps,
    UnsupportedError,
)
from twopc.sim.report.history import plain
from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.model_check import (
    NullRecorder,
    path_of,
    refusal_text,
)
from twopc.sim.scenario.stage import (
    AGENTS,
    AwayError,
    NodeContent,
    SetUpError,
    Stage,
    lost_table,
)
from twopc.sim.sessions.interface import ClientSession
from twopc.sim.sessions.model import (
    CoordinatedSession,
    PlainVirtualSession,
    SessionPlace,
    VirtualSession,
)
from twopc.sim.sessions.waits import Waits, clients_of, read_waits


class ModelStage(Stage):
    """Stage of a model."""

    def __init__(self, model: System, scenario: Scenario, recorder: NullRecorder) -> None:
        self._model = model
        self._scenario = scenario
        self._recorder = recorder
        self._sessions: dict[str, VirtualSession] = {}
        self._place = SessionPlace(model=model, blame=self._blame)

    def watch(self, observe: Callable[[str, Any], None] | None) -> None:
        """Call `observe` with the effects and events of the coordinators' machines."""
        self._recorder.watched = observe

    @property
    def model(self) -> System:
        """The model, for inspection and for playing without an event loop."""
        return self._model

    @property
    def sessions(self) -> Mapping[str, VirtualSession]:
        """Connected sessions, by name."""
        return self._sessions

    def _blame(self, error: UnsupportedError, text: str) -> SetUpError:
        return SetUpError(path_of(self._scenario, text or error.text), refusal_text(error))

    async def take_down(self) -> None:
        """Run the scenario's `teardown`."""
        for at, text in enumerate(self._scenario.teardown):
            session = self._model.publisher.connect("postgres", "")
            try:
                for each in parse.statements(text):
                    await self._do(session.execute(each))
            except UnsupportedError as error:
                raise SetUpError(("teardown", at), refusal_text(error)) from error
            except SqlError as error:
                raise SetUpError(
                    ("teardown", at), f"the model says: {error.message} ({error.sqlstate})"
                ) from error

    async def _do(self, work: Steps[Any]) -> Any:
        return await performed(self._model.kernel, work, "stage")

    @property
    def about(self) -> Mapping[str, Any]:
        """Seed, wiring and randomly drawn parameters of the model."""
        report: dict[str, Any] = {"seed": self._model.spec.seed}
        if self._model.wiring.names:
            report["wiring"] = list(self._model.wiring.names)
        if self._recorder.drawn:
            report["drawn"] = dict(self._recorder.drawn)
        return report

    async def open(self, session: str, node: str) -> ClientSession:
        opened: VirtualSession
        text = self._scenario.sessions.get(session)  # the clients of a load are not in the file
        if text is not None and text.plain:
            role = "app" if self._scenario.topology.subscribers else "postgres"
            opened = PlainVirtualSession(self._place, session, node, role=role)
        else:
            opened = CoordinatedSession(
                self._place,
                session,
                node,
                text.also if text is not None else (),
                any_client=text is not None and text.any_client,
            )
        self._sessions[session] = opened
        return opened

    def agents(self) -> ClientSession:
        opened = VirtualSession(self._place, "", "")
        self._sessions[AGENTS] = opened
        return opened

    async def deliveries(self) -> list[ReportedDelivery]:
        return self._model.take_deliveries()

    async def waits(self) -> Waits:
        clients = await clients_of(self._sessions)
        nodes = self._model.nodes.values()
        sessions = [one for node in nodes for one in node.wait_rows()]
        return read_waits(sessions, clients, {node.name: node.clock() for node in nodes})

    def subscribes(self, node: str) -> bool:
        """Return whether the node is the Publisher or has a subscription in the model."""
        return node == self._model.spec.publisher or node in self._model.members.now

    def _has_tables(self, node: str) -> bool:
        return self.subscribes(node) or self._model.members.has_tables(node)

    async def look(self, node: str, tables: Mapping[str, Sequence[str]]) -> NodeContent:
        if not self._has_tables(node):
            raise AwayError(node)
        there = self._model.nodes[node]
        try:
            rows = {name: [*there.rows(name, columns)] for name, columns in tables.items()}
        except SqlError as error:
            raise lost_table(error.message) from error
        return NodeContent(
            rows=rows,
            xids={name: [*map(str, there.xids(name))] for name in tables},
            branches={each.gid: str(each.xid) for each in there.markers() if not each.fence},
        )

    async def part(
        self, subscriber: str, table: str, columns: Sequence[str]
    ) -> list[dict[str, Any]] | None:
        """Return the Publisher's rows that fulfil the filters of the table and the Subscriber."""
        filters = [
            self._scenario.tables[table].filter,
            self._scenario.subscriber(subscriber).filter.get(table),
        ]
        there = self._model.publisher
        table_there = there.table(table)
        try:
            fits = [condition(text, table_there, there.plans) for text in filters if text]
        except UnsupportedError as error:
            raise self._blame(error, "") from error
        if not fits:
            return None
        places = [(name, table_there.at[name]) for name in columns]
        return [
            {
                name: None if row[at] is None else table_there.columns[at].type.text(row[at])
                for name, at in places
            }
            for row in table_there.rows()
            if all(one(row) for one in fits)
        ]

    async def prepared(self, node: str) -> tuple[str, ...]:
        """Return the gids of coordinators' branches that are prepared at the node."""
        result = self._model.nodes[node].prepared()
        return tuple(sorted(gid for gid in result if gid.startswith(f"{PREFIX}:")))

    async def markers(self, node: str) -> list[dict[str, Any]]:
        """Return the rows of the node's marker table."""
        results = sorted(self._model.nodes[node].markers(), key=lambda each: each.gid)
        return [
            {
                "gid": each.gid,
                "participants": list(each.participants),
                "fence": each.fence,
                "sent": each.calls > 0 or each.pending,
            }
            for each in results
        ]

    async def query(self, node: str, text: str) -> list[dict[str, Any]]:
        """Return the rows of a query."""
        result = await self._looked(node, text)
        return [
            {
                name: None if value is None else str(plain(client_value(value)))
                for name, value in zip(result.names, row, strict=True)
            }
            for row in result.rows or ()
        ]

    async def _looked(self, node: str, text: str) -> StatementResult:
        """Return the result of a query, which does not wait for locks."""
        session = self._model.nodes[node].connect("postgres", "looks")
        try:
            rows: StatementResult = await self._do(session.execute(text))
            return rows
        except UnsupportedError as error:
            raise self._blame(error, text) from error
        except SqlError as error:
            raise from_sqlstate(error.sqlstate, error.message, node=node) from error
        finally:
            session.close()

    async def outage(self, node: str, *, on: bool) -> None:
        """Make a node unreachable, or reachable again, while its server continues. See
        `twopc.sim.scenario.outages`.
        """
        network = self._model.network
        if on:
            network.shut(node)
        else:
            network.open(node)

    async def recover(self) -> None:
        """Run one pass of recovery in every coordinator that is alive."""
        for each in self._model.coordinators().values():
            if each.alive:
                await self._do(each.recover())

    def settled(self) -> Sequence[SettledBranch]:
        results = [*self._model.settled]
        self._model.settled.clear()
        return results
