"""Judges one played order: what the scenario expects against what the history says.

Pure: a scenario and records in, failures with their places out. The runner does not know of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from sim.checkers import CHECKERS
from sim.report.history import ENDS, Record
from sim.report.words import rows_text
from sim.scenario.compare import (
    failure_kind,
    holder,
    in_short,
    matches,
    only,
    row_equal,
    told,
    wanted_text,
)
from sim.scenario.expectations import EVERYWHERE, NodeRows, StepExpect
from sim.scenario.model import Order, Scenario, sync_name

Path = tuple[str | int, ...]
#: What can be wrong with an order, the worst first.
FAILURE_KINDS = ("safety", "liveness", "unknown")


@dataclass(frozen=True, slots=True, kw_only=True)
class Failure:
    """Something that was expected and is not so."""

    path: Path
    """Where in the file it was expected."""
    message: str
    kind: str = "safety"
    """One of `FAILURE_KINDS`; "unknown": something is in doubt, so nobody can tell."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OrderVerdict:
    """What became of one order."""

    name: str
    failures: tuple[Failure, ...]
    elapsed_us: int
    """From its first step to its last; setting up is not counted."""
    notes: tuple[str, ...] = ()
    """What was remarkable about it: waits and refusals."""

    @property
    def kind(self) -> str:
        """The worst kind of failure; empty if it passed."""
        kinds = {failure.kind for failure in self.failures}
        return next((kind for kind in FAILURE_KINDS if kind in kinds), "")


@dataclass(slots=True)
class _StepRun:
    """What the history says of one step."""

    invoked: int = -1
    ended: Record | None = None
    blocked: list[Record] = field(default_factory=list)


def judge(scenario: Scenario, order: Order, records: Sequence[Record]) -> OrderVerdict:
    """Compare one order's records with everything that is expected of it."""
    judging = _Judging(scenario, order, records)
    failures = [
        *judging.hangs(),
        *judging.steps(),
        *judging.waits(),
        *judging.sessions(),
        *judging.tables(),
        *judging.invariants(),
    ]
    playing = [record.t_us for record in records if record.session]
    return OrderVerdict(
        name=order.name,
        failures=tuple(failures),
        elapsed_us=playing[-1] - playing[0] if playing else 0,
        notes=tuple(judging.notes()),
    )


#: Invariants whose expectation is a number, and what is said where there is none.
_COUNTED = {"prepared_left": "nothing is prepared", "echoed": "nothing came back"}


