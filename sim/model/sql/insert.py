"""INSERT, with ON CONFLICT.

Rows are checked and stored by `twopc.sim.model.node.rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twopc.sim.model.node import constraints, rows
from twopc.sim.model.node.after_triggers import after_statement
from twopc.sim.model.node.heap import HeapRow, HeapTable, Index
from twopc.sim.model.node.modes import NO_KEY_UPDATE, ROW_EXCLUSIVE, UPDATE
from twopc.sim.model.node.row_locks import take
from twopc.sim.model.node.triggers import RowEvent, before_statement
from twopc.sim.model.sql.bind import Context, Fn, FromSource, Rows, Scope
from twopc.sim.model.sql.expressions import compiled, truth
from twopc.sim.model.sql.parse import construct, kind, rendered
from twopc.sim.model.sql.select import Plan, Query
from twopc.sim.model.sql.write import Assignments, Returning, is_default, result, target
from twopc.sim.model.values import SqlError, StatementResult, Steps, UnsupportedError, Values


class _Conflict:
    """The compiled ON CONFLICT clause."""

    def __init__(self, node: Any, source: FromSource, plans: Any) -> None:
        self.table: HeapTable = source.table
        self.scope = Scope(plans)
        self.scope.add(source)
        excluded = FromSource("excluded", source.names, source.types)
        self.scope.add(excluded)
        keys = [
            one.this.name if kind(one) == "Ordered" else one.name
            for one in node.args.get("conflict_keys") or ()
        ]
        constraint = node.args.get("constraint")
        self.does_update = "UPDATE" in str(node.args["action"]).upper()
        self.arbiters = self._arbiters(keys, constraint)
        self.where: Callable[[Rows, Context], bool] | None = None
        self.assignments: Assignments | None = None
        if self.does_update:
            self.assignments = Assignments(node.expressions, source, self.scope, plans)
            where = node.args.get("where")
            self.where = truth(where.this, self.scope) if where is not None else None

    def _arbiters(self, keys: list[str], constraint: Any) -> list[Index]:
        indexes = self.table.indexes
        if constraint is not None:
            indexes = [index for index in indexes if index.name == constraint.name]
            missing = SqlError("42704", f'constraint "{constraint.name}" does not exist')
        elif keys:
            requested = {self.table.at.get(key) for key in keys}
            indexes = [
                index for index in indexes if set(index.places) == requested and index.where is None
            ]
            missing = SqlError(
                "42P10",
                "there is no unique or exclusion constraint matching the ON CONFLICT specification",
            )
        else:
            return indexes
        if not indexes:
            raise missing
        if any(index.deferrable for index in indexes):
            raise SqlError(
                "55000",
                "ON CONFLICT does not support deferrable unique constraints/exclusion constraints as arbiters",
            )
        return indexes

    def met(self, tx: Any, new: Values) -> Steps[HeapRow | None]:
        """Return the existing row that conflicts with a new one; waits for transactions whose row may conflict."""
        for index in self.arbiters:
            while True:
                other = constraints.meets(tx, index, new, None)
                if other is None:
                    break
                if isinstance(other, HeapRow):
                    return other
                tx.assign()
                yield from tx.locks.xact(tx.session, tx.sub, other, self.table)
        return None


def plan_insert(node: Any, plans: Any) -> Plan:
    """Compile an INSERT."""
    source = target(node.this, plans)
    table: HeapTable = source.table
    places = _columns(node, source)
    rows_of = _input(node, plans, places, table)
    scope = Scope(plans)
    scope.add(source)
    returning = Returning(node.args.get("returning"), scope)
    results = node.args.get("conflict")
    conflict = _Conflict(results, source, plans) if results is not None else None

    def run(tx: Any, params: Mapping[str, Any], variables: Any = None) -> Steps[StatementResult]:
        if not tx.locks.try_table(tx.top, table, ROW_EXCLUSIVE):
            yield from tx.lock_table(table, ROW_EXCLUSIVE)
        c = Context(tx, params, variables)
        snap = c.snap = tx.statement()
        events: list[RowEvent] = []
        made: list[Values] = []
        count = 0
        updates = conflict is not None and conflict.does_update
        if table.triggers:
            yield from before_statement(tx, table, "ins")
            if updates:
                yield from before_statement(tx, table, "upd")
        for new in rows_of(c):
            if conflict is None:
                stored = yield from rows.insert(tx, table, new, snap, events)
            else:
                stored = yield from _upsert(tx, table, new, c, conflict, events)
            if stored is not None:
                count += 1
                if returning.is_given:
                    made.append(returning.row((stored,), c))
        if events or table.fires_by_statement:
            yield from after_statement(tx, table, "ins", events, updates=updates)
        return result("INSERT", count, returning, made)

    return run


def _upsert(
    tx: Any, table: HeapTable, new: Values, c: Context, conflict: _Conflict, events: list[RowEvent]
) -> Steps[Values | None]:
    snap = c.snap
    while True:
        blocked: list[tuple[HeapRow, Values]] = []

        def arbiter(values: Values, blocked: list[tuple[HeapRow, Values]] = blocked) -> Steps[bool]:
            row = yield from conflict.met(tx, values)
            if row is None:
                return True
            blocked.append((row, values))
            return False

        stored = yield from rows.insert(tx, table, new, snap, events, arbiter)
        if not blocked:
            return stored
        row, proposed = blocked[0]
        strict = tx.top.snapshot is not None
        newest = row.versions[-1]
        if strict and newest.xmin.top is not tx.top and snap.version(row) is not newest:
            raise SqlError("40001", "could not serialize access due to concurrent update")
        if not conflict.does_update:
            return None
        done, changed = yield from _update_instead(tx, table, row, proposed, c, conflict, events)
        if done:
            return changed


def _update_instead(
    tx: Any, table: HeapTable, row: HeapRow, proposed: Values, c: Context, conflict: _Conflict,
    events: list[RowEvent],
) -> Steps[tuple[bool, Values | None]]:  # fmt: skip
    snap = c.snap
    assert conflict.assignments is not None
    assignments = conflict.assignments
    newest = row.versions[-1]
    if newest.xmin.top is tx.top and newest.cmin >= snap.cid:
        raise SqlError(
            "21000",
            "ON CONFLICT DO UPDATE command cannot affect row a second time",
            hint="Ensure that no rows proposed for insertion within the same command have duplicate constrained values.",
        )
    first = assignments.apply(newest.values, (newest.values, proposed), c)
    keys = any(newest.values[place] != first[place] for place in table.key_places)
    got = yield from take(tx, row, newest, UPDATE if keys else NO_KEY_UPDATE, snap)
    if got is None or not any(
        index.key(got.values) == index.key(proposed) for index in conflict.arbiters
    ):
        return False, None  # the row has been deleted or changed meanwhile: insert again
    if conflict.where is not None and not conflict.where((got.values, proposed), c):
        return True, None
    changed = yield from rows.update(
        tx, table, row, got, snap,
        lambda values: assignments.apply(values, (values, proposed), c),
        lambda values: True, events,
    )  # fmt: skip
    return True, changed[1] if changed is not None else None


def _columns(node: Any, source: FromSource) -> list[int]:
    if kind(node.this) != "Schema":
        return [source.at[name] for name in source.shown]
    places = []
    for one in node.this.expressions:
        place = source.at.get(one.name)
        if place is None:
            raise SqlError(
                "42703",
                f'column "{one.name}" of relation "{constraints.bare(source.table)}" does not exist',
            )
        places.append(place)
    return places


def _input(
    node: Any, plans: Any, places: list[int], table: HeapTable
) -> Callable[[Context], list[Values]]:
    values = node.expression
    if values is None:
        if not node.args.get("default"):
            raise UnsupportedError(rendered(node), "this form of INSERT")
        return lambda c: [_row(plans, table, [], [], c)]
    if kind(values) in ("Values", "Table") and values.expressions and kind(values) == "Values":
        scope = Scope(plans)
        lists = []
        for one in values.expressions:
            items = one.expressions if kind(one) == "Tuple" else [one]
            if len(items) > len(places):
                raise SqlError("42601", "INSERT has more expressions than target columns")
            if kind(node.this) == "Schema" and len(items) < len(places):
                raise SqlError("42601", "INSERT has more target columns than expressions")
            lists.append([None if is_default(item) else compiled(item, scope) for item in items])
        return lambda c: [_row(plans, table, places, fns, c) for fns in lists]
    while kind(values) in ("Subquery", "Paren"):
        values = values.this
    if kind(values) != "Select":
        raise UnsupportedError(rendered(node), construct(values))
    query = Query(values, plans)
    if query.locks:
        raise UnsupportedError(rendered(node), "row locks in a subquery")
    if len(query.names) > len(places):
        raise SqlError("42601", "INSERT has more expressions than target columns")

    def selected(c: Context) -> list[Values]:
        made = []
        for row_values in query.rows((), c):
            fns: list[Fn | None] = [lambda r, c, value=value: value for value in row_values]  # type: ignore[misc] # a lambda's default
            made.append(_row(plans, table, places, fns, c))
        return made

    return selected


def _row(
    plans: Any, table: HeapTable, places: list[int], fns: list[Fn | None], c: Context
) -> Values:
    node = plans.node
    given: dict[int, Any] = {}
    for place, fn in zip(places, fns, strict=False):
        if fn is None:
            continue
        column = table.columns[place]
        if column.generated is not None or column.always:
            raise SqlError(
                "428C9",
                f'cannot insert a non-DEFAULT value into column "{column.name}"',
                detail=f'Column "{column.name}" is '
                + (
                    "a generated column."
                    if column.generated
                    else "an identity column defined as GENERATED ALWAYS."
                ),
            )
        given[place] = column.type.store(fn((), c))
    row = [
        given[place] if place in given else column.type.store(node.default(c.tx, table, column))
        for place, column in enumerate(table.columns)
    ]
    made = tuple(row)
    return node.generated(table, made) if table.computed else made
