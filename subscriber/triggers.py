"""SQL text of an article's triggers at a Subscriber.

Pure: from an `Article` and the Subscriber's own table to SQL. `twopc.subscriber.subscription` creates and drops the
triggers. They keep the default firing mode, so they do nothing under
``session_replication_role = replica``: this is the original's NOT FOR REPLICATION.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from psycopg import sql

from twopc import names
from twopc.sql import fragments as f
from twopc.sql.render import render
from twopc.sql.table_role import path_is_kept, runs_as
from twopc.subscriber.capture import LINK, NOTHING, SEALED, BranchNames, CaptureTexts
from twopc.subscriber.trigger_order import OPERATIONS, by_row

_render = partial(render, "twopc.subscriber")

__all__ = ["LINK", "BranchNames", "TriggerTexts"]

_REFERENCING = {
    "ins": "new table as inserted",
    "upd": "old table as deleted new table as inserted",
    "del": "old table as deleted",
}


class TriggerTexts(CaptureTexts):
    """Renders all objects of one article at a Subscriber; see `CaptureTexts`."""

    # -- functions --------------------------------------------------------------------------------

    def stamp_version(self) -> str:
        """Return the text of the function that gives an updated row its new version."""
        always = [c for c in self.article.value_columns if c.identity == "a"]
        guard: sql.Composable = NOTHING
        if always:
            changed = sql.SQL(" or ").join(
                [
                    sql.SQL("{} is distinct from {}").format(
                        sql.Identifier("new", c.name), sql.Identifier("old", c.name)
                    )
                    for c in always
                ]
            )
            guard = sql.SQL(
                "if {changed} then\n"
                "        raise exception 'identity column {column} of {table} cannot be updated (20510)'\n"
                "            using errcode = 'generated_always';\n"
                "    end if;"
            ).format(
                changed=changed,
                column=_plain(always[0].name),
                table=_plain(self.article.name),
            )
        return _render(
            "stamp_version",
            function=self.function("ver"),
            guard=guard,
            salt=f.SALT,
            seal=sql.SQL("\n    new.msrepl_tran_version := {};").format(SEALED)
            if self.moves_rows
            else NOTHING,
            owner=self.owner,
            comment=self._comment("Gives a new version to updated rows of"),
        )

    def fill_generated(self) -> list[str]:
        """Return the texts of the functions that fetch values that only the Publisher can generate, and fill them in."""
        made = self.article.made_by_publisher
        generator = sql.Identifier(
            names.SCHEMA, names.sync_procedure("gen", self.article.schema, self.article.table)
        )
        common = {
            "missing": sql.SQL(" or ").join(
                [
                    sql.SQL("{} is null").format(sql.Identifier("new", column.name))
                    for column in made
                ]
            ),
            "setting": sql.Literal(
                names.generated_setting(self.article.schema, self.article.table)
            ),
            "owner": self.owner,
        }
        return [
            _render(
                "fetch_block",
                function=self.function("fetch"),
                generator=sql.Literal(generator.as_string(None)),
                comment=self._comment("Fetches values that the Publisher makes for"),
                **common,
            ),
            _render(
                "fill_generated",
                function=self.function("gen"),
                take=sql.SQL("\n        ").join(
                    [
                        sql.SQL(
                            "{target} := coalesce({target}, (made ->> {place})::{type});"
                        ).format(
                            target=sql.Identifier("new", column.name),
                            place=sql.Literal(place),
                            type=f.raw(column.type),
                        )
                        for place, column in enumerate(made)
                    ]
                ),
                comment=self._comment("Fills in values that the Publisher makes for"),
                **common,
            ),
        ]

    def write_back(self) -> list[str]:
        """Return the texts of the type of rows that the Publisher returns, and of the functions that store them."""
        places = f.numbered("n", len(self.article.columns))
        pairs = list(zip(places, self.article.columns, strict=True))
        place = {column.name: name for name, column in pairs}
        local = {column.name: column for column in self.local.columns}
        settable = [
            column.name
            for column in self.article.columns
            if not local[column.name].generated and local[column.name].identity != "a"
        ]
        return [
            _render(
                "row_type",
                type=self.row_type(),
                attributes=f.attribute_definitions(pairs),
                owner=self.owner,
                comment=self._comment("Rows as the Publisher stored them, of"),
            ),
            _render(
                "store_back",
                function=self.function("store"),
                runs_as=runs_as(self.table_role),
                table=self.table,
                table_name=sql.Literal(self.article.name),
                row_type=self.row_type(),
                attributes=f.identifiers(places),
                assignments=f.COMMA.join(
                    [
                        sql.SQL("{} = {}").format(
                            sql.Identifier(name), sql.Identifier("r", place[name])
                        )
                        for name in settable
                    ]
                ),
                match=f.pairs_equal(
                    "t", self.article.key, "r", [place[key] for key in self.article.key]
                ),
                owner=sql.Identifier(self.table_role),
                caller=self.owner,
                comment=self._comment("Writes rows as the Publisher stored them in"),
            ),
            _render(
                "write_back",
                function=self.function("back"),
                store=self.function("store"),
                path_is_kept=path_is_kept(self.article.name),
                owner=self.owner,
                comment=self._comment("Takes over what the Publisher stored in"),
            ),
        ]

    def functions(self) -> list[str]:
        """Return the texts of all types and functions, in the order of creation."""
        texts = [self.stamp_version()]
        if self.takes_back:
            texts += self.write_back()
        texts += [self.capture_insert(), self.capture_update(), self.capture_delete()]
        if self.article.made_by_publisher:
            texts += self.fill_generated()
        return texts

    # -- triggers ---------------------------------------------------------------------------------

    def triggers(self, partitions: Sequence[sql.Identifier] = ()) -> list[str]:
        """Return the texts of all triggers of the table and of its partitions.

        A statement fires the statement triggers only of the table that it names, so each partition has its
        own; PostgreSQL copies row triggers to partitions.
        """
        renew = "renew_version_unless_moved" if self.moves_rows else "renew_version"
        texts = [
            self._row_trigger("ver", "update", self.function("ver")),
            self._row_trigger("new", "insert", sql.Identifier(names.SCHEMA, renew)),
        ]
        if self.article.made_by_publisher:
            texts += [
                self._row_trigger(what, "insert", self.function(what)) for what in ("fetch", "gen")
            ]
        for where in (self.table, *partitions):
            texts += self._statement_triggers(where)
        return texts

    def _statement_triggers(self, where: sql.Identifier) -> list[str]:
        texts = []
        if self.may_hold:
            texts.append(
                self._plain_trigger("open", "before insert or update or delete", where, "enter")
            )
        for operation, (verb, _) in OPERATIONS.items():
            rows = by_row(self.local, operation)
            texts.append(
                _render(
                    "capture_trigger",
                    trigger=self.trigger(operation),
                    event=sql.SQL(verb.lower()),
                    table=where,
                    referencing=sql.SQL(_REFERENCING[operation]),
                    each=sql.SQL("row" if rows else "statement"),
                    function=self.function(operation),
                )
            )
            if rows and self.may_hold:
                texts.append(
                    self._plain_trigger(f"end_{operation}", f"after {verb.lower()}", where, "close")
                )
        texts.append(
            render(
                "twopc",
                "refuse_truncate_trigger",
                trigger=sql.Identifier(
                    names.truncate_trigger(self.article.schema, self.article.table)
                ),
                table=where,
            )
        )
        return texts

    def _plain_trigger(self, what: str, when: str, where: sql.Identifier, function: str) -> str:
        return _render(
            "statement_trigger",
            trigger=self.trigger(what),
            when=sql.SQL(when),
            table=where,
            function=sql.Identifier(names.SCHEMA, f"{function}_statement"),
        )

    def _row_trigger(self, what: str, event: str, function: sql.Identifier) -> str:
        return _render(
            "row_trigger",
            trigger=self.trigger(what),
            event=sql.SQL(event),
            table=self.table,
            function=function,
        )


def _plain(text: str) -> sql.SQL:
    """Return a name for use inside a RAISE format string, with quotes and percent signs doubled."""
    return sql.SQL(text.replace("'", "''").replace("%", "%%"))
