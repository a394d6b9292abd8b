"""Conversion of an isolationtester spec to a scenario: one Publisher, plain sessions, and permutations as orders.

The scenario states how isolationtester behaves differently: no step is launched while its session is busy (`runner:
isolationtester`), and there is no lock timeout. A step that occurs twice in a permutation, or not in its session's
order, becomes two steps with the same SQL. A blocker, which delays the report that a step has completed, becomes a
`wait` before the next step of its session.
"""

from __future__ import annotations

import re
from collections import abc
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any

from twopc.sim.scenario.spec.grammar import Launch, Permutation, Spec, SpecBlock, SpecSession, parse
from twopc.sim.scenario.spec.layout import written
from twopc.sim.scenario.text import Document, Map, Mark, Number, Sequence

PUBLISHER = "pub"
#: Time limit of a step; isolationtester's own is six minutes.
STEP_LIMIT = "60s"
#: SQL of a step without any, which isolationtester accepts: this statement returns no columns.
_NOTHING = "select"


def document(text: str, path: str) -> Document:
    """Return the scenario for a spec, as if it had been read from a file.

    Each value has its place in the spec, so that a problem found later points into the spec. Errors of the spec
    itself are in the document's `problems`; the document has no root then.
    """
    result = Document(path=path, lines=text.splitlines())
    spec = parse(text, result)
    if not result.errors:
        result.root = _Converter(spec, path).scenario()
    return result


def yaml(text: str, path: str = "scenario.spec") -> str:
    """Return the scenario for a spec, as the text of a scenario file.

    Raises:
        ScenarioError: the spec is wrong; every error with its place.
    """
    return as_file(document(text, path))


