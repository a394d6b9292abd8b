"""Determination of the steps of a scenario that may depend on each other, conservatively, from their texts.

Independent steps can be exchanged without a change of any outcome. What a step may read and write is recorded by
node and table; a step whose tables cannot be determined is assumed to affect everything.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from twopc import lexer
from twopc.sim.scenario import sqltext
from twopc.sim.scenario.model import Order, Scenario, Step

#: A node and a table.
Place = tuple[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Footprint:
    """The tables that a step may read and write."""

    reads: frozenset[Place] = frozenset()
    writes: frozenset[Place] = frozenset()
    """Also the tables that the step may lock."""
    all_of: frozenset[str] = frozenset()
    """Nodes at which the step may read and write any table."""

    def __or__(self, other: Footprint) -> Footprint:
        return Footprint(
            reads=self.reads | other.reads,
            writes=self.writes | other.writes,
            all_of=self.all_of | other.all_of,
        )

    @property
    def locks(self) -> Footprint:
        """The part of this footprint for which another session may have to wait."""
        return Footprint(writes=self.writes, all_of=self.all_of)

    @property
    def nodes(self) -> frozenset[str]:
        """Nodes at which the step may read or write."""
        return frozenset(node for node, _ in self.reads | self.writes) | self.all_of


NOTHING = Footprint()


def independent(one: Footprint, other: Footprint) -> bool:
    """Return whether neither footprint writes what the other reads or writes."""
    return not (
        one.writes & (other.reads | other.writes)
        or other.writes & one.reads
        or one.all_of & other.nodes
        or other.all_of & one.nodes
    )


def footprints(scenario: Scenario, order: Order) -> dict[str, Footprint]:
    """Return the footprint of each step of the scenario, without its indirect effects."""
    own, _ = _FootprintReader(scenario, order).read()
    return own


@dataclass(frozen=True, slots=True, kw_only=True)
class Guess:
    """Assumed locks of sessions, and the session for which each blocked session is assumed to wait."""

    locks: Mapping[str, Footprint] = field(default_factory=dict)
    waits: Mapping[str, str] = field(default_factory=dict)

    def without(self, session: str) -> Guess:
        """Return a copy in which `session` does not wait."""
        waits = {one: on for one, on in self.waits.items() if one != session}
        return Guess(locks=self.locks, waits=waits)


class Dependence:
    """Relation of steps that may affect each other, directly or through other steps.

    A step can end a wait: by ending its transaction, or by failing and thereby releasing its locks. Blocked steps
    of other sessions then continue, and so do steps that wait for those. The effects of a step therefore include
    the effects of all of these; and the next steps of their sessions can only come after it.
    """

    def __init__(self, scenario: Scenario, order: Order) -> None:
        reader = _FootprintReader(scenario, order)
        self._own, self._held = reader.read()
        self._kept = reader.kept
        self._waits = {name for name in self._own if reader.may_wait(name)}
        self._home = {name: session for name, (session, _) in scenario.steps.items()}
        self._next: dict[str, str] = {}
        for session in scenario.sessions.values():
            names = [name for name, _ in session.named_steps]
            self._next.update(itertools.pairwise(names))
        self._released = {name: self._ended_by(name) for name in self._own}
        self._known: dict[frozenset[str], bool] = {}

    def __call__(self, one: str, other: str) -> bool:
        """Return whether the order of two steps matters; the relation is symmetric."""
        pair = frozenset((one, other))
        if pair not in self._known:
            self._known[pair] = self._depend(one, other)
        return self._known[pair]

    def may_wait(self, step: str) -> bool:
        """Return whether a step may have to wait for a lock."""
        return step in self._waits

    def may_end(self, wait: str, step: str) -> bool:
        """Return whether playing `step` may end the wait of the step `wait`."""
        return wait in self._released[step]

    def guess(self, so_far: Guess, steps: Iterable[str]) -> Guess | None:
        """Return the assumed locks and waits after more steps; None if one of them belongs to a session that is
        assumed to wait.
        """
        locks, waits = dict(so_far.locks), dict(so_far.waits)
        for step in steps:
            session = self._home[step]
            if session in waits:
                return None
            for other, kept in locks.items():
                in_its_way = other != session and not independent(self._own[step], kept)
                if in_its_way and step in self._waits:
                    waits[session] = other
            locks[session] = self._kept[step]
            if self._kept[step] == NOTHING:
                waits = {one: on for one, on in waits.items() if on != session}
        return Guess(locks=locks, waits=waits)

    def _ended_by(self, step: str) -> frozenset[str]:
        """Return the steps of other sessions whose wait may end after `step`."""
        results: set[str] = set()
        todo = [step]
        while todo:
            here = todo.pop()
            locks = self._held[here].locks
            for other in self._waits - results:
                if self._home[other] in (self._home[here], self._home[step]):
                    continue
                if not independent(self._own[other], locks):
                    results.add(other)
                    todo.append(other)
        return frozenset(results)

    def _depend(self, one: str, other: str) -> bool:
        if self._home[one] == self._home[other]:
            return True
        ones, others = self._released[one], self._released[other]
        if ones & others:
            return True
        if any(self._next.get(each) == other for each in ones):
            return True
        if any(self._next.get(each) == one for each in others):
            return True
        return any(
            self._home[a] != self._home[b] and self._interfere(a, b)
            for a in (one, *ones)
            for b in (other, *others)
        )

    def _interfere(self, one: str, other: str) -> bool:
        return not (
            independent(self._own[one], self._held[other])
            and independent(self._held[one], self._own[other])
        )


class _FootprintReader:
    """Derives the footprints of a scenario's steps from their texts."""

    def __init__(self, scenario: Scenario, order: Order) -> None:
        self._scenario = scenario
        self._order = order
        publisher = scenario.topology.publisher
        self._also = set() if scenario.merges else {publisher}
        """Nodes at which a change takes effect immediately, besides its own node."""
        self._publishers = scenario.topology.publishers if scenario.merges else {}
        """In merge replication, the Publisher of each Subscriber."""
        self._groups = _groups(scenario)
        self.kept: dict[str, Footprint] = {}
        """Locks that are still held after each step; filled by `read`."""
        texts = (text for table in scenario.tables for text in _texts(scenario, table))
        self._commit_waits = scenario.topology.shipping == "lazy" or any(
            word.startswith("deferr") for text in texts for word in _words(text)
        )

    def may_wait(self, name: str) -> bool:
        """Return whether a step may have to wait for a lock."""
        step = self._scenario.steps[name][1]
        if step.action == "commit":
            return self._commit_waits
        return step.action not in ("begin", "rollback") and step.explain is None

    def read(self) -> tuple[dict[str, Footprint], dict[str, Footprint]]:
        """Return the footprint of each step, and the same with the locks that its transaction already held."""
        own: dict[str, Footprint] = {}
        held: dict[str, Footprint] = {}
        for session in self._scenario.sessions.values():
            so_far: Footprint | None = None
            for name, step in session.named_steps:
                own[name] = self._step(step, step.at or session.node, so_far)
                held[name] = own[name] | (so_far or NOTHING).locks
                if step.action == "begin":
                    so_far = NOTHING
                elif step.action in ("commit", "rollback"):
                    so_far = None
                elif so_far is not None:
                    so_far |= own[name]
                self.kept[name] = (so_far or NOTHING).locks
        return own, held

    def _step(self, step: Step, node: str, so_far: Footprint | None) -> Footprint:
        """Return the footprint of one step; `so_far` is that of its transaction, None outside one."""
        if step.action == "begin" or step.explain is not None:
            return NOTHING
        if step.action in ("commit", "rollback"):
            return self._end(node, so_far or NOTHING)
        # a merge session affects only two nodes
        if step.action == "sync" and node in self._publishers:
            return Footprint(all_of=frozenset((node, self._publishers[node])))
        if not step.statements or step.script is not None:
            return self._everything()
        result = NOTHING
        for text in step.statements:
            touched = self._statement(text, node)
            if touched is None:
                return self._everything()
            result |= touched
        return result | self._snapshot(node, result, so_far)

    def _statement(self, text: str, node: str) -> Footprint | None:
        if sqltext.verbs(text) <= {"savepoint", "release", "rollback"}:
            return NOTHING  # its transaction has held what it releases until now
        known = sqltext.tables(text, self._scenario.tables)
        if known is None:
            return None
        reads, writes = (self._joined(names) for names in known)
        nodes = {node} | self._also
        return Footprint(
            reads=frozenset((node, table) for table in reads),
            writes=frozenset((each, table) for each in nodes for table in writes),
        )

    def _snapshot(self, node: str, result: Footprint, so_far: Footprint | None) -> Footprint:
        """Return what a step reads implicitly above read committed.

        The first statement of a transaction takes its snapshot at its node, the first change its snapshot at the
        Publisher. A serialization failure may depend on anything that was read there.
        """
        level = self._scenario.level(self._order, node)
        if level == "read committed":
            return NOTHING
        before = so_far or NOTHING
        nodes = set()
        if level == "serializable" or not before.nodes:
            nodes.add(node)
        if result.writes and (level == "serializable" or not before.writes):
            nodes |= self._also
        return Footprint(reads=self._all(nodes))

    def _end(self, node: str, so_far: Footprint) -> Footprint:
        level = self._scenario.level(self._order, node)
        if level != "serializable":
            lazy = level != "read committed" and self._commit_waits and bool(so_far.writes)
            seen = self._all(self._also) if lazy else frozenset()
            return Footprint(reads=seen, writes=so_far.writes, all_of=so_far.all_of)
        return Footprint(writes=self._all(so_far.nodes), all_of=so_far.all_of)

    def _all(self, nodes: Iterable[str]) -> frozenset[Place]:
        return frozenset((node, table) for node in nodes for table in self._scenario.tables)

    def _everything(self) -> Footprint:
        return Footprint(all_of=frozenset(self._scenario.topology.nodes))

    def _joined(self, tables: Iterable[str]) -> frozenset[str]:
        return frozenset().union(*(self._groups[table] for table in tables))


