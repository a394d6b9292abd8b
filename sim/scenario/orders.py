"""Checks of orders: whether their steps exist, in the order of their sessions and of their transactions."""

from __future__ import annotations

import itertools
from collections.abc import Collection

from twopc.sim.scenario.columns_meaning import ColumnWalk
from twopc.sim.scenario.merge_parts import ColumnChange
from twopc.sim.scenario.model import Order, OrderItem, Scenario
from twopc.sim.scenario.order_generation import Generate
from twopc.sim.scenario.reach import check_agent, check_sync
from twopc.sim.scenario.steps import OF_AGENTS
from twopc.sim.scenario.text import Document, Path, suggestion


def check_order(document: Document, scenario: Scenario, at: Path, order: Order) -> set[str]:
    """Record the errors of `order`. Return the steps that it plays."""
    faults = {fault.id for fault in scenario.faults}
    for place, name in enumerate(order.faults):
        if name not in faults:
            document.unknown((*at, "faults", place), "fault", name, faults)
    if scenario.repeated:
        return set(scenario.steps)  # with ambiguous names, orders cannot be checked
    if order.generate is not None:
        if "steps" in order.model_fields_set:
            document.error(
                (*at, "generate"),
                f"order '{order.name}' has 'steps' and 'generate': it lists steps or is generated",
                key=True,
            )
        return _generated(document, scenario, (*at, "generate"), order.generate)
    walk = _OrderWalk(document, scenario, order)
    for place, item in enumerate(order.steps):
        walk.item((*at, "steps", place), item)
    if order.holes:
        return set(scenario.steps)
    if "steps" not in order.model_fields_set:
        document.missing(at, "steps")
    elif not order.steps:
        document.error((*at, "steps"), f"order '{order.name}' plays nothing")
    return set(walk.played)


def _generated(document: Document, scenario: Scenario, at: Path, generate: Generate) -> set[str]:
    """Record constraints that cannot be fulfilled. Return the steps that are played."""
    chosen = generate.sessions or tuple(scenario.sessions)
    for place, name in enumerate(generate.sessions):
        if name not in scenario.sessions:
            document.unknown((*at, "sessions", place), "session", name, scenario.sessions)
            chosen = tuple(scenario.sessions)
    played = {name for name, (session, _) in scenario.steps.items() if session in chosen}
    if generate.limit is not None and generate.limit < 1:
        document.error((*at, "limit"), "'limit' is 1 at least, or none")
    constraints = _Constraints(document, scenario, played)
    for place, pair in enumerate(generate.pairs):
        if any(pair):
            constraints.before((*at, "before", place), *pair)
    for place, group in enumerate(generate.together):
        constraints.together(_group(document, at, generate, place), group)
    constraints.solve(at)
    return played


def _group(document: Document, at: Path, generate: Generate, place: int) -> Path:
    """Return the place of a group of steps; a single group may be written without an outer list."""
    flat = document.mark((*at, "together", 0, 0)) == document.mark((*at, "together", 0))
    return (*at, "together") if flat and len(generate.together) == 1 else (*at, "together", place)


