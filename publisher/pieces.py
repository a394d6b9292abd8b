"""Fragments of the sync procedures' SQL: the Publisher's rows, conflicts, and changes to refuse.

Pure: from an `Article` to fragments. `twopc.publisher.procedures` puts them into the templates.

Rows that a Subscriber sent have the alias ``r``, the Publisher's rows ``t``. Columns of both are numbered
(``n1``, ``k1``, ``o1``, ``c1``), so that no column name of a user can conflict with another name.
"""

from __future__ import annotations

from psycopg import sql

from twopc import names
from twopc.articles import Article, Column, ForeignKey
from twopc.sql import fragments as f
from twopc.sql.render import compose

#: Codes of referential actions that change rows by themselves.
_ACTS = "cnd"
INSIDE = "inside"
OLD_VERSION = "v"


class Pieces:
    """Fragments for one article."""

    def __init__(self, article: Article) -> None:
        self.article = article
        self.table = f.table_of(article)
        self.values = article.value_columns
        self.new_names = f.numbered("n", len(self.values))
        self.old_names = f.numbered("o", len(self.values))
        self.key_names = f.numbered("k", len(article.key))
        self.held_names = f.numbered("c", len(article.columns))
        self.place = {column.name: place for place, column in enumerate(self.values)}
        self._held_place = {column.name: place for place, column in enumerate(article.columns)}

    # -- names ------------------------------------------------------------------------------------

    def new(self, column: str) -> str:
        """Return the attribute that holds a column's new value in a sent row."""
        return self.new_names[self.place[column]]

    def old(self, column: str) -> str:
        """Return the attribute that holds a column's old value in a sent row."""
        return self.old_names[self.place[column]]

    def held_name(self, column: str) -> str:
        """Return the name of a column in `held`."""
        return self.held_names[self._held_place[column]]

    @property
    def new_key(self) -> list[str]:
        """Attributes of the key among the new values."""
        return [self.new(column) for column in self.article.key]

    @property
    def old_key(self) -> list[str]:
        """Attributes of the key among the old values."""
        return [self.old(column) for column in self.article.key]

    # -- rows that were sent ----------------------------------------------------------------------

    def new_rows(self) -> sql.Composed:
        """Return the new rows of an INSERT or UPDATE."""
        return sql.SQL("unnest(sync.new_rows) as r({})").format(f.identifiers(self.new_names))

    def old_rows(self) -> sql.Composed:
        """Return the rows of a DELETE."""
        return sql.SQL("unnest(sync.old_rows) as r({})").format(f.identifiers(self.old_names))

    def both_rows(self) -> sql.Composed:
        """Return the rows of an UPDATE: key and old version beside the new row."""
        return sql.SQL(
            "rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r({}, {}, {})"
        ).format(
            f.identifiers(self.key_names),
            sql.Identifier(OLD_VERSION),
            f.identifiers(self.new_names),
        )

    def tables(self) -> sql.Composed:
        """Return the table and those related to it by foreign keys, which an earlier branch may have changed."""
        article = self.article
        known = {(article.schema, article.table): None}
        known |= {(k.target_schema, k.target_table): None for k in article.references}
        known |= {(k.schema, k.table): None for k in article.referenced_by}
        literals = [
            sql.SQL("{}::regclass").format(sql.Literal(f.qualified(*name).as_string(None)))
            for name in known
        ]
        return sql.SQL("array[{}]::oid[]").format(f.COMMA.join(literals))

    # -- rows of the Publisher --------------------------------------------------------------------

    def held(self) -> sql.Composed:
        """Return the Publisher's rows, published columns only, and whether each row is in the partition.

        Inside, the table has its own name as alias, since a row filter may use the name.
        """
        alias = self.article.table
        return sql.SQL("(select {}, {} from {} as {}) as t({}, {})").format(
            f.identifiers((column.name for column in self.article.columns), alias),
            self._inside(),
            self.table,
            sql.Identifier(alias),
            f.identifiers(self.held_names),
            sql.Identifier(INSIDE),
        )

    def _inside(self) -> sql.Composable:
        """Return the condition that a row is in the partition of the calling Subscriber."""
        conditions: list[sql.Composable] = []
        if self.article.row_filter is not None:
            conditions.append(sql.SQL("({}) is true").format(f.raw(self.article.row_filter)))
        if self.article.parts:
            numbers = sql.SQL(", ").join([sql.Literal(number) for number, _ in self.article.parts])
            cases = [
                sql.SQL("when {} then ({}) is true").format(sql.Literal(number), f.raw(text))
                for number, text in self.article.parts
            ]
            conditions.append(
                sql.SQL(
                    "case (select p.part from msrepl.syssubscriptions as s, unnest(s.parts) as p(part)"
                    " where s.link_role = session_user and p.part in ({})) {} else true end"
                ).format(numbers, sql.SQL(" ").join(cases))
            )
        return f.AND.join(conditions) if conditions else sql.SQL("true")

    def held_match(self, columns: tuple[str, ...], sent: list[str]) -> sql.Composed:
        """Return the condition that a row of `held` has the values that were sent."""
        return f.pairs_equal(
            "t",
            [self.held_name(column) for column in columns],
            "r",
            sent,
            self.equalities(columns),
        )

    def table_match(self, alias: str, sent: list[str]) -> sql.Composed:
        """Return the condition that a row of the table has the key that was sent."""
        key = self.article.key
        return f.pairs_equal(alias, key, "r", sent, self.equalities(key))

    def equalities(self, columns: tuple[str, ...]) -> list[str]:
        """Return the equality operators of columns."""
        by_name = {column.name: column.equality for column in self.article.columns}
        return [by_name[name] for name in columns]

    # -- content of a refusal ---------------------------------------------------------------------

    def key_json(self, attributes: list[str]) -> sql.Composed:
        """Return the key that was sent, as a JSON object, with values of users' types as text; see ``witness.sql``."""
        of_users = {column for user_type in self.article.types for column in user_type.columns}
        pairs = [
            sql.SQL("{}, format('%s', {})" if column in of_users else "{}, {}").format(
                sql.Literal(column), sql.Identifier("r", attribute)
            )
            for column, attribute in zip(self.article.key, attributes, strict=True)
        ]
        return sql.SQL("jsonb_build_object({})").format(f.COMMA.join(pairs))

    def only_key(self, rows: sql.Composable, attributes: list[str]) -> sql.Composed:
        """Return the key that was sent if a single row was sent, otherwise NULL."""
        return sql.SQL("case when sent = 1 then (select {} from {}) end").format(
            self.key_json(attributes), rows
        )

    def row_json(self) -> sql.Composed:
        """Return the Publisher's row as JSON; NULL if there is none, or this Subscriber may not see it."""
        columns = f.COMMA.join(
            [
                sql.SQL("{} as {}").format(sql.Identifier("t", held), sql.Identifier(column.name))
                for held, column in zip(self.held_names, self.article.columns, strict=True)
            ]
        )
        return sql.SQL(
            "case when t.{} then (select to_jsonb(shown.*) from (select {}) as shown) end"
        ).format(sql.Identifier(INSIDE), columns)

    def clashes(
        self, rows: sql.Composable, key: list[str], version: str, *, own: bool
    ) -> sql.Composed:
        """Return a query for the Publisher's rows with the unique values that were sent: a SELECT per index.

        Args:
            key: attributes of the key in `rows`, as the Subscriber knows it.
            own: whether the sent rows are rows of the table, which do not conflict with themselves.
        """
        not_own: sql.Composable = sql.SQL("")
        if own:
            held_key = [self.held_name(column) for column in self.article.key]
            not_own = sql.SQL(
                "\n                where not exists (select from unnest(sync.old_rows) as o({}, {}) where {})"
            ).format(
                f.identifiers(self.key_names),
                sql.Identifier(OLD_VERSION),
                f.pairs_equal(
                    "t", held_key, "o", self.key_names, self.equalities(self.article.key)
                ),
            )
        parts = [
            sql.SQL(
                "select {name}, {key}, r.{version}::text,\n"
                "                    case when t.{inside} then t.{held_version}::text end, {image}\n"
                "                from {rows} join {held} on {match}{not_own}"
            ).format(
                name=sql.Literal(unique.name),
                key=self.key_json(key),
                version=sql.Identifier(version),
                inside=sql.Identifier(INSIDE),
                held_version=sql.Identifier(self.held_name(names.VERSION_COLUMN)),
                image=self.row_json(),
                rows=rows,
                held=self.held(),
                match=self.held_match(
                    unique.columns, [self.new(column) for column in unique.columns]
                ),
                not_own=not_own,
            )
            for unique in self.article.uniques
            if all(column in self.place for column in unique.columns)
        ]
        return sql.SQL("\n                union all\n                ").join(parts)

    # -- changes to refuse ------------------------------------------------------------------------

    def check_partition(self) -> sql.Composable:
        """Return statements that refuse rows now outside the article's row filter: the original's 21034.

        They check the stored rows, so defaults, unpublished columns and triggers count too.
        """
        shown = [self.article.row_filter] if self.article.row_filter is not None else []
        if self.article.parts:
            shown.append("the row filter of its subscription")
        if not shown:
            return sql.SQL("")
        return sql.SQL(
            "select {key} as key into bad\n"
            "    from {rows} join {held} on {match}\n"
            "    where not t.{inside}\n"
            "    limit 1;\n"
            "    if found then\n"
            "        perform msrepl.raise_conflict('not_in_partition', '23514', 21034, {article},"
            " bad.key, null, null, null,\n"
            "            format('a row of %s would be outside the partition of this Subscriber: %s',"
            " {article}, {text}));\n"
            "    end if;"
        ).format(
            key=self.key_json(self.new_key),
            rows=self.new_rows(),
            held=self.held(),
            match=self.held_match(self.article.key, self.new_key),
            inside=sql.Identifier(INSIDE),
            article=sql.Literal(self.article.name),
            text=sql.Literal(", ".join(shown)),
        )

    def check_children(self, operation: str) -> sql.Composable:
        """Return statements that refuse changes by a referential action which the Subscriber did not send.

        The Subscriber sends children first, so rows that still refer to the row are unknown to it.
        """
        checks = [
            self._check_children_of(key, operation)
            for key in self.article.referenced_by
            if (key.on_delete if operation == "del" else key.on_update) in _ACTS
        ]
        return sql.SQL("\n    ").join(checks)

    def _check_children_of(self, key: ForeignKey, operation: str) -> sql.Composed:
        changed: sql.Composable = sql.SQL("true")
        if operation == "del":
            source, sent = self.old_rows(), self.old_key
        else:
            source, sent = self.both_rows(), self.key_names
            changed = sql.SQL("({})").format(
                sql.SQL(" or ").join(
                    [
                        sql.SQL("({}) is not true").format(
                            f.equal(
                                sql.Identifier("t", name),
                                sql.Identifier("r", self.new(name)),
                                self.equalities((name,))[0],
                            )
                        )
                        for name in key.target_columns
                    ]
                )
            )
        not_sent: sql.Composable = sql.SQL("")
        if (key.schema, key.table) == (self.article.schema, self.article.table):
            not_sent = sql.SQL(" and not exists (select from {} where {})").format(
                source, self.table_match("c", sent)
            )
        return compose(
            "twopc.publisher",
            "check_children",
            source=source,
            table=self.table,
            parent=self.table_match("t", sent),
            child=f.qualified(key.schema, key.table),
            joined=f.pairs_equal(
                "c", key.columns, "t", key.target_columns, self.equalities(key.target_columns)
            ),
            changed=changed,
            not_sent=not_sent,
            article=sql.Literal(self.article.name),
            child_name=sql.Literal(names.article_name(key.schema, key.table)),
            constraint=sql.Literal(key.name),
        )

    # -- rows sent back ---------------------------------------------------------------------------

    def watch(self) -> sql.Composable:
        """Return the statement that tells the witness whose rows a trigger of this table may change again."""
        if not self.article.writes_back:
            return sql.SQL("")
        return sql.SQL("perform set_config('msrepl.syncing', {}, true);").format(
            sql.Literal(self.article.name)
        )

    def stored(self, operation: str) -> sql.Composable:
        """Return the query for rows stored with other values than those sent, for the Subscriber to take over."""
        asked = sql.SQL("current_setting('msrepl.take', true) = 'on'")
        generated = any(column.generated for column in self.article.columns)
        if not (self.article.writes_back or generated):
            return sql.SQL("")
        differs: sql.Composable = sql.SQL("row({})::text is distinct from row({})::text").format(
            f.identifiers((c.name for c in self.values), "t"), f.identifiers(self.new_names, "r")
        )
        if generated:
            differs = sql.SQL("({} or {})").format(asked, differs)
        return compose(
            "twopc.publisher",
            "stored_rows",
            condition=sql.SQL("true") if self.article.writes_back else asked,
            held=f.identifiers((c.name for c in self.article.columns), "t"),
            rows=self.new_rows(),
            table=self.table,
            match=self.table_match("t", self.new_key),
            differs=differs,
            key_json=self.key_json(self.new_key),
            key=sql.Literal(names.stored_key(operation, self.article.schema, self.article.table)),
            article=sql.Literal(self.article.name),
        )

    def same_values(self) -> sql.Composed:
        """Return the condition that all published values except the key equal those of a DELETE."""
        return sql.SQL("\n            and ").join(
            [
                f.same_value(c, sql.Identifier("t", c.name), sql.Identifier("r", self.old(c.name)))
                for c in self.values
                if c.name not in self.article.key
            ]
        )

    def settable(self) -> list[Column]:
        """Return the columns that an UPDATE may set: GENERATED ALWAYS AS IDENTITY takes no value, and the
        Subscriber refuses to change it.
        """
        return [column for column in self.values if column.identity != "a"]
