"""A toy of conflicts between sessions: table locks at each node, row versions, and deadlocks.

It is independent of how orders are distinguished, and can show whether enough are distinguished.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from twopc.sim.scenario.model import Scenario
from twopc.sim.scenario.values import CaseLesson


@dataclass
class Session:
    """One client and its transaction."""

    name: str
    node: str
    held: dict[str, str] = field(default_factory=dict)
    """Maps each locked place to the step that locked it."""
    new: dict[str, str] = field(default_factory=dict)
    """Maps each written place to the step that wrote it."""
    seen: dict[str, dict[str, str]] = field(default_factory=dict)
    """Maps each node to the state that the transaction's snapshot shows."""
    todo: list[tuple[str, str]] = field(default_factory=list)
    """Remaining actions of the running step, each a verb and a place."""
    step: str = ""
    on: str = ""
    """The place for whose lock the session waits."""
    launched: int = 0
    holding: str = ""
    refused: bool = False
    open: bool = False


class Toy:
    """Plays one order."""

    def __init__(self, scenario: Scenario) -> None:
        order = scenario.orders[0]
        self._scenario = scenario
        self._snapshots = scenario.level(order, scenario.topology.publisher) != "read committed"
        self._publisher = scenario.topology.publisher
        self._sessions = {n: Session(n, s.node) for n, s in scenario.sessions.items()}
        self._committed = {
            f"{node} {table}": "first"
            for node in scenario.topology.nodes
            for table in scenario.tables
        }
        self._queue: dict[str, list[Session]] = {}
        self.told: set[str] = set()

    def play(self, steps: Sequence[str]) -> CaseLesson:
        """Return what playing `steps` teaches."""
        blocked = {}
        for place, name in enumerate(steps):
            session = self._sessions[self._scenario.steps[name][0]]
            if session.step:
                return CaseLesson(infeasible_at=place, blocked=blocked)
            self._launch(session, name, place)
            blocked[place + 1] = frozenset(n for n, s in self._sessions.items() if s.step)
        self.told |= {f"{place} is {version}" for place, version in self._committed.items()}
        assert not any(session.step for session in self._sessions.values())
        return CaseLesson(blocked=blocked, behaviour="; ".join(sorted(self.told)))

    def _launch(self, session: Session, name: str, at: int) -> None:
        step = self._scenario.steps[name][1]
        session.step, session.launched = name, at
        if step.action == "begin":
            session.open = True
        elif step.action in ("commit", "rollback"):
            well = step.action == "commit" and not session.refused
            self._end(session, well)
            session.open, session.refused = False, False
        elif session.refused:
            self._ended(session, "skipped")
            return
        else:
            session.todo = list(self._work(session, step.statements))
            if any(verb == "write" for verb, _ in session.todo):
                session.holding = name
            self._go_on(session)
            return
        self._ended(session, "ok")

    def _work(self, session: Session, statements: Sequence[str]) -> Iterator[tuple[str, str]]:
        for text in statements:
            words = text.split()
            if words[0] == "select":
                yield "read", f"{session.node} {words[-1]}"
            else:
                yield "write", f"{session.node} {words[1]}"
                if session.node != self._publisher:
                    yield "send", f"{self._publisher} {words[1]}"

    def _go_on(self, session: Session) -> None:
        """Continue the running step until it ends or waits for a lock."""
        while session.todo:
            verb, place = session.todo[0]
            seen = self._seen(session, place)
            if verb == "read":
                self.told.add(f"{session.step} reads {session.new.get(place, seen)}")
            elif not self._lock(session, place) or not self._write(session, verb, place, seen):
                return
            session.todo.pop(0)
        name = session.step
        if not session.open:
            self._end(session, well=True)
        assert session.step == name
        self._ended(session, "ok")

    def _seen(self, session: Session, place: str) -> str:
        node = place.split()[0]
        if not self._snapshots:
            return self._committed[place]
        return session.seen.setdefault(node, dict(self._committed))[place]

    def _lock(self, session: Session, place: str) -> bool:
        holder = next((s for s in self._sessions.values() if place in s.held), None)
        if holder in (None, session):
            session.held.setdefault(place, session.step)
            return True
        session.on = place
        self._queue.setdefault(place, []).append(session)
        self.told.add(f"{session.step} waits for {holder.name} ({holder.holding})")
        self._break_cycle(session)
        return False

    def _write(self, session: Session, verb: str, place: str, seen: str) -> bool:
        stale = self._snapshots and self._committed[place] != seen
        if verb == "send":
            mine = self._committed[f"{session.node} {place.split()[1]}"]
            stale = stale or (place not in session.new and self._committed[place] != mine)
        if stale:
            self._refuse(session, "stale")
            return False
        session.new[place] = session.step
        return True

    def _refuse(self, session: Session, why: str) -> None:
        name = session.step
        session.todo, session.on = [], ""
        for queue in self._queue.values():
            if session in queue:
                queue.remove(session)
        session.refused = session.open
        self._ended(session, why)
        self._end(session, well=False)
        assert session.step != name or not session.step

    def _break_cycle(self, session: Session) -> None:
        ring, here = [session], session
        while here.on:
            here = next(s for s in self._sessions.values() if here.on in s.held)
            if here is session:
                self._refuse(max(ring, key=lambda each: each.launched), "deadlock")
                return
            ring.append(here)

    def _end(self, session: Session, well: bool) -> None:
        """Commit or roll back, release the locks, and let waiting sessions continue."""
        if well:
            self._committed.update(session.new)
        free = list(session.held)
        session.held, session.new, session.seen, session.holding = {}, {}, {}, ""
        for place in free:
            queue = self._queue.get(place, [])
            if queue:
                waiting = queue.pop(0)
                waiting.on = ""
                waiting.held[place] = waiting.step
                for other in queue:  # they now wait for the new holder
                    self.told.add(f"{other.step} waits for {waiting.name} ({waiting.holding})")
                self._go_on(waiting)

    def _ended(self, session: Session, how: str) -> None:
        self.told.add(f"{session.step} {how}")
        session.step = ""