class _Constraints:
    """Constraints on the order of steps: the order of each session, and those of the file."""

    def __init__(self, document: Document, scenario: Scenario, played: set[str]) -> None:
        self._document = document
        self._scenario = scenario
        self._played = played
        self._block: dict[str, int] = {}
        """Step → number of its group of steps that follow each other immediately."""
        self._edges: list[tuple[str, str]] = []
        for session in scenario.sessions.values():
            names = [name for name, _ in session.named_steps if name in played]
            self._edges += itertools.pairwise(names)

    def _known(self, at: Path, step: str) -> bool:
        if step not in self._scenario.steps:
            self._document.unknown(at, "step", step, self._scenario.steps)
        elif step not in self._played:
            session = self._scenario.steps[step][0]
            self._document.error(at, f"'{step}' is not played: 'sessions' leaves '{session}' out")
        return step in self._played

    def before(self, at: Path, one: str, other: str) -> None:
        """Add the constraint that `one` comes before `other`, or record why that is impossible."""
        if not (self._known(at, one) and self._known(at, other)):
            return
        way = self._way(other, one)
        if way:
            text = " < ".join(way)
            self._document.error(at, f"'{one} < {other}' cannot be: already {text}")
            return
        self._edges.append((one, other))

    def together(self, at: Path, group: tuple[str, ...]) -> None:
        """Add the constraint that these steps follow each other immediately, or record why that is impossible."""
        document = self._document
        if len(group) < 2:
            document.error(at, "steps that follow each other at once are two at least")
        number = len(self._block)
        for place, step in enumerate(group):
            if not self._known((*at, place), step):
                return
            if step in self._block:
                document.error((*at, place), f"'{step}' is in another group already")
                return
        for one, other in itertools.combinations(group, 2):
            way = self._way(other, one)
            if way:
                document.error(
                    (*at, group.index(other)), f"'{other}' cannot follow '{one}': {' < '.join(way)}"
                )
                return
        self._edges += itertools.pairwise(group)
        self._block |= dict.fromkeys(group, number)

    def _way(self, start: str, end: str) -> tuple[str, ...]:
        """Return a chain of steps by which `start` comes before `end`; empty if there is none."""
        if start == end:
            return (start, end)
        ways: dict[str, tuple[str, ...]] = {start: (start,)}
        waiting = [start]
        for here in waiting:
            for one, other in self._edges:
                if one == here and other not in ways:
                    ways[other] = (*ways[here], other)
                    waiting.append(other)
        return ways.get(end, ())

    def solve(self, at: Path) -> None:
        """Record an error if no order fulfils all constraints; each group of steps counts as one step here."""
        edges = {
            (self._block.get(one, one), self._block.get(other, other)) for one, other in self._edges
        }
        edges = {(one, other) for one, other in edges if one != other}
        left = {node for edge in edges for node in edge}
        while left:
            free = left - {other for one, other in edges if one in left}
            if not free:
                self._document.error(
                    (*at, "together"),
                    "no order fulfils this: other steps must come between those that 'together' puts side by side",
                    key=True,
                )
                return
            left -= free


