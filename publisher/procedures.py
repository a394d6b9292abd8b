"""SQL text of an article's procedures at the Publisher: ``sp_mssync_ins/upd/del_<table>``.

Pure: from an `Article` to SQL. `twopc.publisher.publication` creates and drops the procedures.

Rows are passed as arrays of row types, because PostgreSQL passes at most 100 arguments and tables have more
columns. A call names the shape of its rows: after an ALTER TABLE, rows of the old shape could be
taken for rows of the new one.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from psycopg import sql

from twopc import names
from twopc.articles import Article, Column
from twopc.publisher.pieces import INSIDE, OLD_VERSION, Pieces
from twopc.sql import fragments as f
from twopc.sql.render import compose, render
from twopc.sql.table_role import path_is_kept, runs_as

_render = partial(render, "twopc.publisher")

#: Operations with a procedure, and with a row type; ``gen`` exists only if the Publisher generates values.
OPERATIONS = ("ins", "upd", "del")
ROW_TYPES = ("ins", "old", "del")


def procedure_name(operation: str, schema: str, table: str) -> sql.Identifier:
    """Return ``sp_mssync_<operation>_<table>``, with its schema."""
    return sql.Identifier(names.SCHEMA, names.sync_procedure(operation, schema, table))


def row_type_name(what: str, schema: str, table: str) -> sql.Identifier:
    """Return a row type: ``ins`` for all values, ``old`` for key and version, ``del`` for all old values."""
    return sql.Identifier(names.SCHEMA, names.sync_row_type(what, schema, table))


def shape_type_name(schema: str, table: str) -> sql.Identifier:
    """Return the type of a call's first argument."""
    return sql.Identifier(names.SCHEMA, names.shape_type(schema, table))


def drop_texts(schema: str, table: str) -> list[str]:
    """Return statements that drop all procedures and types of a table."""
    routines = [
        sql.SQL("drop routine if exists {}").format(procedure_name(operation, schema, table))
        for operation in (*OPERATIONS, "gen")
    ]
    routines += [
        sql.SQL("drop routine if exists {}").format(name)
        for name in (
            *(_change_name(operation, schema, table) for operation in OPERATIONS),
            _make_name(schema, table),
        )
    ]
    types = [
        sql.SQL("drop type if exists {}").format(name)
        for name in (
            *(row_type_name(what, schema, table) for what in ROW_TYPES),
            shape_type_name(schema, table),
        )
    ]
    return [text.as_string(None) for text in (*routines, *types)]


def _change_name(operation: str, schema: str, table: str) -> sql.Identifier:
    return sql.Identifier(names.SCHEMA, names.change_function(operation, schema, table))


def _make_name(schema: str, table: str) -> sql.Identifier:
    return sql.Identifier(names.SCHEMA, names.make_function(schema, table))


def _set_path(path: str) -> sql.Composed:
    return sql.SQL("perform pg_catalog.set_config('search_path', {}, true);").format(
        sql.Literal(path)
    )


