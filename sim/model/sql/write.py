"""UPDATE and DELETE, and parts that INSERT shares with them: target rows, assignments, RETURNING.

Rows are locked, followed to newer versions and checked by `twopc.sim.model.node.rows`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twopc.sim.model.node import constraints, rows
from twopc.sim.model.node.after_triggers import after_statement
from twopc.sim.model.node.heap import HeapRow, HeapTable, Version
from twopc.sim.model.node.modes import ROW_EXCLUSIVE
from twopc.sim.model.node.triggers import RowEvent, before_statement
from twopc.sim.model.sql.bind import Context, Fn, FromSource, Rows, Scope
from twopc.sim.model.sql.expressions import compiled, truth
from twopc.sim.model.sql.parse import construct, expression, kind, rendered
from twopc.sim.model.sql.scan import Scan
from twopc.sim.model.sql.select import Plan, _name, source_of
from twopc.sim.model.values import SqlError, StatementResult, Steps, UnsupportedError, Values


class Returning:
    """The compiled RETURNING clause: names and values."""

    def __init__(self, node: Any, scope: Scope) -> None:
        items: list[Any] = []
        for item in node.expressions if node is not None else ():
            if kind(item) == "Star":
                items += [
                    expression(f'"{source.alias}"."{name}"')
                    for source in scope.sources
                    if source.alias != "excluded"
                    for name in source.shown
                ]
            else:
                items.append(item)
        aliases = {source.alias for source in scope.sources}
        for column in (one for item in items for one in item.walk() if kind(one) == "Column"):
            if column.table in {"old", "new"} - aliases - scope.variables:
                raise UnsupportedError(rendered(column), f"{column.table.upper()} in RETURNING")
        self.is_given = node is not None
        self.names = tuple(_name(item) for item in items)
        self._items = [compiled(item, scope) for item in items]

    def row(self, r: Rows, c: Context) -> Values:
        """Return the values of RETURNING for one row."""
        return tuple([item(r, c) for item in self._items])


def result(verb: str, count: int, returning: Returning, made: list[Values]) -> StatementResult:
    """Return the result of a statement: tag, row count, and rows of RETURNING."""
    tag = f"INSERT 0 {count}" if verb == "INSERT" else f"{verb} {count}"
    if not returning.is_given:
        return StatementResult(tag=tag, rowcount=count)
    return StatementResult(tag=tag, rowcount=count, names=returning.names, rows=tuple(made))


def target(node: Any, plans: Any) -> FromSource:
    """Return the source of the table that a statement changes."""
    while kind(node) == "Schema":
        node = node.this
    if kind(node) != "Table":
        raise UnsupportedError(rendered(node), construct(node))
    return source_of(node, Scope(plans))


class Assignments:
    """The compiled SET clause: columns and their new values."""

    def __init__(self, nodes: list[Any], source: FromSource, scope: Scope, plans: Any) -> None:
        self.table: HeapTable = source.table
        self._plans = plans
        self._set: list[tuple[int, Fn | None, Callable[[Any], Any]]] = []
        for node in nodes:
            if kind(node.this) == "Tuple":
                values = node.expression
                if kind(values) != "Tuple":
                    raise UnsupportedError(rendered(node), "SET of several columns from a query")
                pairs = list(zip(node.this.expressions, values.expressions, strict=True))
            else:
                pairs = [(node.this, node.expression)]
            for column, value in pairs:
                place = source.at.get(column.name)
                if place is None:
                    raise SqlError(
                        "42703",
                        f'column "{column.name}" of relation "{constraints.bare(self.table)}" does not exist',
                    )
                there = self.table.columns[place]
                fn = None if is_default(value) else compiled(value, scope)
                if fn is not None and (
                    there.generated is not None or (there.identity and there.always)
                ):
                    raise SqlError("428C9", f'column "{there.name}" can only be updated to DEFAULT')
                self._set.append((place, fn, there.type.store))

    @property
    def names_keys(self) -> bool:
        """Whether a column of a unique key is assigned."""
        return any(place in self.table.key_places for place, _, _ in self._set)

    def apply(self, values: Values, r: Rows, c: Context) -> Values:
        """Return the new values of a row."""
        table = self.table
        new = list(values)
        for place, fn, store in self._set:
            if fn is None:
                new[place] = self._plans.node.default(c.tx, table, table.columns[place])
            else:
                new[place] = store(fn(r, c))
        made = tuple(new)
        return self._plans.node.generated(table, made) if table.computed else made


def is_default(node: Any) -> bool:
    """Whether an expression is the keyword DEFAULT."""
    return (kind(node) == "Var" and str(node.this).upper() == "DEFAULT") or (
        kind(node) == "Column"
        and node.name.upper() == "DEFAULT"
        and not node.table
        and not node.this.quoted
    )


# -- UPDATE and DELETE ---------------------------------------------------------------------------------


class _Targets:
    """The rows that a statement changes, each with the joined rows of the other sources."""

    def __init__(self, node: Any, others: list[Any], plans: Any) -> None:
        self.source = target(node.this, plans)
        self.scope = Scope(plans)
        self.scope.add(self.source)
        self.scans = [Scan(self.source)]
        for other in others:
            if other.args.get("joins"):
                raise UnsupportedError(rendered(node), "a join in FROM or USING")
            self.scans.append(Scan(self.scope.add(source_of(other, self.scope))))
        where = node.args.get("where")
        self.where = truth(where.this, self.scope) if where is not None else None
        for place, one in enumerate(self.scans):
            one.use(where.this if where is not None else None, place, self.scope)

    def matching(self, c: Context) -> list[tuple[HeapRow, Version, Rows]]:
        """Return the matching rows in the statement's snapshot: row, version, and rows of all sources."""
        where = self.where
        single = len(self.scans) == 1
        if single and self.scans[0].exact:
            return [
                (row, version, (version.values,)) for row, version in self.scans[0].handles((), c)
            ]
        made = []
        for row, version in self.scans[0].handles((), c):
            r: Rows = (version.values,)
            if single:
                if where is None or where(r, c):
                    made.append((row, version, r))
                continue
            for wider in self._join_rest(r, 1, c):
                if where is None or where(wider, c):
                    made.append((row, version, wider))
                    break
        return made

    def _join_rest(self, r: Rows, place: int, c: Context) -> list[Rows]:
        if place == len(self.scans):
            return [r]
        return [
            wider
            for values, _ in self.scans[place].rows(r, c)
            for wider in self._join_rest((*r, values), place + 1, c)
        ]

    def matches(self, r: Rows, c: Context) -> Callable[[Values], bool]:
        """Return a function that tells whether a newer version of a row still satisfies WHERE."""
        where = self.where
        rest = r[1:]
        return lambda values: where is None or where((values, *rest), c)