def as_file(converted: Document) -> str:
    """Return the text of a scenario file, as `yaml` does, for a document made by `document`."""
    converted.raise_errors()
    assert converted.root is not None, "a document without errors has a root"
    return written(converted.root, comment=f"imported from {PurePath(converted.path).name}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SpecNames:
    """Names in a spec of the steps and sessions of its scenario."""

    steps: Mapping[str, str]
    """By name of a step in the scenario."""
    sessions: Mapping[str, str]
    """By name of a session in the scenario."""


def names(spec: Spec) -> SpecNames:
    """Return the names in `spec` of the steps and sessions of its scenario."""
    return _Converter(spec, "").names()


class _Converter:
    def __init__(self, spec: Spec, path: str) -> None:
        self._spec = spec
        self._path = path
        self._top = Mark(1, 1)
        self._asks_for_names = any(
            "application_name" in each.block.text for _, each in spec.steps.values()
        )
        self._step_names = _unique(spec.steps, "step")
        sessions = (each.name for each in spec.sessions)
        self._session_names = _unique(sessions, "session", others=self._step_names.values())
        taken = {*self._step_names.values(), *self._session_names.values()}
        self._places = {each.name: _Places.of(each, spec) for each in spec.sessions}
        self._own_names = {
            name: self._named(places.steps, taken) for name, places in self._places.items()
        }
        """For each session the scenario's names of its steps, including copies, in order."""

    def names(self) -> SpecNames:
        """Return the spec's names for the scenario's names."""
        steps = {
            own: step
            for session, places in self._places.items()
            for own, step in zip(self._own_names[session], places.steps, strict=True)
        }
        return SpecNames(
            steps=steps, sessions={own: name for name, own in self._session_names.items()}
        )

    def _named(self, steps: abc.Sequence[str], taken: set[str]) -> list[str]:
        seen: set[str] = set()
        names: list[str] = []
        for step in steps:
            own = self._step_names[step]
            names.append(_free(own, taken) if step in seen else own)
            seen.add(step)
        return names

    def scenario(self) -> Map:
        spec = self._spec
        made = Map(self._top)
        name = re.sub(r"[^\w.-]+", "-", PurePath(self._path).stem).strip("-") or "scenario"
        _put(made, "twopc", Number("1"), self._top)
        _put(made, "name", name, self._top)
        first = spec.sessions[0].mark
        _put(made, "about", self._about(), self._top)
        _put(made, "tags", _list([("imported", self._top)], self._top), self._top)
        timeouts = _flow(first, step=STEP_LIMIT, lock="0s")
        topology = _flow(
            first,
            publisher=PUBLISHER,
            subscribers=_list([], first),
            distribution="none",
            timeouts=timeouts,
        )
        _put(made, "topology", topology, first)
        _put(made, "runner", "isolationtester", first)
        if spec.setup:
            self._put_blocks(made, "setup", spec.setup)
        if spec.teardown is not None:
            self._put_blocks(made, "teardown", [spec.teardown])
        sessions = Map(first)
        for each in spec.sessions:
            _put(sessions, self._session_names[each.name], self._session(each), each.mark)
        _put(made, "sessions", sessions, first)
        orders = self._orders()
        _put(made, "orders", orders, orders.mark)
        _put(made, "expect", _flow(self._top, otherwise="any"), self._top)
        return made

    def _about(self) -> str:
        return (
            f"Imported from PostgreSQL's isolation tester, {PurePath(self._path).name}: all sessions work at "
            "the Publisher, in local transactions."
        )

    def _put_blocks(self, made: Map, key: str, blocks: Iterable[SpecBlock]) -> None:
        given = [(block.text or _NOTHING, block.mark) for block in blocks]
        value = given[0][0] if len(given) == 1 else _list(given, given[0][1])
        _put(made, key, value, given[0][1])

    def _session(self, session: SpecSession) -> Map:
        made = Map(session.mark)
        _put(made, "node", PUBLISHER, session.mark)
        _put(made, "plain", True, session.mark)
        blocks = [] if session.setup is None else [session.setup]
        if self._asks_for_names:
            name = f"isolation/{PurePath(self._path).stem}/{session.name}"
            text = f"set application_name = {_constant(name)}"
            blocks.insert(0, SpecBlock(printed=text, mark=session.mark))
        if blocks:
            self._put_blocks(made, "setup", blocks)
        steps = Sequence(session.mark)
        names = self._own_names[session.name]
        for name, own in zip(self._places[session.name].steps, names, strict=True):
            step = self._spec.steps[name][1]
            script = _flow(step.block.mark, script=step.block.text or _NOTHING)
            item = Map(step.mark)
            _put(item, own, script, step.mark, value_mark=step.block.mark)
            steps.append(item)
            steps.items_at.append(step.mark)
        _put(made, "steps", steps, session.steps[0].mark)
        if session.teardown is not None:
            self._put_blocks(made, "teardown", [session.teardown])
        return made

    # -- orders ------------------------------------------------------------------------------------

    def _orders(self) -> Sequence:
        if not self._spec.permutations:
            mark = self._spec.sessions[0].mark
            every = Map(mark)
            _put(every, "name", "every order", mark)
            _put(every, "generate", _flow(mark, limit="none", reduce="none"), mark)
            return _list([(every, mark)], mark)
        return _list(
            [
                (self._order(number, each), each.mark)
                for number, each in enumerate(self._spec.permutations)
            ],
            self._spec.permutations[0].mark,
        )

    def _order(self, number: int, permutation: Permutation) -> Map:
        made = Map(permutation.mark)
        _put(made, "name", f"permutation {number + 1}", permutation.mark)
        about = " ".join(permutation.comments).strip()
        if about:
            _put(made, "about", about, permutation.mark)
        items = _list(list(self._items(number, permutation)), permutation.mark)
        _put(made, "steps", items, permutation.mark)
        return made

    def _items(self, number: int, permutation: Permutation) -> Iterator[tuple[Any, Mark]]:
        """Yield the items of the order for the permutation at index `number`."""
        next_of = {name: iter(each.chosen[number]) for name, each in self._places.items()}
        names: dict[str, str] = {}
        """The scenario's name of each step at its first place in this permutation."""
        own = [self._own_name(launch.step, next_of) for launch in permutation.launches]
        for launch, name in zip(permutation.launches, own, strict=True):
            names.setdefault(launch.step, name)
        last: dict[str, Launch] = {}
        for launch, name in zip(permutation.launches, own, strict=True):
            session = self._spec.steps[launch.step][0]
            if session.name in last:
                yield from self._held_back(last[session.name], names)
            yield name, launch.mark
            last[session.name] = launch
        for launch in last.values():
            for blocker in launch.blockers:
                if blocker.kind == "notices":
                    yield _wait(f"{names[blocker.step]} notices {blocker.notices}", blocker.mark)

    def _own_name(self, step: str, next_of: dict[str, Iterator[int]]) -> str:
        session = self._spec.steps[step][0].name
        return self._own_names[session][next(next_of[session])]

    @staticmethod
    def _held_back(launch: Launch, names: dict[str, str]) -> Iterator[tuple[Map, Mark]]:
        """Yield the waits that a session needs, besides the end of its last step, before its next step."""
        for blocker in launch.blockers:
            if blocker.kind == "other":
                yield _wait(f"{names[blocker.step]} done", blocker.mark)
            elif blocker.kind == "notices":
                yield _wait(f"{names[blocker.step]} notices {blocker.notices}", blocker.mark)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Places:
    """A session's steps, repeated as often as needed for every permutation to use them in its own order."""

    steps: abc.Sequence[str]
    chosen: abc.Sequence[abc.Sequence[int]]
    """For each permutation, the indexes in `steps` of the steps of this session."""

    @classmethod
    def of(cls, session: SpecSession, spec: Spec) -> _Places:
        """Return the shorter of two lists of places: one that begins with the spec's own steps, and one that begins
        empty.
        """
        own = [step.name for step in session.steps]
        if not spec.permutations:
            return cls(steps=own, chosen=())
        requested = [
            [each.step for each in one.launches if each.step in own] for one in spec.permutations
        ]
        results = [cls._taken(start, requested) for start in (own, [])]
        best = min(results, key=lambda each: len(each.steps))
        unused = [name for name in own if name not in best.steps]
        return cls(steps=[*best.steps, *unused], chosen=best.chosen)

    @classmethod
    def _taken(cls, start: list[str], requested: abc.Sequence[abc.Sequence[str]]) -> _Places:
        steps = list(start)
        chosen: list[list[int]] = []
        for sequence in requested:
            at = 0
            places: list[int] = []
            for name in sequence:
                if name not in steps[at:]:
                    steps.append(name)
                at = steps.index(name, at) + 1
                places.append(at - 1)
            chosen.append(places)
        used = sorted({place for places in chosen for place in places})
        new = {place: number for number, place in enumerate(used)}
        return cls(
            steps=[steps[place] for place in used],
            chosen=[[new[place] for place in places] for places in chosen],
        )


def _wait(text: str, mark: Mark) -> tuple[Map, Mark]:
    return _flow(mark, wait=text), mark


def _flow(mark: Mark, **values: Any) -> Map:
    """Return a mapping in braces whose keys and values are all at `mark`."""
    made = Map(mark, flow=True)
    for key, value in values.items():
        _put(made, key, value, mark)
    return made


def _put(made: Map, key: str, value: Any, mark: Mark, *, value_mark: Mark | None = None) -> None:
    made.keys_at[key] = mark
    made.values_at[key] = value_mark or mark
    made[key] = value


def _list(items: Iterable[tuple[Any, Mark]], mark: Mark) -> Sequence:
    made = Sequence(mark)
    for value, at in items:
        made.append(value)
        made.items_at.append(at)
    return made


def _constant(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _unique(names: Iterable[str], otherwise: str, others: Iterable[str] = ()) -> dict[str, str]:
    """Return for each name a different one of letters, digits, '_', '.' and '-' that is not in `others`."""
    given = list(dict.fromkeys(names))
    taken = {name for name in given if re.fullmatch(r"[\w.-]+", name)} - {*others}
    results = {name: name for name in taken}
    taken |= {*others}
    for name in given:
        if name not in results:
            plain = re.sub(r"[^\w.-]+", "_", name).strip("_") or otherwise
            results[name] = plain if plain not in taken else _free(plain, taken)
            taken.add(results[name])
    return results


def _free(name: str, taken: set[str]) -> str:
    """Return `name` with the first number that makes it unique, and add the result to `taken`."""
    number = 2
    while f"{name}_{number}" in taken:
        number += 1
    taken.add(f"{name}_{number}")
    return f"{name}_{number}"
