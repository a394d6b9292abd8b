"""Can an order be played: do its steps exist, in their sessions' own order, in their transactions?"""

from __future__ import annotations

from sim.scenario.model import Order, OrderItem, Scenario
from sim.scenario.reach import check_sync
from sim.scenario.text import Document, suggestion

Path = tuple[str | int, ...]


def check_order(document: Document, scenario: Scenario, at: Path, order: Order) -> set[str]:
    """Note what cannot be played in `order`; returns the steps that it plays."""
    walk = _Walk(document, scenario, order)
    for place, item in enumerate(order.steps):
        walk.item((*at, "steps", place), item)
    if not order.steps:
        document.error(document.mark((*at, "steps")), f"order '{order.name}' plays nothing")
    return set(walk.played)


class _Walk:
    """Goes through an order as a runner would, without running anything."""

    def __init__(self, document: Document, scenario: Scenario, order: Order) -> None:
        self._document = document
        self._scenario = scenario
        self._order = order
        self._open: set[str] = set()
        self._unknown: set[str] = set()
        """Sessions with a step that could not be read: it may have begun or ended anything."""
        self.played: dict[str, int] = {}
        """Step → its place in its session."""
        self._latest: dict[str, str] = {}
        self._places = {
            name: place
            for session in scenario.sessions.values()
            for place, (name, _) in enumerate(session.named_steps)
        }

    def _error(self, at: Path, message: str) -> None:
        self._document.error(self._document.mark(at), f"order '{self._order.name}': {message}")

    def item(self, at: Path, item: OrderItem) -> None:
        if item.hole:
            return
        if item.step is not None:
            self._step(at, item.step)
        elif item.rollback is not None:
            self._rollback((*at, "rollback"), item.rollback)
        elif item.sync is not None:
            check_sync(self._document, self._scenario, at, item)
        elif item.waited not in self._scenario.steps:
            near = suggestion(item.waited, self._scenario.steps)
            self._error((*at, "wait"), f"no step '{item.waited}'{near}")
        elif item.waited not in self.played:
            self._error((*at, "wait"), f"'{item.waited}' has not been started here")

    def _rollback(self, at: Path, session: str) -> None:
        if session not in self._scenario.sessions:
            near = suggestion(session, self._scenario.sessions)
            self._error(at, f"no session '{session}'{near}")
        elif session not in self._open | self._unknown:
            self._error(at, f"session '{session}' has no transaction open here")
        self._open.discard(session)

    def _step(self, at: Path, name: str) -> None:
        if name not in self._scenario.steps:
            self._error(at, f"no step '{name}'{suggestion(name, self._scenario.steps)}")
            return
        session, step = self._scenario.steps[name]
        if name in self.played:
            self._error(at, f"'{name}' is played twice")
            return
        before = self._latest.get(session)
        if before is not None and self._places[before] > self._places[name]:
            self._error(
                at, f"'{name}' runs after '{before}', but session '{session}' lists it before"
            )
        else:
            self._latest[session] = name
        self.played[name] = self._places[name]
        if step.hole:
            self._unknown.add(session)
        elif step.action == "begin":
            if session in self._open - self._unknown:
                self._error(at, f"'{name}' begins a transaction, but '{session}' has one open")
            self._open.add(session)
        elif step.action in ("sync", "reinitialise"):
            if session in self._open - self._unknown:
                self._error(
                    at,
                    f"'{name}' is a {step.action} while '{session}' has a transaction open, whose rows it "
                    "would wait for: end it first",
                )
        elif step.action is not None:
            if session not in self._open | self._unknown:
                self._error(at, f"'{name}': session '{session}' has no transaction open here")
            self._open.discard(session)
