"""A history in Elle's format: transactions over lists or registers, one operation a line.

Elle (Kingsbury, Alvaro 2020) finds anomalies in what clients have seen, without knowledge of the implementation.
Each row is a key and each of its versions an element, named by the row's version column. The writes of a
transaction are its changes at the Publisher; its reads of those rows are the versions that its node had at the
time. This module knows no database and no scenario file.

docs/elle.md says what is promised of such a history.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from twopc.names import VERSION_COLUMN
from twopc.sim.report.events import StepSuccess, TableLook
from twopc.sim.report.fold import Fold
from twopc.sim.report.history import HistoryRecord
from twopc.sim.report.recorded_orders import played
from twopc.sim.report.transactions import Author

#: Elle's names for the outcomes.
Form = Literal["list-append", "rw-register"]
FORMS: Final[tuple[Form, ...]] = ("list-append", "rw-register")

_KINDS: Final = {"committed": "ok", "rolled back": "fail", "in doubt": "info"}
#: Process of the initial rows.
_FIRST: Final = 0


@dataclass(slots=True)
class Operation:
    """A transaction, with the records at which it began and ended."""

    process: int
    begun: int
    over: int = 0
    kind: str = "info"
    """``ok``, ``fail``, or ``info`` if the outcome is unknown."""
    reads: dict[str, int | None] = field(default_factory=dict)
    """Number of the version read, by key; None if there was no such row."""
    writes: dict[str, int] = field(default_factory=dict)


class ElleOrder:
    """The transactions of one order."""

    def __init__(self, name: str, fold: Fold) -> None:
        self._name = name
        self._fold = fold
        self._publisher = (*fold.nodes, "")[0]
        self._processes: dict[str, int] = {}
        self._next = _FIRST + 1
        self._open: dict[str, Operation] = {}
        self._of: dict[Author, Operation] = {}
        self._copies: dict[str, dict[str, int]] = {}
        """The version of each row at the last look, by node."""
        self._places: dict[str, tuple[str, str]] = {}
        """Table and row, by key."""
        self._numbers: dict[tuple[str, str], int] = {}
        self.versions: dict[str, list[int]] = {}
        """The versions of each key, in the order in which the Publisher had them."""
        self.operations: list[Operation] = []

    def read(self) -> list[Operation]:
        """Return all operations, in the order of their beginning."""
        begun = {one.begun: one for one in self._fold.transactions}
        over = {one.seq: one for one in self._fold.transactions}
        for event in self._fold.events:
            if isinstance(event, TableLook):
                self._look(event)
            elif event.seq in begun:
                self._begin(begun[event.seq])
            elif event.session in self._open:
                if isinstance(event, StepSuccess) and event.tag != "COMMIT":
                    # a statement that waited saw the versions after its wait
                    seen = self._copies.get(event.node, {})
                    self._open[event.session].reads.update(seen)
                if event.seq in over:
                    self._end(over[event.seq])
        return self.operations

    # -- transactions ------------------------------------------------------------------------------

    def _begin(self, author: Author) -> None:
        kind = _KINDS[author.outcome]
        operation = Operation(self._process(author.session), author.begun, author.seq, kind)
        self._open[author.session] = self._of[author] = operation
        self.operations.append(operation)

    def _end(self, author: Author) -> None:
        self._open.pop(author.session, None)
        if author.outcome == "in doubt":
            # in Elle a process ends with an unknown outcome
            self._processes.pop(author.session, None)

    def _process(self, session: str) -> int:
        result = self._processes.get(session)
        if result is None:
            result = self._processes[session] = self._next
            self._next += 1
        return result

    # -- rows --------------------------------------------------------------------------------------

    def _look(self, look: TableLook) -> None:
        """Process a look at a table: writes at the Publisher, reads at other nodes."""
        key, table = look.key, look.table
        rows = [row for row in look.rows if VERSION_COLUMN in row and key]
        prefix = f"{self._name}/{table}/"
        now = {}
        for row in rows:
            name = prefix + "/".join(str(row[one]) for one in key)
            now[name] = str(row[VERSION_COLUMN])
            self._places[name] = table, ", ".join(f"{one}={row[one]}" for one in key)
        before = self._copies.setdefault(look.node, {})
        gone = [one for one in before if one.startswith(prefix) and one not in now]
        is_all = not look.rows or len(look.rows) == look.rowcount
        if look.node == self._publisher:
            self._written(look, now, gone if is_all else [])
            return
        for name, version in now.items():
            number = self._number(name, version)
            if before.get(name) != number:
                before[name] = number
                process = self._process(f"copies at {look.node}")
                seen = Operation(process, look.seq, look.seq, "ok", reads={name: number})
                self.operations.append(seen)
        for name in gone if is_all else ():
            del before[name]

    def _written(self, look: TableLook, now: Mapping[str, str], gone: Sequence[str]) -> None:
        copy = self._copies[look.node]
        makers = {
            (each.table, each.key): each.author for each in self._fold.changes.seen_at(look.seq)
        }
        wrote: dict[str, int] = {}
        for name, version in now.items():
            number = self._number(name, version)
            if copy.get(name) != number:
                wrote[name] = copy[name] = number
        for name in gone:
            del copy[name]
            wrote[name] = self._number(name, f"gone at {look.seq}")
        for name, number in wrote.items():
            self.versions.setdefault(name, []).append(number)
        for name, number in wrote.items():
            self._writer(look, makers.get(self._places[name])).writes[name] = number

    def _writer(self, look: TableLook, author: Author | None) -> Operation:
        """Return the operation that wrote a version; without a known transaction, one of the initial process."""
        result = self._of.get(author) if author is not None else None
        if result is None:
            last = self.operations[-1] if self.operations else None
            if last is not None and (last.process, last.begun) == (_FIRST, look.seq):
                return last
            result = Operation(_FIRST, look.seq, look.seq, "ok")
            self.operations.append(result)
        return result

    def _number(self, name: str, version: str) -> int:
        """Return the number of a row's version, in the order of appearance."""
        result = self._numbers.get((name, version))
        if result is None:
            result = sum(1 for other, _ in self._numbers if other == name) + 1
            self._numbers[name, version] = result
        return result


