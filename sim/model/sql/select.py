"""SELECT: sources, joins, WHERE, groups, order, limit, row locks.

A plain SELECT runs without waiting. One with FOR UPDATE or another locking clause locks row by row, in order, and
checks each row again that another transaction has changed meanwhile.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from twopc.sim.model.node.modes import (
    ACCESS_SHARE,
    KEY_SHARE,
    NO_KEY_UPDATE,
    ROW_SHARE,
    SHARE,
    UPDATE,
)
from twopc.sim.model.node.row_locks import modified_by_itself, take
from twopc.sim.model.sql import operators as op
from twopc.sim.model.sql.bind import Context, Fn, FromSource, Rows, Scope
from twopc.sim.model.sql.expressions import HANDLERS, compiled, name_of, truth
from twopc.sim.model.sql.functions import AGGREGATES
from twopc.sim.model.sql.groups import check_distinct, check_grouped, grouped_by
from twopc.sim.model.sql.parameters import given_by
from twopc.sim.model.sql.parse import arguments, construct, expression, kind, rendered
from twopc.sim.model.sql.scan import Scan
from twopc.sim.model.values import SqlError, StatementResult, Steps, UnsupportedError

#: ``plan(tx, params, variables)``; variables are those of a PL/pgSQL function.
Plan = Callable[..., Steps[StatementResult]]

_MODES = {
    (True, False): UPDATE,
    (True, True): NO_KEY_UPDATE,
    (False, False): SHARE,
    (False, True): KEY_SHARE,
}


class Query:
    """A compiled SELECT."""

    def __init__(self, node: Any, plans: Any, parent: Scope | None = None) -> None:
        self.scope = scope = Scope(plans, parent)
        self.scans: list[Scan] = []
        self.joins: list[tuple[str, Callable[[Rows, Context], bool] | None]] = []
        self._from(node)
        where = node.args.get("where")
        self.where = truth(where.this, scope) if where is not None else None
        for place, one in enumerate(self.scans):
            one.use(where.this if where is not None else None, place, scope)
        self.aggregates: list[tuple[str, Fn | None, bool, Fn | None]] = []
        group, having = node.args.get("group"), node.args.get("having")
        items = self._expand_stars(node)
        order = node.args.get("order")
        ordered = order.expressions if order is not None else []
        self._find_aggregates([*items, *ordered, *([having] if having else [])])
        self.grouped = bool(self.aggregates) or group is not None
        groups = [grouped_by(one, items, scope) for one in group.expressions] if group else []
        self.group = [compiled(one, scope) for one in groups]
        if self.grouped:
            scope.group_slot = scope.first + len(scope.sources)
            scope.extra = 1
        self.having = truth(having.this, scope) if having is not None else None
        self.names = [_name(item) for item in items]
        self.items = [compiled(item, scope) for item in items]
        self.order = [
            (
                self._order_key(one.this, items),
                bool(one.args.get("desc")),
                bool(one.args.get("nulls_first")),
            )
            for one in ordered
        ]
        keys = zip(ordered, self.order, strict=True)
        sorted_by = [one.this for one, (key, *_) in keys if not isinstance(key, int)]
        if self.grouped:
            check_grouped(groups, [*items, *sorted_by, *([having] if having else [])], scope)
        self.distinct = node.args.get("distinct") is not None
        if self.distinct:
            check_distinct(items, sorted_by, scope)
        limit, offset = node.args.get("limit"), node.args.get("offset")
        if limit is not None and kind(limit) != "Limit":
            raise UnsupportedError(rendered(node), "FETCH FIRST")
        self.limit = compiled(limit.expression, scope) if limit is not None else None
        self.offset = compiled(offset.expression, scope) if offset is not None else None
        self.locks = self._lock_clauses(node)

    # -- compiling -----------------------------------------------------------------------------------

    def _from(self, node: Any) -> None:
        start = node.args.get("from_")
        if start is None:
            return
        self._source(start.this, "")
        for join in node.args.get("joins") or ():
            side = (join.side or "").upper()
            if side not in ("", "LEFT") or join.args.get("method") or join.args.get("using"):
                raise UnsupportedError(rendered(join), "this kind of join")
            self._source(join.this, side, join.args.get("on"))

    def _source(self, node: Any, side: str, on: Any = None) -> None:
        source = source_of(node, self.scope)
        self.scope.add(source)
        self.scans.append(Scan(source))
        self.joins.append((side, truth(on, self.scope) if on is not None else None))

    def _expand_stars(self, node: Any) -> list[Any]:
        items = []
        for item in node.expressions:
            star = kind(item) == "Star"
            if star or (kind(item) == "Column" and kind(item.this) == "Star"):
                for source in self.scope.sources:
                    if star or source.alias == item.table:
                        items += [expression(f'"{source.alias}"."{name}"') for name in source.shown]
            else:
                items.append(item)
        return items

    def _find_aggregates(self, items: list[Any]) -> None:
        scope = self.scope
        places: dict[int, int] = {}
        for item in items:
            for result in item.walk(prune=lambda one: kind(one) in ("Select", "Subquery")):
                inner = result.this if kind(result) == "Filter" else result
                if not _is_aggregate(inner) or id(result) in places:
                    continue
                if id(inner) in places and inner is result:
                    continue
                what = (
                    inner.this
                    if name_of(inner) != "count" or inner.args.get("this") is not None
                    else None
                )
                unique = what is not None and kind(what) == "Distinct"
                if what is not None and unique:
                    what = what.expressions[0]
                fn = None if what is None or kind(what) == "Star" else compiled(what, scope)
                only = truth(result.args["expression"].this, scope) if inner is not result else None
                places[id(result)] = places[id(inner)] = len(self.aggregates)
                self.aggregates.append((name_of(inner), fn, unique, only))
        if places:
            scope.aggregates = places

    def _order_key(self, node: Any, items: list[Any]) -> Fn | int:
        if kind(node) == "Literal" and not node.is_string:
            place = int(node.this) - 1
            if not 0 <= place < len(items):
                raise SqlError("42P10", f"ORDER BY position {place + 1} is not in select list")
            return place
        if kind(node) == "Column" and not node.table:
            for place, item in enumerate(items):
                if kind(item) == "Alias" and item.alias == node.name:
                    return place
        return compiled(node, self.scope)

    def _lock_clauses(self, node: Any) -> list[tuple[int, int, str]]:
        results = []
        for lock in node.args.get("locks") or ():
            mode = _MODES[bool(lock.args.get("update")), bool(lock.args.get("key"))]
            waits = lock.args.get("wait")
            how = "block" if waits is None else "nowait" if waits is True else "skip"
            only = {one.name for one in lock.expressions}
            for name in only.difference(source.alias for source in self.scope.sources):
                raise SqlError(
                    "42P01", f'relation "{name}" in FOR UPDATE clause not found in FROM clause'
                )
            for place, source in enumerate(self.scope.sources):
                if source.table is not None and (not only or source.alias in only):
                    results.append((place, mode, how))
        if results and (self.grouped or self.distinct):
            raise SqlError("0A000", "FOR UPDATE is not allowed with GROUP BY clause")
        return results

    # -- running -------------------------------------------------------------------------------------

    def combined(self, outer: Rows, c: Context) -> list[tuple[Rows, Any]]:
        """Return every combination of rows that satisfies WHERE, each with its handles: (row, version) by source."""
        rows: list[tuple[Rows, Any]] = [(outer, ())]
        for one, (side, on) in zip(self.scans, self.joins, strict=True):
            longer: list[tuple[Rows, Any]] = []
            for r, handles in rows:
                matched = False
                for values, handle in one.rows(r, c):
                    wider = (*r, values)
                    if on is None or on(wider, c):
                        matched = True
                        longer.append((wider, (*handles, handle)))
                if side == "LEFT" and not matched:
                    longer.append(((*r, one.nothing), (*handles, None)))
            rows = longer
        where = self.where
        return rows if where is None else [one for one in rows if where(one[0], c)]

    def rows(self, outer: Rows, c: Context) -> list[Rows]:
        """Return the result rows, without locking."""
        results = self.combined(outer, c)
        return [result for result, *_ in self._slice(self._results(results, outer, c), outer, c)]

    def _results(self, result: list[tuple[Rows, Any]], outer: Rows, c: Context) -> list[Any]:
        if self.grouped:
            result = self._groups(result, outer, c)
        items = self.items
        made = [(tuple([item(r, c) for item in items]), r, handles) for r, handles in result]
        if self.distinct:
            seen: dict[Rows, Any] = {}
            for one in made:
                seen.setdefault(one[0], one)
            made = list(seen.values())
        if self.order:
            made.sort(key=functools.cmp_to_key(lambda a, b: self._compare(a, b, c)))
        return made

    def _groups(
        self, result: list[tuple[Rows, Any]], outer: Rows, c: Context
    ) -> list[tuple[Rows, Any]]:
        groups: dict[Rows, list[Rows]] = {}
        for r, _ in result:
            groups.setdefault(tuple([one(r, c) for one in self.group]), []).append(r)
        if not groups and not self.group:
            groups[()] = []
        made: list[tuple[Rows, Any]] = []
        for members in groups.values():
            results = []
            for name, fn, unique, only in self.aggregates:
                chosen = members if only is None else [r for r in members if only(r, c)]
                values = [1] * len(chosen) if fn is None else [fn(r, c) for r in chosen]
                values = [value for value in values if value is not None]
                results.append(AGGREGATES[name](list(dict.fromkeys(values)) if unique else values))
            first = members[0] if members else (*outer, *(one.nothing for one in self.scans))
            r = (*first, tuple(results))
            if self.having is None or self.having(r, c):
                made.append((r, None))
        return made

    def _compare(self, a: Any, b: Any, c: Context) -> int:
        for key, down, nulls_first in self.order:
            one = a[0][key] if isinstance(key, int) else key(a[1], c)
            other = b[0][key] if isinstance(key, int) else key(b[1], c)
            if one is None or other is None:
                if one is other:
                    continue
                return (-1 if one is None else 1) * (1 if nulls_first else -1)
            if op.equal(one, other):
                continue
            return (-1 if op.less(one, other) else 1) * (-1 if down else 1)
        return 0

    def _window(self, outer: Rows, c: Context) -> tuple[int, int | None]:
        start = self.offset(outer, c) if self.offset is not None else 0
        count = self.limit(outer, c) if self.limit is not None else None
        return int(start or 0), None if count is None else int(count)

    def _slice(self, made: list[Any], outer: Rows, c: Context) -> list[Any]:
        start, count = self._window(outer, c)
        return made[start:] if count is None else made[start : start + count]

    def locked(self, c: Context) -> Steps[list[Rows]]:
        """Lock the rows and return the result rows."""
        made = self._results(self.combined((), c), (), c)
        start, count = self._window((), c)
        results: list[Rows] = []
        for _, r, handles in made:
            if count is not None and len(results) >= start + count:
                break
            got = yield from self._lock_one(r, handles, c)
            if got is not None:
                results.append(tuple([item(got, c) for item in self.items]))
        return results[start:]

    def _lock_one(self, r: Rows, handles: Any, c: Context) -> Steps[Rows | None]:
        changed = list(r)
        repeated = False
        for place, mode, how in self.locks:
            handle = handles[place]
            if handle is None:
                continue
            row, version = handle
            if modified_by_itself(c.tx, row, version, c.snap):
                return None
            got = yield from take(c.tx, row, version, mode, c.snap, how)
            if got is None:
                return None
            if got is not version:
                changed[place] = got.values
                repeated = True
        return self._rejoined(changed, handles, c) if repeated else tuple(changed)

    def _rejoined(self, r: list[Any], handles: Any, c: Context) -> Rows | None:
        """Return a combination of which rows have changed, if it still satisfies the joins and WHERE.

        As in PostgreSQL, other rows of the tables are not looked at again.
        """
        for place, (one, (side, on)) in enumerate(zip(self.scans, self.joins, strict=True)):
            if on is None or handles[place] is None or on(tuple(r), c):
                continue
            if side != "LEFT":
                return None
            r[place] = one.nothing
        result = tuple(r)
        return result if self.where is None or self.where(result, c) else None


def _is_aggregate(node: Any) -> bool:
    return kind(node) in ("Count", "Sum", "Avg", "Min", "Max", "LogicalAnd", "LogicalOr")


def _name(item: Any) -> str:
    what = kind(item)
    if what in ("Alias", "Column"):
        return str(item.alias_or_name)
    if what == "Cast":
        inner = _name(item.this)
        return (
            inner
            if inner != "?column?"
            else {"integer": "int4", "boolean": "bool", "bigint": "int8"}.get(
                rendered(item.args["to"]).lower(), rendered(item.args["to"]).lower()
            )
        )
    if what in ("Paren", "Filter"):
        return _name(item.this)
    if what in ("Case", "Exists", "Array", "Coalesce"):
        return what.lower()
    if what == "Boolean":
        return "bool"
    if what in ("Subquery", "Select"):
        inner = item.this if what == "Subquery" else item
        return _name(inner.expressions[0])
    if what in HANDLERS and what not in ("CurrentTimestamp", "Uuid", "CurrentDate", "CurrentUser"):
        return "?column?"
    try:
        return {"CurrentTimestamp": "now", "Uuid": "gen_random_uuid"}.get(what) or name_of(item)
    except UnsupportedError:
        return "?column?"


def source_of(node: Any, scope: Scope) -> FromSource:
    """Return the source of an item in FROM."""
    what = kind(node)
    alias = node.alias_or_name
    if what == "Table" and kind(node.this) == "Identifier":
        table = scope.plans.node.table(f"{node.db}.{node.name}" if node.db else node.name)
        return FromSource(alias, list(table.at), [column.type for column in table.columns], table)
    renamed = [one.name for one in node.args["alias"].columns] if node.args.get("alias") else []
    inner = node.this
    if what == "Subquery":
        query = Query(inner, scope.plans, scope)
        if query.locks:
            raise UnsupportedError(rendered(node), "row locks in a subquery")
        source = FromSource(alias, renamed or query.names, [None] * len(query.names))
        source.produce = lambda r, c: query.rows(r[: query.scope.first], c)
        return source
    if what == "Values":
        lists = [[compiled(one, scope) for one in row.expressions] for row in node.expressions]
        names = renamed or [f"column{n + 1}" for n in range(len(lists[0]))]
        source = FromSource(alias, names, [None] * len(names))
        source.produce = lambda r, c: [tuple([one(r, c) for one in row]) for row in lists]
        return source
    series = inner if what == "Table" else node
    if kind(series) in ("ExplodingGenerateSeries", "GenerateSeries"):
        start, end = compiled(series.args["start"], scope), compiled(series.args["end"], scope)
        step = compiled(series.args["step"], scope) if series.args.get("step") else (lambda r, c: 1)
        name = renamed[0] if renamed else (node.alias or "generate_series")
        source = FromSource(node.alias or "generate_series", [name], [None])
        source.produce = lambda r, c: [
            (n,) for n in range(start(r, c), end(r, c) + (1 if step(r, c) > 0 else -1), step(r, c))
        ]
        return source
    raise UnsupportedError(rendered(node), f"{what} in FROM")


def subquery(node: Any, scope: Scope) -> Callable[[Rows, Context], list[Rows]]:
    """Compile a query within an expression."""
    while kind(node) in ("Subquery", "Paren"):
        node = node.this
    if kind(node) != "Select":
        raise UnsupportedError(rendered(node), construct(node))
    query = Query(node, scope.plans, scope)
    if query.locks:
        raise UnsupportedError(rendered(node), "row locks in a subquery")
    first = query.scope.first
    return lambda r, c: query.rows(r[:first], c)


# -- the statement -------------------------------------------------------------------------------------


def plan(node: Any, plans: Any) -> Plan:
    """Compile a SELECT as a statement of its own."""
    calls = _waiting_call(node, plans)
    if calls is not None:
        return calls
    query = Query(node, plans)
    names = tuple(query.names)
    tables = [source.table for source in query.scope.sources if source.table is not None]
    mode = ROW_SHARE if query.locks else ACCESS_SHARE
    plain = not query.locks

    def run(tx: Any, params: Mapping[str, Any], variables: Any = None) -> Steps[StatementResult]:
        c = Context(tx, params, variables)
        for table in tables:
            if not tx.locks.try_table(tx.top, table, mode):
                yield from tx.lock_table(table, mode)
        c.snap = tx.statement()
        rows = query.rows((), c) if plain else (yield from query.locked(c))
        return StatementResult(
            tag=f"SELECT {len(rows)}", rowcount=len(rows), names=names, rows=tuple(rows)
        )

    return run


def _waiting_call(node: Any, plans: Any) -> Plan | None:
    """Compile ``select f(…)`` for a function that may wait: one call, no FROM. None for any other SELECT."""
    if node.args.get("from_") is not None or len(node.expressions) != 1:
        return None
    item = node.expressions[0]
    call = item.this if kind(item) == "Alias" else item
    if kind(call) == "Dot":
        name, call = rendered(call).partition("(")[0].lower(), call.expression
    elif kind(call) == "Anonymous":
        name = name_of(call)
    else:
        return None
    function = plans.function(name)
    if function is None:
        return None
    given, named = given_by(arguments(call), Scope(plans))
    column = item.alias if kind(item) == "Alias" else name.rpartition(".")[2]

    def run(tx: Any, params: Mapping[str, Any], variables: Any = None) -> Steps[StatementResult]:
        c = Context(tx, params, variables)
        c.snap = tx.statement()
        by_name = {key: one((), c) for key, one in named.items()}
        value = yield from function(tx, *[one((), c) for one in given], **by_name)
        return StatementResult(tag="SELECT 1", rowcount=1, names=(column,), rows=((value,),))

    return run
