"""The statements inside an article's procedures at a Subscriber.

Pure: from an `Article` and the Subscriber's own table to fragments. `texts` puts them into the templates. A
`ValueSource` says where a value of a call is found: in a parameter, in a field of a row-typed parameter, or in a
column of a set of calls. The names of all these are generated; the table has the alias ``t``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from psycopg import sql

from twopc.articles import Article, Column, Table
from twopc.propagation import CallParameter, Format, bitmask_bytes, parameters
from twopc.sql import fragments as f


@dataclass(frozen=True, slots=True)
class ValueSource:
    """Where the procedure finds the values of a call."""

    value: Callable[[CallParameter], sql.Composable]
    byte: Callable[[int], sql.Composable] = lambda place: f.raw(f"byte{place + 1}")
    """Variable that holds a byte of the bitmask; extracted once, since every access to a bytea is expensive."""

    def __call__(self, parameter: CallParameter) -> sql.Composable:
        return self.value(parameter)


_INDENT = sql.SQL(",\n            ")


class Bodies:
    """Statements for one operation of an article in one format.

    Args:
        held: the Subscriber's table; None if the table was made from the article.
        types: for each column of a domain, the domain's base type: a call may hold a NULL that the
            domain does not allow.
    """

    def __init__(
        self,
        article: Article,
        operation: str,
        form: Format,
        *,
        held: Table | None = None,
        types: Mapping[str, str] | None = None,
    ) -> None:
        self.article = article
        self.operation = operation
        self.form = form
        self.types = types or {}
        self.table = f.table_of(article)
        self.parameters = parameters(article, operation, form)
        self._by_name = {parameter.name: parameter for parameter in self.parameters}
        self._place = {column.name: place for place, column in enumerate(article.value_columns)}
        own = {column.name: column for column in held.columns} if held is not None else {}
        self.always = [
            c for c in article.value_columns if c.name in own and own[c.name].identity == "a"
        ]
        """Columns that UPDATE cannot set: GENERATED ALWAYS AS IDENTITY at the Subscriber."""
        self.computed = [
            c
            for c in article.columns
            if c.generated and c.name in own and not own[c.name].generated
        ]
        """Columns that are generated at the Publisher but not at the Subscriber."""

    # -- values of a call -------------------------------------------------------------------------

    def type_of(self, parameter: CallParameter) -> str:
        """Return the parameter's SQL type, with a domain replaced by its base type."""
        if parameter.column is None:
            return parameter.type
        return self.types.get(parameter.column.name, parameter.type)

    @property
    def has_bitmap(self) -> bool:
        """Whether a call carries a bitmask of the changed columns."""
        return "bitmap" in self._by_name

    def new(self, column: Column, source: ValueSource) -> sql.Composable:
        """Return the expression for a column's new value."""
        return source(self._by_name[f"c{self._place[column.name] + 1}"])

    def original_key(self, source: ValueSource) -> list[sql.Composable]:
        """Return the expressions for the key by which the row is found."""
        if "pkc1" in self._by_name:
            return [source(self._by_name[f"pkc{n}"]) for n in range(1, len(self.article.key) + 1)]
        return [source(self._by_name[f"old_c{self._place[name] + 1}"]) for name in self.article.key]

    def same_update(self, source: ValueSource) -> list[sql.Composable]:
        """Return the expressions that are equal in two calls of which the later one supersedes the earlier one."""
        mask = [source(self._by_name["bitmap"])] if self.has_bitmap else []
        return [*self.original_key(source), *mask]

    def key_stays(self, source: ValueSource) -> sql.Composed:
        """Return the condition that a call keeps the key; a changed key may later be that of another row."""
        return f.AND.join(
            [
                sql.SQL("({}row({})::text is not distinct from row({})::text)").format(
                    self.bit_is_clear(column, source), self.new(column, source), old
                )
                for column, old in zip(
                    self.article.key_columns, self.original_key(source), strict=True
                )
            ]
        )

    def new_key(self, source: ValueSource) -> list[sql.Composable]:
        """Return the expressions for the key that the row has after the update."""
        columns = self.article.key_columns
        if not self.has_bitmap:
            return [self.new(column, source) for column in columns]
        return [
            sql.SQL("case {} when {} then {} else {} end").format(
                *self._bit(column, source), self.new(column, source), old
            )
            for column, old in zip(columns, self.original_key(source), strict=True)
        ]

    def _bit(self, column: Column, source: ValueSource) -> tuple[sql.Composed, sql.Literal]:
        """Return the expression for the column's bit, and its value when set: ``byte1 & 2``, ``2``."""
        place = self._place[column.name]
        mask = sql.Literal(1 << (place & 7))
        return sql.SQL("{} & {}").format(source.byte(place >> 3), mask), mask

    def bytes(self, source: ValueSource) -> sql.Composed:
        """Return declarations of the variables that `ValueSource.byte` names."""
        return sql.SQL("\n    ").join(
            [
                sql.SQL("{} constant integer := get_byte({}, {});").format(
                    source.byte(place), source(self._by_name["bitmap"]), sql.Literal(place)
                )
                for place in range(bitmask_bytes(len(self._place)))
            ]
        )

    def key_changed(self, source: ValueSource) -> sql.Composed:
        """Return the condition that the bit of a key column is set."""
        masks: dict[int, int] = {}
        for column in self.article.key_columns:
            place = self._place[column.name]
            masks[place >> 3] = masks.get(place >> 3, 0) | 1 << (place & 7)
        return sql.SQL(" or ").join(
            [
                sql.SQL("{} & {} <> 0").format(source.byte(byte), sql.Literal(mask))
                for byte, mask in sorted(masks.items())
            ]
        )

    def bit_is_clear(self, column: Column, source: ValueSource) -> sql.Composable:
        """Return ``byte1 & 2 = 0 or``; nothing if the format has no bitmask."""
        if not self.has_bitmap:
            return sql.SQL("")
        return sql.SQL("{} = 0 or ").format(self._bit(column, source)[0])

    # -- statements -------------------------------------------------------------------------------

    def insert_columns(self) -> sql.Composed:
        """Return the column list of an INSERT; the table fills the other columns itself."""
        return f.identifiers(column.name for column in self.article.value_columns)

    def overriding(self) -> sql.SQL:
        """Return OVERRIDING SYSTEM VALUE if an identity column takes the Publisher's values; otherwise nothing."""
        return sql.SQL(" overriding system value" if self.always else "")

    def insert_values(self, source: ValueSource) -> sql.Composed:
        """Return the values for `insert_columns`."""
        return f.COMMA.join([self.new(column, source) for column in self.article.value_columns])

    def match(self, key: Sequence[sql.Composable]) -> sql.Composed:
        """Return the condition that a row of the table has this key."""
        return f.AND.join(
            [
                f.equal(f.raw("t.") + sql.Identifier(column.name), value, column.equality)
                for column, value in zip(self.article.key_columns, key, strict=True)
            ]
        )

    def update(
        self, source: ValueSource, *, key: bool, tail: sql.Composable | None = None
    ) -> sql.Composable:
        """Return an UPDATE of the row with the original key.

        Args:
            key: whether key columns are set as well.
            tail: ``from ...``, for a set of calls.
        """
        assignments = self._assignments(source, key=key)
        match = self.match(self.original_key(source))
        if not assignments:  # no columns but the key: only check that the row exists
            return sql.SQL("perform from {} as t where {}").format(self.table, match)
        return sql.SQL("update {} as t set\n            {}{}\n        where {}").format(
            self.table, _INDENT.join(assignments), tail or sql.SQL(""), match
        )

    def _assignments(self, source: ValueSource, *, key: bool) -> list[sql.Composed]:
        always = {column.name for column in self.always}
        results = []
        for column in self.article.value_columns:
            if column.name in always or (column.name in self.article.key and not key):
                continue
            value = self.updated(column, source, f.raw("t.") + sql.Identifier(column.name))
            results.append(sql.SQL("{} = {}").format(sql.Identifier(column.name), value))
        return results

    def updated(self, column: Column, source: ValueSource, held: sql.Composable) -> sql.Composable:
        """Return the expression for a column's value after an update: the new value, or `held` if unchanged."""
        if not self.has_bitmap:
            return self.new(column, source)
        return sql.SQL("case {} when {} then {} else {} end").format(
            *self._bit(column, source), self.new(column, source), held
        )

    def delete(self, source: ValueSource, tail: sql.Composable | None = None) -> sql.Composed:
        """Return a DELETE of the row with the original key."""
        return sql.SQL("delete from {} as t{}\n        where {}").format(
            self.table, tail or sql.SQL(""), self.match(self.original_key(source))
        )

    # -- parts outside the statement --------------------------------------------------------------

    def key_json(self, source: ValueSource) -> sql.Composed:
        """Return the original key as a JSON object."""
        pairs = [
            sql.SQL("{}, {}").format(sql.Literal(name), value)
            for name, value in zip(self.article.key, self.original_key(source), strict=True)
        ]
        return sql.SQL("jsonb_build_object({})").format(f.COMMA.join(pairs))

    def guard(self, source: ValueSource) -> sql.Composable:
        """Return statements that refuse a change of an identity column which the Subscriber's table cannot make."""
        if self.operation != "upd":
            return sql.SQL("")
        checks = []
        for column in self.always:
            bit: sql.Composable = sql.SQL("")
            if self.has_bitmap:
                bit = sql.SQL("{} <> 0 and ").format(self._bit(column, source)[0])
            checks.append(
                sql.SQL(
                    "if {bit}exists (\n        select from {table} as t\n"
                    "        where {match} and t.{column}::text is distinct from {value}::text\n"
                    "    ) then\n"
                    "        raise exception 'identity column % of % is GENERATED ALWAYS at the Subscriber"
                    " and cannot be updated (20510)', {name}, {article}\n"
                    "            using errcode = 'generated_always',\n"
                    "                  hint = 'ALTER TABLE ... ALTER COLUMN ... SET GENERATED BY DEFAULT,"
                    " then twopc regenerate';\n"
                    "    end if;\n    "
                ).format(
                    bit=bit,
                    table=self.table,
                    match=self.match(self.original_key(source)),
                    column=sql.Identifier(column.name),
                    value=self.new(column, source),
                    name=sql.Literal(column.name),
                    article=sql.Literal(self.article.name),
                )
            )
        return sql.Composed(checks)

    def compute(self, source: ValueSource) -> sql.Composable:
        """Return the statement that computes the columns generated only by the Publisher's table.

        The statement is dynamic, so that no name in the expression is taken for a parameter.
        """
        if self.operation == "del" or not self.computed:
            return sql.SQL("")
        slots: list[sql.Composable] = [
            sql.SQL("${}").format(sql.Literal(n)) for n in range(1, len(self.article.key) + 1)
        ]
        return sql.SQL("\n    execute {} using {};").format(
            sql.Literal(self._compute_text(self.match(slots))),
            f.COMMA.join(self.new_key(source)),
        )

    def compute_set(self, source: ValueSource) -> sql.Composable:
        """Return the statement of `compute` for all rows of a set of calls."""
        if self.operation == "del" or not self.computed:
            return sql.SQL("")
        inside = sql.SQL("({}) in (select {} from unnest($1) as c)").format(
            f.identifiers(self.article.key, "t"), f.COMMA.join(self.new_key(source))
        )
        return sql.SQL("\n        execute {} using rows;").format(
            sql.Literal(self._compute_text(inside))
        )

    def _compute_text(self, condition: sql.Composable) -> str:
        assignments = [
            sql.SQL("{} = ({})").format(sql.Identifier(column.name), f.raw(str(column.default)))
            for column in self.computed
        ]
        return (
            sql.SQL("update {} as t set {} where {}")
            .format(self.table, f.COMMA.join(assignments), condition)
            .as_string(None)
        )