class ProcedureTexts:
    """Renders all objects of one article at the Publisher.

    Args:
        path: schemas in which the table's triggers find unqualified names.
    """

    def __init__(self, article: Article, owner: str, path: Sequence[str] = ()) -> None:
        self.article = article
        self.path = path
        self.owner = sql.Identifier(owner)
        self.role = names.table_role(owner, article.schema, article.table)
        """Role with whose privileges the table is changed."""
        self.pieces = Pieces(article)

    # -- names ------------------------------------------------------------------------------------

    def procedure(self, operation: str) -> sql.Identifier:
        """See `procedure_name`."""
        return procedure_name(operation, self.article.schema, self.article.table)

    def row_type(self, what: str) -> sql.Identifier:
        """See `row_type_name`."""
        return row_type_name(what, self.article.schema, self.article.table)

    def _procedure(self, operation: str, rows: Sequence[str], comment: str) -> str:
        """Return the text of ``sp_mssync_<operation>_<table>``."""
        shape = shape_type_name(self.article.schema, self.article.table)
        texts = [sql.SQL("text")] * len(rows)
        return _render(
            "sync_procedure",
            procedure=self.procedure(operation),
            parameters=f.COMMA.join(
                [
                    sql.SQL("shape {}, branch text, sites text[]").format(shape),
                    *(sql.SQL("{} text").format(sql.Identifier(name)) for name in rows),
                ]
            ),
            signature=f.COMMA.join([sql.SQL("{}, text, text[]").format(shape), *texts]),
            change=_change_name(operation, self.article.schema, self.article.table),
            arguments=f.COMMA.join([sql.SQL(f"${n}") for n in range(4, 4 + len(rows))]),
            path_is_kept=path_is_kept(self.article.name),
            owner=self.owner,
            comment=sql.Literal(comment),
        )

    def _change(
        self, operation: str, rows: dict[str, str], comment: str
    ) -> dict[str, sql.Composable]:
        """Return the values common to the templates of functions that change the table.

        Args:
            rows: names of the rows of each parameter, and their types.
        """
        return {
            "function": _change_name(operation, self.article.schema, self.article.table),
            "signature": f.COMMA.join([sql.SQL("text")] * len(rows)),
            "rows": sql.SQL("\n    ").join(
                [
                    sql.SQL("{} {}[];").format(sql.Identifier(name), self.row_type(what))
                    for name, what in rows.items()
                ]
            ),
            "runs_as": runs_as(self.role),
            "owner": sql.Identifier(self.role),
            "caller": self.owner,
            "comment": sql.Literal(comment),
            "opened": self._opened(),
            "closed": self._closed(),
            "denied": self._denied(),
            "table": self.pieces.table,
            "tables": self.pieces.tables(),
            "article": sql.Literal(self.article.name),
        }

    def _denied(self) -> sql.Composable:
        if not self.path:
            return sql.SQL("")
        return compose("twopc.publisher", "trigger_denied", article=sql.Literal(self.article.name))

    def _opened(self) -> sql.Composable:
        """Return the statement that sets the search path for the table's triggers; `_closed` resets it."""
        if not self.path:
            return sql.SQL("")
        path = f.identifiers(dict.fromkeys(["pg_catalog", *self.path, "pg_temp"])).as_string(None)
        return sql.SQL("{}\n            ").format(_set_path(path))

    def _closed(self) -> sql.Composable:
        if not self.path:
            return sql.SQL("")
        return sql.SQL("\n            {}").format(_set_path("pg_catalog, pg_temp"))

    def _joined(self, *checks: sql.Composable) -> sql.Composed:
        return sql.SQL("\n    ").join([check for check in checks if check.as_string(None)])

    # -- objects ----------------------------------------------------------------------------------

    def shape_type(self) -> str:
        """Return the text of the type of a call's first argument."""
        return _render(
            "shape_type",
            type=shape_type_name(self.article.schema, self.article.table),
            shape=sql.Literal(self.article.shape),
            owner=self.owner,
            comment=sql.Literal(f"Shape of the rows of {self.article.name} that a call brings"),
        )

    def row_types(self) -> list[str]:
        """Return the texts of the three row types."""
        pieces = self.pieces

        def create(what: str, pairs: list[tuple[str, Column]]) -> str:
            return _render(
                "row_type",
                type=self.row_type(what),
                attributes=f.attribute_definitions(pairs),
                owner=self.owner,
                comment=sql.Literal(f"Rows of {self.article.name} on their way from a Subscriber"),
            )

        return [
            create("ins", list(zip(pieces.new_names, pieces.values, strict=True))),
            create(
                "old",
                [
                    *zip(pieces.key_names, self.article.key_columns, strict=True),
                    (OLD_VERSION, self.article.version),
                ],
            ),
            create("del", list(zip(pieces.old_names, pieces.values, strict=True))),
        ]

    def insert_procedure(self) -> list[str]:
        """Return the text of ``sp_mssync_ins_<table>``, after the function that it calls."""
        pieces = self.pieces
        rows = pieces.new_rows()
        comment = f"Applies the INSERT of a Subscriber to {self.article.name}"
        rows_of = {"new_rows": "ins"}
        change = _render(
            "change_insert",
            **self._change("ins", rows_of, comment),
            columns=f.identifiers(c.name for c in pieces.values),
            new_names=f.identifiers(pieces.new_names),
            new_values=f.identifiers(pieces.new_names, "r"),
            clashes=pieces.clashes(
                rows, pieces.new_key, pieces.new(names.VERSION_COLUMN), own=False
            ),
            only_key=pieces.only_key(rows, pieces.new_key),
            before=pieces.watch(),
            after=self._joined(pieces.check_partition(), pieces.stored("ins")),
        )
        return [change, self._procedure("ins", [*rows_of], comment)]

    def update_procedure(self) -> list[str]:
        """Return the text of ``sp_mssync_upd_<table>``, after the function that it calls."""
        pieces = self.pieces
        rows = pieces.both_rows()
        comment = f"Applies the UPDATE of a Subscriber to {self.article.name}"
        rows_of = {"old_rows": "old", "new_rows": "ins"}
        change = _render(
            "change_update",
            **self._change("upd", rows_of, comment),
            old_names=f.identifiers([*pieces.key_names, OLD_VERSION]),
            new_names=f.identifiers(pieces.new_names),
            assignments=f.COMMA.join(
                [
                    sql.SQL("{} = {}").format(
                        sql.Identifier(c.name), sql.Identifier("r", pieces.new(c.name))
                    )
                    for c in pieces.settable()
                ]
            ),
            key_match=pieces.table_match("t", pieces.key_names),
            new_key_match=pieces.table_match("u", pieces.new_key),
            old_version=sql.Identifier(OLD_VERSION),
            new_version=sql.Identifier(pieces.new(names.VERSION_COLUMN)),
            salt=f.SALT,
            held=pieces.held(),
            held_match=pieces.held_match(self.article.key, pieces.key_names),
            held_version=sql.Identifier(pieces.held_name(names.VERSION_COLUMN)),
            inside=sql.Identifier(INSIDE),
            key_json=pieces.key_json(pieces.key_names),
            row_json=pieces.row_json(),
            clashes=pieces.clashes(rows, pieces.key_names, OLD_VERSION, own=True),
            only_key=pieces.only_key(rows, pieces.key_names),
            before=self._joined(pieces.check_children("upd"), pieces.watch()),
            after=self._joined(pieces.check_partition(), pieces.stored("upd")),
        )
        return [change, self._procedure("upd", [*rows_of], comment)]

    def delete_procedure(self) -> list[str]:
        """Return the text of ``sp_mssync_del_<table>``, after the function that it calls."""
        pieces = self.pieces
        comment = f"Applies the DELETE of a Subscriber to {self.article.name}"
        rows_of = {"old_rows": "del"}
        change = _render(
            "change_delete",
            **self._change("del", rows_of, comment),
            old_names=f.identifiers(pieces.old_names),
            key_match=pieces.table_match("t", pieces.old_key),
            same=pieces.same_values(),
            old_version=sql.Identifier(pieces.old(names.VERSION_COLUMN)),
            held=pieces.held(),
            held_match=pieces.held_match(self.article.key, pieces.old_key),
            held_version=sql.Identifier(pieces.held_name(names.VERSION_COLUMN)),
            inside=sql.Identifier(INSIDE),
            key_json=pieces.key_json(pieces.old_key),
            row_json=pieces.row_json(),
            only_key=pieces.only_key(pieces.old_rows(), pieces.old_key),
            before=pieces.check_children("del"),
        )
        return [change, self._procedure("del", [*rows_of], comment)]

    def generated_values(self, expressions: dict[str, str]) -> list[str]:
        """Return the text of ``sp_mssync_gen_<table>``, which makes a block of the values that only the Publisher
        can generate, after the function that it calls.

        Args:
            expressions: per column name the expression that makes one value, from the catalogs.
        """
        made = [
            sql.SQL("({})::text").format(f.raw(expressions[c.name]))
            for c in self.article.made_by_publisher
        ]
        comment = sql.Literal(f"Values that the Publisher generates for {self.article.name}")
        make = _make_name(self.article.schema, self.article.table)
        return [
            _render(
                "make_values",
                function=make,
                runs_as=runs_as(self.role),
                values=f.COMMA.join(made),
                owner=sql.Identifier(self.role),
                caller=self.owner,
                comment=comment,
            ),
            _render(
                "generated_values",
                function=self.procedure("gen"),
                make=make,
                path_is_kept=path_is_kept(self.article.name),
                owner=self.owner,
                comment=comment,
            ),
        ]

    def changes(self) -> list[str]:
        """Return the texts that use row filters: all functions and procedures that change the table."""
        return [*self.insert_procedure(), *self.update_procedure(), *self.delete_procedure()]

    def all(self, expressions: dict[str, str]) -> list[str]:
        """Return the texts of all objects, in the order of creation."""
        texts = [
            self.shape_type(),
            *self.row_types(),
            *self.changes(),
        ]
        if self.article.made_by_publisher:
            texts += self.generated_values(expressions)
        return texts