def operations(
    records: Sequence[HistoryRecord], form: Form = "list-append"
) -> Iterator[dict[str, Any]]:
    """Yield Elle's operations of a run in order of time, each at its beginning and at its end.

    Orders are separate: each has keys and processes of its own.
    """
    lines: list[tuple[int, int, int, dict[str, Any]]] = []
    first = 0
    for each in played(records):
        order = ElleOrder(each.name, each.fold)
        result = order.read()
        for place, one in enumerate(result):
            process = first + one.process
            for turn, kind, at in ((0, "invoke", one.begun), (1, one.kind, one.over)):
                value = _value(one, order, form, known=kind == "ok")
                if value:
                    texts = {"type": kind, "f": "txn", "value": value, "process": process}
                    lines.append((at, place, turn, texts))
        first += 1 + max((one.process for one in result), default=0)
    lines.sort(key=lambda line: line[:3])
    for index, (_, _, _, texts) in enumerate(lines):
        yield texts | {"index": index}


def _value(one: Operation, order: ElleOrder, form: Form, *, known: bool) -> list[list[Any]]:
    """Return an operation's reads and writes; of a writing transaction only the reads of rows that it wrote."""
    looked = [*one.writes] if one.writes or one.process == _FIRST else [*one.reads]
    if not one.writes and one.begun != one.over:
        return []  # its reads are unknown
    results: list[list[Any]] = []
    if one.process != _FIRST:
        for name in looked:
            number = one.reads.get(name)
            results.append(["r", name, _seen(order, name, number, form) if known else None])
    word = "append" if form == "list-append" else "w"
    results += [[word, name, number] for name, number in one.writes.items()]
    return results


def _seen(order: ElleOrder, name: str, number: int | None, form: Form) -> int | list[int] | None:
    if form == "rw-register":
        return number
    every = order.versions.get(name, [])
    if number is None:
        return []
    return every[: every.index(number) + 1] if number in every else [*every, number]


def as_elle(records: Sequence[HistoryRecord], form: Form = "list-append") -> str:
    """Return the operations as lines of JSON, which elle-cli reads."""
    made = operations(records, form)
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in made)


def as_edn(records: Sequence[HistoryRecord], form: Form = "list-append") -> str:
    """Return the operations in Clojure's notation, which Elle reads."""
    return "".join(_edn(one) + "\n" for one in operations(records, form))


def _edn(value: Any, *, name: bool = False) -> str:
    if isinstance(value, dict):
        pairs = [f":{key} {_edn(one, name=key in ('type', 'f'))}" for key, one in value.items()]
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        first = bool(value) and value[0] in ("r", "w", "append")
        return (
            "[" + " ".join(_edn(one, name=first and not at) for at, one in enumerate(value)) + "]"
        )
    if value is None:
        return "nil"
    return f":{value}" if name else json.dumps(value, ensure_ascii=False)