class _OrderWalk:
    """Walk through an order that tracks the state of sessions and nodes without playing."""

    def __init__(self, document: Document, scenario: Scenario, order: Order) -> None:
        self._document = document
        self._scenario = scenario
        self._order = order
        self._open: set[str] = set()
        self._cut: set[str] = set()
        self._backed_up: set[str] = set()
        self._columns = ColumnWalk(scenario)
        self._paused: set[str] = set()
        self._unknown: set[str] = set()
        """Sessions whose transaction state is unknown after a script or an invalid step."""
        self.played: dict[str, int] = {}
        """Step → its index in its session."""
        self._latest: dict[str, str] = {}
        self._places = {
            name: place
            for session in scenario.sessions.values()
            for place, (name, _) in enumerate(session.named_steps)
        }

    def _error(self, at: Path, message: str) -> None:
        self._document.error(at, f"order '{self._order.name}': {message}")

    def _no_such(self, at: Path, what: str, name: str, known: Collection[str]) -> None:
        self._error(at, f"no {what} '{name}'{suggestion(name, known)}")

    def item(self, at: Path, item: OrderItem) -> None:
        if item.hole or item.holes:
            return
        if item.step is not None:
            self._step(at, item.step)
        elif item.rollback is not None:
            self._rollback((*at, "rollback"), item.rollback)
        elif item.sync is not None:
            check_sync(self._document, self._scenario, at, item)
            for place, name in enumerate(item.sync):
                if name in self._paused:
                    self._error((*at, "sync", place), f"the agent of '{name}' is paused here")
        elif item.fault is not None:
            faults = [fault.id for fault in self._scenario.faults]
            if item.fault not in faults and not any(each.hole for each in self._scenario.faults):
                self._no_such((*at, "fault"), "fault", item.fault, faults)
        elif item.cut is not None or item.restore is not None:
            self._outage(at, item)
        elif item.backup is not None or item.restore_backup is not None:
            self._backup(at, item)
        elif item.column_change is not None:
            self._change_column(at, item.column_change)
        elif item.pause is not None or item.resume is not None:
            self._agent(at, item.pause, item.resume)
        elif item.wait is not None:
            self._wait(at, item)

    def _wait(self, at: Path, item: OrderItem) -> None:
        if item.waited not in self._scenario.steps:
            self._no_such((*at, "wait"), "step", item.waited, self._scenario.steps)
        elif item.waited not in self.played:
            self._error((*at, "wait"), f"'{item.waited}' has not been started here")

    def _outage(self, at: Path, item: OrderItem) -> None:
        word = "cut" if item.cut is not None else "restore"
        node = item.cut or item.restore or ""
        nodes = self._scenario.topology.nodes
        if node not in nodes:
            self._no_such((*at, word), "node", node, nodes)
        elif word == "cut" and node in self._cut:
            self._error((*at, word), f"node '{node}' is cut off already")
        elif word == "restore" and node not in self._cut:
            self._error((*at, word), f"node '{node}' is not cut off here")
        (self._cut.add if word == "cut" else self._cut.discard)(node)

    def _backup(self, at: Path, item: OrderItem) -> None:
        word = "backup" if item.backup is not None else "restore backup"
        node = item.backup or item.restore_backup or ""
        nodes = self._scenario.topology.nodes
        if node not in nodes:
            self._no_such((*at, word), "node", node, nodes)
        elif node in self._cut:
            self._error((*at, word), f"node '{node}' is cut off here: {{restore: {node}}} first")
        elif word == "restore backup" and self._columns.changed:
            self._error(
                (*at, word), f"'restore backup' cannot come after '{self._columns.changed}'"
            )
        elif word == "restore backup" and node not in self._backed_up:
            self._error((*at, word), f"node '{node}' has no backup here: {{backup: {node}}} first")
        self._refuse_open(at, word, node)
        self._backed_up.add(node)

    def _refuse_open(self, at: Path, word: str, node: str) -> None:
        for session in sorted(self._open - self._unknown):
            if self._scenario.sessions[session].node == node:
                self._error(
                    (*at, word),
                    f"'{word}' comes while '{session}' has a transaction open at '{node}': end it first",
                )

    def _change_column(self, at: Path, change: ColumnChange) -> None:
        word, publisher = change.word, self._scenario.topology.publisher
        for key, message in self._columns.problems(change):
            self._error((*at, word, key), message)
        if publisher in self._cut:
            self._error(
                (*at, word), f"node '{publisher}' is cut off here: {{restore: {publisher}}} first"
            )
        if self._scenario.topology.snapshot != "none":
            self._error(
                (*at, word),
                "a snapshot that was made before has not these columns, and no Subscriber could begin with it",
            )
        self._refuse_open(at, word, publisher)
        self._columns.change(change)

    def _agent(self, at: Path, pause: str | None, resume: str | None) -> None:
        word = "pause" if pause is not None else "resume"
        check_agent(self._document, self._scenario, (*at, word), pause or resume or "")
        self._pause(at, pause, resume)

    def _pause(self, at: Path, pause: str | None, resume: str | None) -> None:
        if pause is not None and pause in self._paused:
            self._error(at, f"the agent of '{pause}' is paused already")
        elif resume is not None and resume not in self._paused:
            self._error(at, f"the agent of '{resume}' is not paused here")
        self._paused.discard(resume or "")
        self._paused |= {pause} if pause is not None else set()

    def _rollback(self, at: Path, session: str) -> None:
        if session not in self._scenario.sessions:
            self._no_such(at, "session", session, self._scenario.sessions)
        elif session not in self._open | self._unknown:
            self._error(at, f"session '{session}' has no transaction open here")
        self._open.discard(session)

    def _step(self, at: Path, name: str) -> None:
        if name not in self._scenario.steps:
            self._no_such(at, "step", name, self._scenario.steps)
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
        if step.pause is not None or step.resume is not None:
            self._pause(at, step.pause, step.resume)
        if step.hole or step.script is not None:
            self._unknown.add(session)
        elif step.action == "begin":
            if session in self._open - self._unknown:
                self._error(at, f"'{name}' begins a transaction, but '{session}' has one open")
            self._open.add(session)
        elif step.action in OF_AGENTS:
            if session in self._open - self._unknown:
                self._error(
                    at,
                    f"'{name}' ({step.action}) comes while '{session}' has a transaction open, whose rows it "
                    "would wait for: end it first",
                )
        elif step.action is not None:
            if session not in self._open | self._unknown:
                self._error(at, f"'{name}': session '{session}' has no transaction open here")
            self._open.discard(session)
