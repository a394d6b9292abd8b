"""The procedures of an article at the Publisher: ``sp_mssync_ins/upd/del_<table>``, as text.

Pure: from an `Article` to SQL. Who creates and drops it is `publisher.publication`.

Rows travel as arrays of row types, because PostgreSQL passes at most 100 arguments and tables have more
columns. Attributes are numbered (``n1``, ``k1``, ``o1``), so that no column name can clash with them.
"""

from __future__ import annotations

from psycopg import sql

from twopc import names
from twopc.articles import Article, Column
from twopc.sql import fragments as f
from twopc.sql.render import render

_OLD_VERSION = "v"


def _signature(*types: sql.Composable) -> sql.Composed:
    return f.COMMA.join([sql.SQL("text"), sql.SQL("text[]"), *types])


class ProcedureTexts:
    """Renders every object of one article at the Publisher."""

    def __init__(self, article: Article, owner: str) -> None:
        self.article = article
        self.owner = sql.Identifier(owner)
        self.values = article.value_columns
        self.new_names = f.numbered("n", len(self.values))
        self.key_names = f.numbered("k", len(article.key))
        self.old_names = f.numbered("o", len(self.values))
        self.place = {column.name: place for place, column in enumerate(self.values)}
        self.table = f.table_of(article)

    # -- names ------------------------------------------------------------------------------------

    def _object(self, name: str) -> sql.Identifier:
        return sql.Identifier(names.SCHEMA, name)

    def procedure(self, operation: str) -> sql.Identifier:
        """Name of ``sp_mssync_<operation>_<table>``."""
        return self._object(
            names.sync_procedure(operation, self.article.schema, self.article.table)
        )

    def row_type(self, what: str) -> sql.Identifier:
        """Name of a row type: ``ins`` all values, ``old`` key and version, ``del`` all old values."""
        return self._object(names.sync_row_type(what, self.article.schema, self.article.table))

    def _array(self, what: str) -> sql.Composed:
        return sql.SQL("{}[]").format(self.row_type(what))

    # -- fragments --------------------------------------------------------------------------------

    def _new(self, column: str) -> str:
        return self.new_names[self.place[column]]

    def _old(self, column: str) -> str:
        return self.old_names[self.place[column]]

    def _key_json(self, attributes: list[str]) -> sql.Composed:
        pairs = [
            sql.SQL("{}, {}").format(sql.Literal(column), sql.Identifier("r", attribute))
            for column, attribute in zip(self.article.key, attributes, strict=True)
        ]
        return sql.SQL("jsonb_build_object({})").format(f.COMMA.join(pairs))

    def _row_json(self) -> sql.Composed:
        """The published columns of the Publisher's row, NULL if there is no such row."""
        columns = f.identifiers((c.name for c in self.article.columns), "t")
        return sql.SQL(
            "case when t.msrepl_tran_version is not null"
            " then (select to_jsonb(held.*) from (select {}) as held) end"
        ).format(columns)

    def _partition(self) -> sql.Composable:
        return sql.SQL("({})").format(f.raw(self.article.row_filter)) if self.article.row_filter else (
            sql.SQL("true")
        )  # fmt: skip

    def _check_partition(self, source: sql.Composable, attributes: list[str]) -> sql.Composable:
        """Refuse rows outside the article's row filter: the original's 21034."""
        if self.article.row_filter is None:
            return sql.SQL("")
        renamed = f.COMMA.join(
            [
                sql.SQL("r.{} as {}").format(sql.Identifier(attribute), sql.Identifier(column.name))
                for attribute, column in zip(attributes, self.values, strict=True)
            ]
        )
        return sql.SQL(
            "if exists (select from (select {renamed} from {source}) as {alias}"
            " where ({condition}) is not true) then\n"
            "        perform msrepl.raise_conflict('not_in_partition', '23514', 21034, {article},"
            " null, null, null, null,\n"
            "            format('a row of %s would be outside the partition of this Subscriber: %s',"
            " {article}, {text}));\n"
            "    end if;"
        ).format(
            renamed=renamed,
            source=source,
            alias=sql.Identifier(self.article.table),
            condition=f.raw(self.article.row_filter),
            article=sql.Literal(self.article.name),
            text=sql.Literal(self.article.row_filter),
        )

    def _check_children(self, operation: str) -> sql.Composable:
        """Refuse what a referential action would change here and the Subscriber did not send.

        The Subscriber sends children first, so what still refers to the row is unknown to it.
        """
        checks: list[sql.Composable] = []
        for key in self.article.referenced_by:
            action = key.on_delete if operation == "del" else key.on_update
            if action not in "cnd":
                continue
            child = sql.Identifier(key.schema, key.table)
            joined = f.pairs_equal("c", key.columns, "t", key.target_columns)
            if operation == "del":
                source: sql.Composable = sql.SQL("unnest($3) as r({})").format(
                    f.identifiers(self.old_names)
                )
                parent = f.pairs_equal(
                    "t", self.article.key, "r", [self._old(k) for k in self.article.key]
                )
                changed: sql.Composable = sql.SQL("true")
            else:
                source = self._both()
                parent = f.pairs_equal("t", self.article.key, "r", self.key_names)
                changed = sql.SQL("({})").format(
                    sql.SQL(" or ").join(
                        [
                            sql.SQL("{} is distinct from {}").format(
                                sql.Identifier("t", name), sql.Identifier("r", self._new(name))
                            )
                            for name in key.target_columns
                        ]
                    )
                )
            checks.append(
                sql.SQL(
                    "if exists (select from {source} join {table} as t on {parent}"
                    " join {child} as c on {joined} where {changed}) then\n"
                    "        perform msrepl.raise_conflict('fk_violation', '23503', 20515, {article},"
                    " null, null, null, null,\n"
                    "            format('rows of %s that the Subscriber does not hold refer to rows of"
                    " %s (%s)', {child_name}, {article}, {constraint}), array[{constraint}]);\n"
                    "    end if;"
                ).format(
                    source=source,
                    table=self.table,
                    parent=parent,
                    child=child,
                    joined=joined,
                    changed=changed,
                    article=sql.Literal(self.article.name),
                    child_name=sql.Literal(names.table_part(key.schema, key.table)),
                    constraint=sql.Literal(key.name),
                )
            )
        return sql.SQL("\n    ").join(checks)

    def _both(self) -> sql.Composed:
        return sql.SQL("rows from (unnest($3), unnest($4)) as r({}, {}, {})").format(
            f.identifiers(self.key_names),
            sql.Identifier(_OLD_VERSION),
            f.identifiers(self.new_names),
        )

    def _stored(self, rows: str) -> sql.Composable:
        """What the Publisher stored otherwise than it was sent, for the Subscriber to take over."""
        if not self.article.writes_back:
            return sql.SQL("")
        held = f.identifiers((c.name for c in self.article.columns), "t")
        sent = f.identifiers(self.new_names, "r")
        kept = f.identifiers((c.name for c in self.values), "t")
        generated = any(c.generated for c in self.article.columns)
        return sql.SQL(
            "select array_agg(row({held})::text) into stored\n"
            "    from unnest({rows}) as r({names}) join {table} as t on {match}\n"
            "    where {differs};"
        ).format(
            held=held,
            rows=sql.SQL(rows),
            names=f.identifiers(self.new_names),
            table=self.table,
            match=f.pairs_equal(
                "t", self.article.key, "r", [self._new(k) for k in self.article.key]
            ),
            differs=sql.SQL("true")
            if generated
            else sql.SQL("row({})::text is distinct from row({})::text").format(kept, sent),
        )

    def _parameters(self, *rows: tuple[str, str]) -> tuple[sql.Composed, sql.Composed]:
        """The parameter list and the list of types that identifies the procedure."""
        parts: list[sql.Composable] = [sql.SQL("branch text"), sql.SQL("sites text[]")]
        types: list[sql.Composable] = []
        for name, what in rows:
            parts.append(sql.SQL("{} {}").format(sql.Identifier(name), self._array(what)))
            types.append(self._array(what))
        if self.article.writes_back and rows[-1][0] == "new_rows":
            parts.append(sql.SQL("inout stored text[]"))
            types.append(sql.SQL("text[]"))
        return f.COMMA.join(parts), _signature(*types)

    # -- objects ----------------------------------------------------------------------------------

    def row_types(self) -> list[str]:
        """The three row types."""

        def create(what: str, pairs: list[tuple[str, Column]]) -> str:
            return render(
                "publisher",
                "row_type",
                type=self.row_type(what),
                attributes=f.attribute_definitions(pairs),
                owner=self.owner,
                comment=sql.Literal(f"Rows of {self.article.name} on their way from a Subscriber"),
            )

        version = self.article.version
        return [
            create("ins", list(zip(self.new_names, self.values, strict=True))),
            create(
                "old",
                [
                    *zip(self.key_names, self.article.key_columns, strict=True),
                    (_OLD_VERSION, version),
                ],
            ),
            create("del", list(zip(self.old_names, self.values, strict=True))),
        ]

    def insert_procedure(self) -> str:
        """``sp_mssync_ins_<table>``."""
        parameters, signature = self._parameters(("new_rows", "ins"))
        return render(
            "publisher",
            "insert_procedure",
            procedure=self.procedure("ins"),
            parameters=parameters,
            signature=signature,
            owner=self.owner,
            table=self.table,
            article=sql.Literal(self.article.name),
            columns=f.identifiers(c.name for c in self.values),
            new_names=f.identifiers(self.new_names),
            new_values=f.identifiers(self.new_names, "r"),
            clashes=self._clashes(),
            key_match=f.pairs_equal(
                "t", self.article.key, "r", [self._new(k) for k in self.article.key]
            ),
            new_version=sql.Identifier(self._new(names.VERSION_COLUMN)),
            before=self._check_partition(
                sql.SQL("unnest($3) as r({})").format(f.identifiers(self.new_names)), self.new_names
            ),
            after=self._stored("$3"),
            comment=sql.Literal(f"Applies the INSERT of a Subscriber to {self.article.name}"),
        )

    def _clashes(self) -> sql.Composable:
        parts = [
            sql.SQL(
                "select {name}, {key}, r.{version}::text, t.msrepl_tran_version::text, {image}\n"
                "            from unnest($3) as r({names}) join {table} as t on {match}\n"
                "            where t.msrepl_tran_version is distinct from r.{version}"
            ).format(
                name=sql.Literal(index),
                key=self._key_json([self._new(k) for k in self.article.key]),
                version=sql.Identifier(self._new(names.VERSION_COLUMN)),
                image=self._row_json(),
                names=f.identifiers(self.new_names),
                table=self.table,
                match=f.pairs_equal("t", columns, "r", [self._new(c) for c in columns]),
            )
            for index, columns in self.article.uniques
            if all(c in self.place for c in columns)
        ]
        return sql.SQL("\n            union all\n            ").join(parts)

    def update_procedure(self) -> str:
        """``sp_mssync_upd_<table>``."""
        parameters, signature = self._parameters(("old_rows", "old"), ("new_rows", "ins"))
        # GENERATED ALWAYS AS IDENTITY takes no value in an UPDATE; the Subscriber refuses to change it.
        settable = [c for c in self.values if c.identity != "a"]
        before = sql.SQL("\n    ").join(
            (self._check_partition(self._both(), self.new_names), self._check_children("upd"))
        )
        return render(
            "publisher",
            "update_procedure",
            procedure=self.procedure("upd"),
            parameters=parameters,
            signature=signature,
            owner=self.owner,
            table=self.table,
            article=sql.Literal(self.article.name),
            old_names=f.identifiers([*self.key_names, _OLD_VERSION]),
            new_names=f.identifiers(self.new_names),
            assignments=f.COMMA.join(
                [
                    sql.SQL("{} = {}").format(
                        sql.Identifier(c.name), sql.Identifier("r", self._new(c.name))
                    )
                    for c in settable
                ]
            ),
            key_match=f.pairs_equal("t", self.article.key, "r", self.key_names),
            new_key_match=f.pairs_equal(
                "u", self.article.key, "r", [self._new(k) for k in self.article.key]
            ),
            old_version=sql.Identifier(_OLD_VERSION),
            new_version=sql.Identifier(self._new(names.VERSION_COLUMN)),
            key_json=self._key_json(self.key_names),
            row_json=self._row_json(),
            alias=sql.Identifier(self.article.table),
            partition=self._partition(),
            before=before,
            after=self._stored("$4"),
            comment=sql.Literal(f"Applies the UPDATE of a Subscriber to {self.article.name}"),
        )

    def delete_procedure(self) -> str:
        """``sp_mssync_del_<table>``."""
        parameters, signature = self._parameters(("old_rows", "del"))
        same = [
            f.same_value(c, sql.Identifier("t", c.name), sql.Identifier("r", self._old(c.name)))
            for c in self.values
            if c.name not in self.article.key
        ]
        old_key = [self._old(k) for k in self.article.key]
        return render(
            "publisher",
            "delete_procedure",
            procedure=self.procedure("del"),
            parameters=parameters,
            signature=signature,
            owner=self.owner,
            table=self.table,
            article=sql.Literal(self.article.name),
            old_names=f.identifiers(self.old_names),
            key_match=f.pairs_equal("t", self.article.key, "r", old_key),
            same=sql.SQL("\n        and ").join(same),
            old_version=sql.Identifier(self._old(names.VERSION_COLUMN)),
            key_json=self._key_json(old_key),
            row_json=self._row_json(),
            alias=sql.Identifier(self.article.table),
            partition=self._partition(),
            before=self._check_children("del"),
            comment=sql.Literal(f"Applies the DELETE of a Subscriber to {self.article.name}"),
        )

    def generated_values(self, expressions: dict[str, str]) -> str:
        """``sp_mssync_gen_<table>``: a block of the values that only the Publisher can make.

        Args:
            expressions: column name to the expression that makes one value, from the catalogs.
        """
        made = [
            sql.SQL("({})::text").format(f.raw(expressions[c.name]))
            for c in self.article.made_by_publisher
        ]
        return render(
            "publisher",
            "generated_values",
            function=self.procedure("gen"),
            values=f.COMMA.join(made),
            owner=self.owner,
            comment=sql.Literal(f"Values that the Publisher generates for {self.article.name}"),
        )

    def all(self, expressions: dict[str, str]) -> list[str]:
        """Every object, in the order of creation."""
        texts = [
            *self.row_types(),
            self.insert_procedure(),
            self.update_procedure(),
            self.delete_procedure(),
        ]
        if self.article.made_by_publisher:
            texts.append(self.generated_values(expressions))
        return texts
