"""Pieces of the sync procedures' SQL: what the Publisher holds, what clashes, what must not happen.

Pure: from an `Article` to fragments. `twopc.publisher.procedures` puts them into the templates.

Rows that a Subscriber sent stand behind the alias ``r``, the Publisher's behind ``t``. Columns of both are
numbered (``n1``, ``k1``, ``o1``, ``c1``), so that no column name of a user can clash with anything.
"""

from __future__ import annotations

from psycopg import sql

from twopc import names
from twopc.articles import Article, Column, ForeignKey
from twopc.sql import fragments as f
from twopc.sql.render import compose

#: What a referential action is called that changes rows by itself.
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
        """Where a column's new value is in a row that was sent."""
        return self.new_names[self.place[column]]

    def old(self, column: str) -> str:
        """Where a column's old value is in a row that was sent."""
        return self.old_names[self.place[column]]

    def held_name(self, column: str) -> str:
        """What a column is called in `held`."""
        return self.held_names[self._held_place[column]]

    @property
    def new_key(self) -> list[str]:
        """The key's attributes among the new values."""
        return [self.new(column) for column in self.article.key]

    @property
    def old_key(self) -> list[str]:
        """The key's attributes among the old values."""
        return [self.old(column) for column in self.article.key]

    # -- rows that were sent ----------------------------------------------------------------------

    def new_rows(self) -> sql.Composed:
        """The new rows of an INSERT or UPDATE."""
        return sql.SQL("unnest(sync.new_rows) as r({})").format(f.identifiers(self.new_names))

    def old_rows(self) -> sql.Composed:
        """The rows of a DELETE."""
        return sql.SQL("unnest(sync.old_rows) as r({})").format(f.identifiers(self.old_names))

    def both_rows(self) -> sql.Composed:
        """Key and old version beside the new row: an UPDATE."""
        return sql.SQL(
            "rows from (unnest(sync.old_rows), unnest(sync.new_rows)) as r({}, {}, {})"
        ).format(
            f.identifiers(self.key_names),
            sql.Identifier(OLD_VERSION),
            f.identifiers(self.new_names),
        )

    def tables(self) -> sql.Composed:
        """The table and those that its foreign keys tie to it: what a branch of before may have changed."""
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
        """The Publisher's rows, published columns only, and whether each is in the partition.

        The table goes by its own name inside, since a row filter may use it.
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
        """A row is in the partition of the Subscriber that calls."""
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
        """A row of `held` has the values that were sent."""
        return f.pairs_equal(
            "t",
            [self.held_name(column) for column in columns],
            "r",
            sent,
            self.equalities(columns),
        )

    def table_match(self, alias: str, sent: list[str]) -> sql.Composed:
        """A row of the table has the key that was sent."""
        key = self.article.key
        return f.pairs_equal(alias, key, "r", sent, self.equalities(key))

    def equalities(self, columns: tuple[str, ...]) -> list[str]:
        """The operators by which columns are equal."""
        by_name = {column.name: column.equality for column in self.article.columns}
        return [by_name[name] for name in columns]

    # -- what a refusal shows ---------------------------------------------------------------------

    def key_json(self, attributes: list[str]) -> sql.Composed:
        """The key that was sent."""
        pairs = [
            sql.SQL("{}, {}").format(sql.Literal(column), sql.Identifier("r", attribute))
            for column, attribute in zip(self.article.key, attributes, strict=True)
        ]
        return sql.SQL("jsonb_build_object({})").format(f.COMMA.join(pairs))

    def only_key(self, rows: sql.Composable, attributes: list[str]) -> sql.Composed:
        """The key that was sent if it was one, else NULL."""
        return sql.SQL("case when sent = 1 then (select {} from {}) end").format(
            self.key_json(attributes), rows
        )

    def row_json(self) -> sql.Composed:
        """The Publisher's row; NULL if there is none, or none that this Subscriber may see."""
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
        """Rows of the Publisher that hold unique values which were sent, a SELECT per unique index.

        Args:
            key: attributes of the key in `rows`, as the Subscriber knows it.
            own: the rows that were sent are rows of the table and do not clash with themselves.
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

    # -- what must not happen ---------------------------------------------------------------------

    def check_partition(self) -> sql.Composable:
        """Refuse rows that are now outside the article's row filter: the original's 21034.

        The stored rows are looked at, so defaults, unpublished columns and triggers count too.
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
        """Refuse what a referential action would change here and the Subscriber did not send.

        The Subscriber sends children first, so what still refers to the row is unknown to it.
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

    # -- what goes back ---------------------------------------------------------------------------

    def watch(self) -> sql.Composable:
        """Let the witness know whose rows a trigger of this table may change again."""
        if not self.article.writes_back:
            return sql.SQL("")
        return sql.SQL("perform set_config('msrepl.syncing', {}, true);").format(
            sql.Literal(self.article.name)
        )

    def stored(self, operation: str) -> sql.Composable:
        """What the Publisher stored otherwise than it was sent, for the Subscriber to take over."""
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
        """Every published value of a row is what a DELETE says it was; the key is compared apart."""
        return sql.SQL("\n            and ").join(
            [
                f.same_value(c, sql.Identifier("t", c.name), sql.Identifier("r", self.old(c.name)))
                for c in self.values
                if c.name not in self.article.key
            ]
        )

    def settable(self) -> list[Column]:
        """What an UPDATE may set: GENERATED ALWAYS AS IDENTITY takes no value, and the Subscriber
        refuses to change it."""
        return [column for column in self.values if column.identity != "a"]
