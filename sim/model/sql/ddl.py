"""CREATE and ALTER of tables, unique indexes, triggers and functions; DROP and TRUNCATE.

Definitions are not transactional: they take effect at once and are not rolled back. Scenarios define all objects
before they play.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from twopc.sim.model.node.constraints import ModelForeignKey, bare, duplicate
from twopc.sim.model.node.heap import HeapColumn, HeapTable, Index
from twopc.sim.model.sql import rights, types
from twopc.sim.model.sql.bind import Context, FromSource, Scope
from twopc.sim.model.sql.expressions import compiled
from twopc.sim.model.sql.parse import expression, kind, rendered
from twopc.sim.model.values import SqlError, UnsupportedError, Values


def create_table(node: Any, plans: Any, *, temporary: bool) -> HeapTable | None:
    """Execute CREATE TABLE. Return None if the table exists and IF NOT EXISTS is given; raise 42P07 without it."""
    schema = node.this
    if kind(schema) != "Schema":
        raise UnsupportedError(rendered(node), "CREATE TABLE without columns")
    name = table_name(schema.this)
    server = plans.node
    if name in server.tables:
        if node.args.get("exists"):
            return None
        raise SqlError("42P07", f'relation "{name}" already exists')
    table = HeapTable(name, len(server.tables))
    table.temporary = temporary
    later: list[tuple[Any, str | None, str]] = []
    for part in schema.expressions:
        if kind(part) == "ColumnDef":
            later += _column(table, part, plans)
        else:
            later.append((part, None, ""))
    for part, column, named in later:
        _constraint(table, part, column, named, plans)
    server.tables[name] = table
    table.settle()
    table.computed = any(column.generated is not None for column in table.columns)
    return table


def table_name(node: Any) -> str:
    """Return the name under which a table is registered: without schema for `public`."""
    schema = node.db
    return f"{schema}.{node.name}" if schema and schema != "public" else str(node.name)


def _column(table: HeapTable, node: Any, plans: Any) -> list[tuple[Any, str, str]]:
    if node.args.get("kind") is None:
        raise UnsupportedError(rendered(node), "a column without type")
    name = node.name
    written = rendered(node.args["kind"])
    column = HeapColumn(name, types.named(written))
    table.at[name] = len(table.columns)
    table.columns.append(column)
    if written.lower() in ("serial", "bigserial"):
        column.identity = column.not_null = True
    later = []
    for one in node.args.get("constraints") or ():
        what, named = one.args["kind"], one.name if one.args.get("this") is not None else ""
        kind_ = kind(what)
        if kind_ == "NotNullColumnConstraint":
            column.not_null = not what.args.get("allow_null")
        elif kind_ == "DefaultColumnConstraint":
            column.default = _default(what.this, column, plans)
        elif kind_ == "GeneratedAsIdentityColumnConstraint":
            if what.args.get("expression") is not None and what.this is None:
                _generated(table, column, what.args["expression"], plans)
            else:
                column.identity = column.not_null = True
                column.always = bool(what.this)
        elif kind_ in ("ComputedColumnConstraint", "GeneratedAsRowColumnConstraint"):
            _generated(table, column, what.this, plans)
        else:
            later.append((what, name, named))
    return later


def _default(node: Any, column: HeapColumn, plans: Any) -> Any:
    fn = compiled(node, Scope(plans))
    store = column.type.store
    return lambda tx: store(fn((), Context(tx, {})))


def condition(text: str, table: HeapTable, plans: Any) -> Callable[[Values], bool]:
    """Return a function that tells whether a row of a table fulfils a condition, as in a row filter."""
    fn = compiled(expression(text), _row_scope(table, plans))
    return lambda values: fn((values,), Context(None, {})) is True


def _row_scope(table: HeapTable, plans: Any) -> Scope:
    scope = Scope(plans)
    scope.add(FromSource(bare(table), list(table.at), [column.type for column in table.columns]))
    return scope


def _generated(table: HeapTable, column: HeapColumn, node: Any, plans: Any) -> None:
    made: list[Any] = []

    def compute(values: Any) -> Any:
        if not made:  # the expression may refer to later columns
            made.append(compiled(node, _row_scope(table, plans)))
        return column.type.store(made[0]((values,), Context(None, {})))

    column.generated = compute


def _constraint(table: HeapTable, node: Any, column: str | None, named: str, plans: Any) -> None:
    what = kind(node)
    if what == "Constraint":
        for one in node.expressions:
            _constraint(table, one, None, node.name, plans)
        return
    short = bare(table)
    if what in ("PrimaryKeyColumnConstraint", "PrimaryKey"):
        names = [column] if column else [_name(one) for one in node.expressions]
        _primary(table, named or f"{short}_pkey", names)
    elif what == "UniqueColumnConstraint":
        inner = node.this
        names = (
            [column]
            if column
            else [_name(one) for one in (inner.expressions if inner is not None else ())]
        )
        index = Index(
            named or f"{short}_{'_'.join(map(str, names))}_key",
            [_place(table, one) for one in names],
        )
        options = [str(one).upper() for one in node.args.get("options") or ()]
        _timing(index, options)
        if node.args.get("nulls") is not None and "NOT DISTINCT" in rendered(node).upper():
            index.distinct = False
        add_index(table, index)
    elif what == "CheckColumnConstraint":
        fn = compiled(node.this, _row_scope(table, plans))
        taken = [name for name, _ in table.checks]
        name = named or (f"{short}_{column}_check" if column else f"{short}_check")
        while name in taken:
            name += "1"
        table.checks.append((name, lambda values: fn((values,), Context(None, {}))))
        table.checks.sort(key=lambda one: one[0])
    elif what in ("Reference", "ForeignKey"):
        reference = node if what == "Reference" else node.args["reference"]
        names = [column] if column else [_name(one) for one in node.expressions]
        options = [
            *(reference.args.get("options") or ()),
            *((node.args.get("options") or ()) if node is not reference else ()),
        ]
        add_foreign_key(table, names, reference, [str(one) for one in options], named, plans)
    elif what == "NotNullColumnConstraint" and column:
        table.columns[table.at[column]].not_null = True
    else:
        raise UnsupportedError(rendered(node), f"the constraint {what}")


def _name(node: Any) -> str:
    return str(node.this.name if kind(node) in ("Ordered", "Column") else node.name)


def _place(table: HeapTable, name: str | None) -> int:
    place = table.at.get(name or "")
    if place is None:
        raise SqlError("42703", f'column "{name}" named in key does not exist')
    return place


def _primary(table: HeapTable, name: str, names: list[Any]) -> None:
    index = Index(name, [_place(table, one) for one in names], primary=True)
    for place in index.places:
        table.columns[place].not_null = True
    table.primary = index
    table.indexes.insert(0, index)
    for row in table.all_rows:
        for version in row.versions:
            index.add(row, version.values)


def add_index(table: HeapTable, index: Index) -> None:
    """Add a unique index and its entries for existing rows. Raise 23505 if these violate it."""
    seen = set()
    for values in table.committed():
        key = index.key(values)
        if (None in key and index.distinct) or (
            index.where is not None and not index.where(values)
        ):
            continue
        if key in seen:
            raise duplicate(table, index, key)
        seen.add(key)
    for row in table.all_rows:
        for version in row.versions:
            index.add(row, version.values)
    table.indexes.append(index)
    table.settle()


def _timing(thing: Index | ModelForeignKey, options: list[str]) -> None:
    text = " ".join(options).upper()
    if "INITIALLY DEFERRED" in text:
        thing.deferrable = thing.deferred = True
    elif "DEFERRABLE" in text and "NOT DEFERRABLE" not in text:
        thing.deferrable = True


def add_foreign_key(
    table: HeapTable, names: list[Any], reference: Any, options: list[str], named: str, plans: Any
) -> None:
    """Add a foreign key to `table`. Raise 42P01 or 42830."""
    there = reference.this
    parent_name = table_name(there.this if kind(there) == "Schema" else there)
    parent = table if parent_name == table.name else plans.node.table(parent_name)
    columns = (
        [_name(one) for one in there.expressions] if kind(there) == "Schema" else list(parent.key)
    )
    places = [_place(parent, one) for one in columns]
    index = next((one for one in parent.indexes if set(one.places) == set(places)), None)
    if index is None:
        raise SqlError(
            "42830",
            f'there is no unique constraint matching given keys for referenced table "{bare(parent)}"',
        )
    of_place = dict(zip(places, (_place(table, one) for one in names), strict=True))
    own = tuple(of_place[place] for place in index.places)
    name = named or f"{bare(table)}_{'_'.join(map(str, names))}_fkey"
    key = ModelForeignKey(name, table, own, parent, index)
    _timing(key, options)
    text = " ".join(options).upper()
    for action in ("CASCADE", "SET NULL", "SET DEFAULT", "RESTRICT", "NO ACTION"):
        if f"ON DELETE {action}" in text:
            key.on_delete = action.lower()
        if f"ON UPDATE {action}" in text:
            key.on_update = action.lower()
    if "MATCH FULL" in text:
        raise UnsupportedError(text, "MATCH FULL")
    table.references.append(key)
    parent.referenced.append(key)
    table.settle()
    parent.settle()


def create_index(node: Any, tx: Any, plans: Any) -> str:
    """Execute CREATE INDEX and return the command tag. An index that is not unique has no effect in the model."""
    inner = node.this
    table = plans.node.table(table_name(inner.args["table"]))
    rights.must_own(tx, table)
    params = inner.args["params"]
    names = []
    for one in params.args["columns"]:
        column = one.this if kind(one) == "Ordered" else one
        if kind(column) not in ("Column", "Identifier"):
            if not node.args.get("unique"):
                continue
            raise UnsupportedError(rendered(node), "a unique index on an expression")
        names.append(column.name)
        _place(table, column.name)
    if not node.args.get("unique"):
        return "CREATE INDEX"
    name = inner.name or f"{bare(table)}_{'_'.join(names)}_idx"
    index = Index(name, [_place(table, one) for one in names])
    index.constraint = False
    where = params.args.get("where")
    if where is not None:
        fn = compiled(where.this if kind(where) == "Where" else where, _row_scope(table, plans))
        index.where = lambda values: fn((values,), Context(None, {})) is True
    if "NULLS NOT DISTINCT" in rendered(node).upper():
        index.distinct = False
    add_index(table, index)
    return "CREATE INDEX"


def alter_table(node: Any, tx: Any, plans: Any) -> str:
    """Execute ALTER TABLE for constraints, columns and defaults; return the tag. For triggers see `plpgsql`."""
    table = plans.node.table(table_name(node.this))
    rights.must_own(tx, table)
    for action in node.args.get("actions") or ():
        what = kind(action)
        if what == "AddConstraint":
            for one in action.expressions:
                _constraint(table, one, None, "", plans)
        elif what == "ColumnDef":
            _add_column(table, action, plans)
        elif what == "AlterColumn" and action.args.get("default") is not None:
            column = table.columns[_place(table, action.name)]
            column.default = _default(action.args["default"], column, plans)
        else:
            raise UnsupportedError(rendered(node), f"ALTER TABLE … {what}")
    table.settle()
    return "ALTER TABLE"


def _add_column(table: HeapTable, node: Any, plans: Any) -> None:
    if node.name in table.at:
        raise SqlError("42701", f'column "{node.name}" of relation "{bare(table)}" already exists')
    later = _column(table, node, plans)
    column = table.columns[-1]
    for row in table.all_rows:
        for version in row.versions:
            value = plans.node.default(None, table, column)
            version.values = (*version.values, value)
    for part, name, named in later:
        _constraint(table, part, name, named, plans)
    table.computed = any(one.generated is not None for one in table.columns)


def drop_table(name: str, plans: Any, *, missing_ok: bool, cascade: bool) -> None:
    """Execute DROP TABLE. Raise 42P01, or 2BP01 if other tables reference the table and CASCADE is not given."""
    server = plans.node
    if name not in server.tables:
        if missing_ok:
            return
        raise SqlError("42P01", f'table "{name}" does not exist')
    table = server.tables[name]
    others = [key for key in table.referenced if key.child is not table]
    if others and not cascade:
        raise SqlError(
            "2BP01",
            f"cannot drop table {bare(table)} because other objects depend on it",
            detail=f"constraint {others[0].name} on table {bare(others[0].child)} depends on table {bare(table)}",
        )
    for key in others:
        key.child.references.remove(key)
        key.child.settle()
    del server.tables[name]
    for key in table.references:
        key.parent.referenced.remove(key)
        key.parent.settle()