def plan_update(node: Any, plans: Any) -> Plan:
    """Compile an UPDATE."""
    start = node.args.get("from_")
    targets = _Targets(node, [start.this] if start is not None else [], plans)
    source, scope = targets.source, targets.scope
    table: HeapTable = source.table
    assignments = Assignments(node.expressions, source, scope, plans)
    returning = Returning(node.args.get("returning"), scope)
    names_keys = assignments.names_keys

    def run(tx: Any, params: Mapping[str, Any], variables: Any = None) -> Steps[StatementResult]:
        if not tx.locks.try_table(tx.top, table, ROW_EXCLUSIVE):
            yield from tx.lock_table(table, ROW_EXCLUSIVE)
        c = Context(tx, params, variables)
        snap = c.snap = tx.statement()
        events: list[RowEvent] = []
        made: list[Values] = []
        count = 0
        if table.triggers:
            yield from before_statement(tx, table, "upd")
        for row, version, r in targets.matching(c):
            rest = r[1:]
            changed = yield from rows.update(
                tx, table, row, version, snap,
                lambda values, rest=rest: assignments.apply(values, (values, *rest), c),  # type: ignore[misc] # a lambda's default
                targets.matches(r, c), events, names_keys=names_keys,
            )  # fmt: skip
            if changed is not None:
                count += 1
                if returning.is_given:
                    made.append(returning.row((changed[1], *rest), c))
        if events or table.fires_by_statement:
            yield from after_statement(tx, table, "upd", events)
        return result("UPDATE", count, returning, made)

    return run


def plan_delete(node: Any, plans: Any) -> Plan:
    """Compile a DELETE."""
    targets = _Targets(node, list(node.args.get("using") or ()), plans)
    table: HeapTable = targets.source.table
    returning = Returning(node.args.get("returning"), targets.scope)

    def run(tx: Any, params: Mapping[str, Any], variables: Any = None) -> Steps[StatementResult]:
        if not tx.locks.try_table(tx.top, table, ROW_EXCLUSIVE):
            yield from tx.lock_table(table, ROW_EXCLUSIVE)
        c = Context(tx, params, variables)
        snap = c.snap = tx.statement()
        events: list[RowEvent] = []
        made: list[Values] = []
        count = 0
        if table.triggers:
            yield from before_statement(tx, table, "del")
        for row, version, r in targets.matching(c):
            old = yield from rows.delete(
                tx, table, row, version, snap, targets.matches(r, c), events
            )
            if old is not None:
                count += 1
                if returning.is_given:
                    made.append(returning.row((old, *r[1:]), c))
        if events or table.fires_by_statement:
            yield from after_statement(tx, table, "del", events)
        return result("DELETE", count, returning, made)

    return run
