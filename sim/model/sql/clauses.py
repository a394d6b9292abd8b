"""The clauses of statements that the model has; any other clause is refused by name.

The parser accepts more of PostgreSQL's language than the model compiles, and a compiler reads only the parts that
it knows. Each tree is therefore compared with this table first, so that no part of a statement is silently ignored.
"""

from __future__ import annotations

from typing import Any


def _set_of(words: str) -> frozenset[str]:
    return frozenset(words.split())


#: Arguments that every node may have: operands, and notes of the parser itself.
_ARGUMENTS_OF_ALL = _set_of("this expression expressions")
#: Further arguments that a node may have, by its kind.
_ARGUMENTS_OF = {
    kind: _set_of(words)
    for kind, words in {
        "Alias": "alias",
        "Alter": "kind actions exists",
        "AlterColumn": "default",
        "ArrayAgg": "nulls_excluded",
        "Between": "low high",
        "Case": "ifs default",
        "Cast": "to",
        "Column": "table",
        "ColumnConstraint": "kind",
        "ColumnDef": "kind constraints exists",
        "Count": "big_int",
        "Create": "kind properties unique exists replace",
        "CurrentTimestamp": "",
        "DPipe": "safe",
        "DataType": "nested",
        "Delete": "where using returning",
        "Div": "typed safe",
        "ExplodingGenerateSeries": "start end step",
        "ForeignKey": "reference options",
        "GenerateSeries": "start end step",
        "Greatest": "ignore_nulls",
        "Identifier": "quoted",
        "If": "true",
        "In": "query",
        "Index": "table params unique",
        "IndexParameters": "columns where",
        "Insert": "conflict returning default",
        "Interval": "unit",
        "Is": "negate",
        "Join": "on side kind",
        "Least": "ignore_nulls",
        "Literal": "is_string",
        "Lock": "update key wait",
        "NotNullColumnConstraint": "allow_null",
        "OnConflict": "action conflict_keys constraint where",
        "Ordered": "desc nulls_first",
        "PrimaryKey": "include options",
        "PrimaryKeyColumnConstraint": "include options",
        "Reference": "options",
        "Replace": "replacement",
        "Round": "decimals",
        "Select": "from_ where group having order distinct limit offset joins locks",
        "Subquery": "alias",
        "Substring": "start length",
        "Table": "alias db",
        "TableAlias": "columns",
        "UniqueColumnConstraint": "include options nulls",
        "Update": "where from_ returning",
        "Values": "alias",
    }.items()
}
#: PostgreSQL's name of a clause, where the parser has another name for it.
_NAMES = {
    "with_": "WITH",
    "windows": "WINDOW",
    "qualify": "QUALIFY",
    "sample": "TABLESAMPLE",
    "into": "SELECT INTO",
    "only": "ONLY",
    "on": "DISTINCT ON",
    "rollup": "ROLLUP",
    "cube": "CUBE",
    "grouping_sets": "GROUPING SETS",
    "method": "this kind of join",
    "using": "USING",
    "order": "ORDER BY",
    "overriding": "OVERRIDING",
    "laterals": "LATERAL",
    "lateral": "LATERAL",
    "ordinality": "WITH ORDINALITY",
    "symmetric": "BETWEEN SYMMETRIC",
    "concurrently": "CONCURRENTLY",
    "direction": "FETCH FIRST",
    "limit_options": "FETCH FIRST",
}
#: Properties of CREATE TABLE and CREATE INDEX that the model accepts.
_PROPERTIES = frozenset({"TemporaryProperty"})
#: Constraints of a column, and elements of CREATE TABLE's list in parentheses.
_CONSTRAINTS = _set_of(
    "CheckColumnConstraint ComputedColumnConstraint DefaultColumnConstraint "
    "GeneratedAsIdentityColumnConstraint GeneratedAsRowColumnConstraint NotNullColumnConstraint "
    "PrimaryKeyColumnConstraint Reference UniqueColumnConstraint"
)
_PARTS = _set_of(
    "CheckColumnConstraint ColumnDef Constraint ForeignKey PrimaryKey UniqueColumnConstraint"
)


def foreign(tree: Any) -> str:
    """Return the first clause of a statement that the model does not have; empty if there is none.

    A statement whose kind the model does not have is not examined: it is refused as a whole.
    """
    if type(tree).__name__ not in _ARGUMENTS_OF:
        return ""
    results = (_foreign_in(node, tree) for node in tree.walk())
    return next(filter(None, results), "")


def _foreign_in(node: Any, tree: Any) -> str:
    kind = type(node).__name__
    known = _ARGUMENTS_OF.get(kind, frozenset())
    if kind == "DataType" and "kind" in node.args:  # a name that no type of PostgreSQL's has
        return f"the type {_text(node)}"
    for name, value in node.args.items():
        if (
            value not in (None, False, [], "")
            and name not in _ARGUMENTS_OF_ALL
            and name not in known
        ):
            return (
                _NAMES.get(name) or f"{name.strip('_').replace('_', ' ').upper()} in {_text(node)}"
            )
    if kind == "ColumnConstraint" and type(node.args["kind"]).__name__ not in _CONSTRAINTS:
        return f"{_text(node)} of a column"
    parts: list[Any] = []
    if kind == "Properties":
        parts = [one for one in node.expressions if type(one).__name__ not in _PROPERTIES]
    elif kind == "Schema" and node.parent is tree and type(tree).__name__ == "Create":
        parts = [one for one in node.expressions if type(one).__name__ not in _PARTS]
    elif kind == "Alter":
        parts = [one for one in node.args.get("actions") or () if not _is_known(one)]
    if parts:
        of = f"{type(tree).__name__.upper()} {tree.args.get('kind') or ''}".rstrip()
        return f"{of} … {_text(parts[0]) or 'WITH'}"
    if kind == "Create" and node.args.get("expression") is not None:
        return f"CREATE {node.args['kind']} AS"
    return ""


def _is_known(action: Any) -> bool:
    """Whether an action of ALTER TABLE is one that the model performs."""
    kind = type(action).__name__
    return kind in ("AddConstraint", "ColumnDef") or (
        kind == "AlterColumn" and action.args.get("default") is not None
    )


def _text(node: Any) -> str:
    return str(node.sql(dialect="postgres"))