class _Judging:
    def __init__(self, scenario: Scenario, order: Order, records: Sequence[Record]) -> None:
        self._scenario = scenario
        self._order = order
        self._at: Path = ("orders", scenario.orders.index(order))
        self._records = records
        self._runs: dict[str, _StepRun] = {}
        for record in records:
            run = self._runs.setdefault(record.step, _StepRun())
            if record.kind == "invoke":
                run.invoked = record.seq
            elif record.kind == "blocked":
                run.blocked.append(record)
            elif record.kind in ENDS:
                run.ended = record

    # -- steps -------------------------------------------------------------------------------------

    def hangs(self) -> Iterator[Failure]:
        for record in self._records:
            if record.kind == "stuck":
                yield self._failure(
                    self._item(record.step), f"it cannot go on: {record.message}", "liveness"
                )

    def steps(self) -> Iterator[Failure]:
        stuck = any(record.kind in ("stuck", "timed_out") for record in self._records)
        syncs = 0
        for place, item in enumerate(self._order.steps):
            if item.sync is not None:
                syncs += 1
                yield from self._sync(sync_name(syncs), place)
            if item.step is None:
                continue
            run = self._runs.get(item.step, _StepRun())
            path, expected = self._expected_of(item.step, place)
            if run.ended is None:
                if not stuck:
                    yield self._failure(path, f"{item.step} did not end", "liveness")
                continue
            yield from self._step(item.step, run, path, expected)

    def _sync(self, name: str, place: int) -> Iterator[Failure]:
        """An order's own sync must go well; one that may fail is a session's step."""
        ended = self._runs.get(name, _StepRun()).ended
        if ended is not None and ended.kind != "ok":
            message = f"sync: expected ok, got {told(ended)}"
            yield self._failure((*self._at, "steps", place), message, failure_kind(ended))

    def _expected_of(self, step: str, place: int) -> tuple[Path, StepExpect | None]:
        if step in self._order.expect.steps:
            return (*self._at, "expect", "steps", step), self._order.expect.steps[step]
        if step in self._scenario.expect.steps:
            return ("expect", "steps", step), self._scenario.expect.steps[step]
        return (*self._at, "steps", place), None

    def _step(
        self, name: str, run: _StepRun, path: Path, expected: StepExpect | None
    ) -> Iterator[Failure]:
        ended = run.ended
        assert ended is not None
        if expected is None:
            if ended.kind not in ("ok", "explain", "rolled_back", "skipped"):
                yield self._failure(
                    path, f"{name}: expected ok, got {told(ended)}", failure_kind(ended)
                )
        else:
            if expected.blocked_by is not None:
                yield from self._blocked_by(name, run, path, expected.blocked_by)
            final = expected.final
            final_path = (*path, "then") if expected.then is not None else path
            if not matches(final, ended):
                yield self._failure(
                    final_path,
                    f"{name}: expected {wanted_text(final)}, got {told(ended)}",
                    failure_kind(ended),
                )
            elif final.rowcount is not None and final.rowcount != ended.rowcount:
                yield self._failure(
                    (*final_path, "rowcount"),
                    f"{name}: expected {final.rowcount} rows, got {ended.rowcount}",
                )
            elif final.delivered is not None and final.delivered != self._delivered(run):
                yield self._failure(
                    (*final_path, "delivered"),
                    f"{name}: expected {final.delivered} transactions, got {self._delivered(run)}",
                )
            elif final.rows is not None:
                yield from self._rows(name, ended, (*final_path, "rows"), final.rows)
        session, step = self._scenario.steps[name]
        if step.rows is not None and ended.kind == "ok":
            steps = list(self._scenario.sessions[session].named_steps)
            place = [each for each, _ in steps].index(name)
            at: Path = ("sessions", session, "steps", place, name, "rows")
            yield from self._rows(name, ended, at, step.rows)

    def _delivered(self, run: _StepRun) -> int:
        """How many transactions a sync has brought."""
        assert run.ended is not None
        return sum(
            record.kind == "deliver" and run.invoked < record.seq < run.ended.seq
            for record in self._records
        )

    def _rows(
        self, name: str, ended: Record, path: Path, expected: Sequence[Mapping[str, Any]]
    ) -> Iterator[Failure]:
        got = ended.rows or ()
        same = len(got) == len(expected) and all(
            row_equal(want, row) for want, row in zip(expected, got, strict=True)
        )
        if not same:
            message = f"{name}: expected rows {rows_text(expected)}, got {rows_text(got)}"
            yield self._failure(path, message)

    def _blocked_by(self, name: str, run: _StepRun, path: Path, by: str) -> Iterator[Failure]:
        session = self._scenario.steps[by][0] if by in self._scenario.steps else by
        started = self._runs.get(by, _StepRun()).invoked
        for record in run.blocked:
            before = by == session or 0 <= started < record.seq
            if before and (record.wait or {}).get("session") == session:
                return
        first: dict[str, Record] = {}
        for record in run.blocked:
            first.setdefault(str((record.wait or {}).get("session")), record)
        got = " and ".join(f"blocked by {holder(each)}" for each in first.values())
        got = got or "not blocked"
        yield self._failure((*path, "blocked_by"), f"{name}: expected blocked by {by}, got {got}")

    def waits(self) -> Iterator[Failure]:
        answers = [record for record in self._records if record.kind == "waited"]
        places = [place for place, item in enumerate(self._order.steps) if item.wait is not None]
        for place, record in zip(places, answers, strict=False):
            item = self._order.steps[place]
            if not item.waits_for_end and not (record.data or {}).get("blocked"):
                yield self._failure(
                    (*self._at, "steps", place), f"{item.waited} is not blocked at this point"
                )

    # -- sessions, tables, invariants --------------------------------------------------------------

    def sessions(self) -> Iterator[Failure]:
        outcomes = {
            record.session: record.message for record in self._records if record.kind == "outcome"
        }
        for path, wanted in self._merged("sessions").values():
            name = str(path[-1])
            got = outcomes.get(name, "none")
            if got != wanted:
                kind = "unknown" if got == "in doubt" else "safety"
                yield self._failure(path, f"{name}: expected {wanted}, got {got}", kind)
        for name, got in outcomes.items():
            if got == "in doubt" and name not in self._merged("sessions"):
                yield self._failure((*self._at, "name"), f"{name} ended in doubt", "unknown")

    def tables(self) -> Iterator[Failure]:
        final = {
            (record.node, (record.data or {})["table"]): record
            for record in self._records
            if record.kind == "state" and (record.data or {})["moment"] == "final"
        }
        if not final:
            return  # the order did not get so far, which has been said
        for source, at in ((self._scenario.expect, ()), (self._order.expect, self._at)):
            for table, nodes in source.tables.items():
                for name, expected in nodes.items():
                    own = self._order.expect.tables.get(table, {})
                    if source is self._scenario.expect and (name in own or EVERYWHERE in own):
                        continue
                    path: Path = (*at, "expect", "tables", table, name)
                    meant = list(self._meant(name, nodes, expected))
                    yield from self._at_once(path, table, meant, expected, final)

    def _at_once(
        self,
        path: Path,
        table: str,
        nodes: Sequence[str],
        expected: NodeRows,
        final: Mapping[tuple[str, str], Record],
    ) -> Iterator[Failure]:
        """What is wrong with a table at several nodes; said once of those where it is the same."""
        where: dict[str, list[str]] = {}
        for node in nodes:
            for failure in self._table(path, table, node, expected, final):
                said = failure.message.removeprefix(f"{table} at {node}")
                where.setdefault(said, []).append(node)
        for said, at in where.items():
            yield self._failure(path, f"{table} at {', '.join(at)}{said}")

    def _meant(self, name: str, nodes: Mapping[str, NodeRows], expected: NodeRows) -> Iterator[str]:
        """The nodes that an expectation is about: of `everywhere` those that have no other."""
        if name != EVERYWHERE:
            yield name
            return
        for node in self._scenario.topology.nodes:
            if node not in nodes and node != expected.same_as:
                yield node

    def _table(
        self,
        path: Path,
        table: str,
        node: str,
        expected: NodeRows,
        final: Mapping[tuple[str, str], Record],
    ) -> Iterator[Failure]:
        got = final[node, table]
        rows = list(got.rows or ())
        if got.rowcount != len(rows):
            message = f"{table} at {node} has {got.rowcount} rows, too many to compare"
            yield self._failure(path, message)
        elif expected.same_as is not None:
            other = list(final[expected.same_as, table].rows or ())
            if rows != other:
                want, have = rows_text(other), rows_text(rows)
                differ = "other row versions" if want == have else have
                yield self._failure(
                    path,
                    f"{table} at {node}: expected the same as at {expected.same_as}: {want}, "
                    f"got {differ}",
                )
        else:
            yield from self._table_rows(path, f"{table} at {node}", expected.rows or (), rows)

    def _table_rows(
        self,
        path: Path,
        where: str,
        expected: Sequence[Mapping[str, Any]],
        got: list[Mapping[str, Any]],
    ) -> Iterator[Failure]:
        left = list(got)
        missing = []
        for row in expected:
            found = next((each for each in left if row_equal(row, each)), None)
            if found is None:
                missing.append(row)
            else:
                left.remove(found)
        if missing or left:
            named = list(expected[0]) if expected else None
            shown = [only(row, named) for row in left]
            yield self._failure(
                path, f"{where}: expected {rows_text(missing)}, got {rows_text(shown)}"
            )

    def invariants(self) -> Iterator[Failure]:
        for name, checker in CHECKERS.items():
            if name in ("converged", "echoed") and not self._scenario.distributes:
                continue
            path, wanted = self._invariant(name)
            if wanted is False:
                continue
            broken = checker(self._records)
            if name in _COUNTED:
                if len(broken) == (wanted or 0):
                    continue
                broken = broken or [f"{_COUNTED[name]}, but {wanted} was expected"]
            in_doubt = any(record.kind == "in_doubt" for record in self._records)
            for message in broken:
                kind = "unknown" if in_doubt and name == "prepared_left" else "safety"
                yield self._failure(path, f"{name}: {message}", kind)

    def _invariant(self, name: str) -> tuple[Path, Any]:
        for source, at in ((self._order.expect, self._at), (self._scenario.expect, ())):
            value = getattr(source, name)
            if value is not None:
                return (*at, "expect", name), value
        return (*self._at, "name"), None

    def _merged(self, word: str) -> dict[str, tuple[Path, Any]]:
        found: dict[str, tuple[Path, Any]] = {}
        for source, at in ((self._scenario.expect, ()), (self._order.expect, self._at)):
            for name, value in getattr(source, word).items():
                found[name] = ((*at, "expect", word, name), value)
        return found

    # -- words -------------------------------------------------------------------------------------

    def notes(self) -> Iterator[str]:
        for name, run in self._runs.items():
            if not name:
                continue
            said = [f"waited for {holder(each)}" for each in run.blocked[:1]]
            if run.ended is not None and run.ended.kind not in (
                "ok",
                "explain",
                "skipped",
                "rolled_back",
            ):
                said.append(in_short(told(run.ended)))
            if said:
                yield f"{name} {', '.join(said)}"

    def _item(self, step: str) -> Path:
        for place, item in enumerate(self._order.steps):
            if item.step == step:
                return (*self._at, "steps", place)
        return (*self._at, "name")

    def _failure(self, path: Path, message: str, kind: str = "safety") -> Failure:
        return Failure(path=path, message=message, kind=kind)