def _groups(scenario: Scenario) -> Mapping[str, frozenset[str]]:
    """Return for each table the tables that a write of it may affect, through foreign keys, triggers and filters.

    All tables named in texts that create functions form one group: their functions may share a table that no text
    names.
    """
    groups = {table: frozenset((table,)) for table in scenario.tables}
    making: set[str] = set()
    together: list[set[str]] = []
    for table in scenario.tables:
        for text in _texts(scenario, table):
            named = {table, *_named(text, scenario)}
            together.append(named)
            if _MAKE.intersection(_words(text)):
                making |= named
    common = [*scenario.setup, *(t for each in scenario.sessions.values() for t in each.setup)]
    common += [text for each in scenario.subscribers.values() for text in each.sql]
    for text in common:
        named = _named(text, scenario)
        together.append(named)
        if _MAKE.intersection(_words(text)):
            making |= named
    for names in (*together, making):
        joined = frozenset().union(*(groups[name] for name in names))
        for name in joined:
            groups[name] = joined
    return groups


_MAKE = frozenset({"trigger", "function", "procedure", "rule", "view"})


def _texts(scenario: Scenario, name: str) -> Iterator[str]:
    """Yield every text that may define side effects of changes to a table's rows."""
    table = scenario.tables[name]
    yield from table.columns.values()
    yield from table.sql
    yield from table.procedures
    if table.filter is not None:
        yield table.filter
    for each in scenario.subscribers.values():
        if name in each.filter:
            yield each.filter[name]


@functools.cache
def _words(text: str) -> frozenset[str]:
    return frozenset(token.word for token in lexer.code(text) if token.word)


def _named(text: str, scenario: Scenario) -> set[str]:
    """Return the scenario's tables that a text names."""
    names = {token.name for token in lexer.code(text)}
    return names & scenario.tables.keys()
