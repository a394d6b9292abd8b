"""The triggers of an article at a Subscriber, as text.

Pure: from an `Article` and the Subscriber's own table to SQL. Who creates and drops them is
`subscriber.subscription`. The functions keep the default firing mode, so they do nothing under
``session_replication_role = replica``: that is the original's NOT FOR REPLICATION.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from psycopg import sql

from subscriber.firing import OPERATIONS, by_row
from twopc import names
from twopc.articles import Article, Column, Table
from twopc.sql import fragments as f
from twopc.sql.render import compose, render

#: The dblink connection's name within a session.
LINK = "msrepl"

_NOTHING = sql.SQL("")
_REFERENCING = {
    "ins": "new table as inserted",
    "upd": "old table as deleted new table as inserted",
    "del": "old table as deleted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sites:
    """The names under which both ends take part in a global transaction."""

    publisher: str
    subscriber: str

    @property
    def own_branch(self) -> sql.Literal:
        """What follows the global id in this Subscriber's gid."""
        return sql.Literal(f":{self.subscriber}")

    @property
    def publisher_branch(self) -> sql.Literal:
        """What follows the global id in the Publisher's gid."""
        return sql.Literal(f":{self.publisher}")

    @property
    def array(self) -> sql.Composed:
        """Both, as an array literal."""
        return sql.SQL("array[{}, {}]").format(
            sql.Literal(self.publisher), sql.Literal(self.subscriber)
        )

    @property
    def array_text(self) -> sql.Literal:
        """The same, as the text of an SQL literal."""
        return sql.Literal(self.array.as_string(None))


class TriggerTexts:
    """Renders every object of one article at a Subscriber.

    Args:
        local: the Subscriber's table, with the user's triggers; None: as a subscription creates it.
    """

    def __init__(
        self, article: Article, sites: Sites, owner: str, local: Table | None = None
    ) -> None:
        self.article = article
        self.sites = sites
        self.owner = sql.Identifier(owner)
        self.table = f.table_of(article)
        self.local = local or Table(
            schema=article.schema, name=article.table, columns=article.columns, key=article.key
        )
        self.may_hold = bool(article.references or article.referenced_by) or any(
            "DEFERRABLE" in (unique.constraint or "") for unique in article.uniques
        )
        """Several changes of one statement may have to wait for each other, because of foreign keys
        between published tables, or of unique keys that are checked at its end."""
        self.takes_back = article.writes_back or bool(self._made_there())
        """Rows come back from the Publisher."""

    # -- names ------------------------------------------------------------------------------------

    def function_name(self, what: str) -> str:
        """``trg_mssync_<what>_<table>``."""
        return names.sync_trigger_function(what, self.article.schema, self.article.table)

    def function(self, what: str) -> sql.Identifier:
        """The same, quoted and qualified."""
        return sql.Identifier(names.SCHEMA, self.function_name(what))

    def trigger_name(self, what: str) -> str:
        """Name of a trigger; the row version is stamped last, everything else comes first."""
        name = self.function_name(what)
        return names.last_trigger(name) if what == "ver" else names.first_trigger(name)

    def trigger(self, what: str) -> sql.Identifier:
        """The same, quoted."""
        return sql.Identifier(self.trigger_name(what))

    def row_type(self) -> sql.Identifier:
        """Type of the rows that come back."""
        return sql.Identifier(
            names.SCHEMA,
            names.sync_row_type("back", self.article.schema, self.article.table),
        )

    # -- fragments --------------------------------------------------------------------------------

    def _made_there(self) -> list[Column]:
        """Columns that are generated at the Publisher and plain here."""
        generated_here = {c.name for c in self.local.columns if c.generated}
        return [c for c in self.article.columns if c.generated and c.name not in generated_here]

    def call(self, operation: str) -> str:
        """How a call of ``sp_mssync_<operation>_<table>`` begins: with the shape of its rows."""
        name = sql.Identifier(
            names.SCHEMA,
            names.sync_procedure(operation, self.article.schema, self.article.table),
        )
        ask = "set local msrepl.take = 'on';" if self._made_there() and operation != "del" else ""
        shape = sql.Literal(self.article.shape).as_string(None)
        return f"{ask}call {name.as_string(None)}({shape},"

    def _stored_key(self, operation: str) -> sql.Literal:
        return sql.Literal(names.stored_key(operation, self.article.schema, self.article.table))

    def _variables(self, operation: str) -> sql.Composable:
        # step 0 queues, step 1 sends; an article that takes rows back needs its answer at once
        step = (
            "1"
            if self._takes_back_from(operation)
            else "case when current_setting('msrepl.shipping', true) = 'lazy' then 0 else 1 end"
        )
        lines = [
            "arguments text;",
            f"step constant integer := {step};",
            "sent integer;",
            "queued text;",
            "transaction text;",
            "call text;",
            "detail text;",
            "context text;",
            "marker tid;",
        ]
        if self.may_hold:
            lines.append("place integer;")
        if self._takes_back_from(operation):
            lines.append("stored text;")
        return sql.SQL("\n    ".join(lines))

    def _takes_back_from(self, operation: str) -> bool:
        return self.takes_back and operation != "del"

    def _ship(self, operation: str) -> sql.Composed:
        holes: dict[str, sql.Composable] = {
            "send": sql.SQL("perform msrepl_link.dblink_exec({}, sync.call);").format(
                sql.Literal(LINK)
            ),
            "send_again": _NOTHING,
            "after": _NOTHING,
        }
        if self._takes_back_from(operation):
            holes = {
                "send": compose("subscriber", "send_for_stored"),
                "send_again": sql.SQL("\n            sync.stored := msrepl.fetch_stored();"),
                "after": compose(
                    "subscriber",
                    "take_stored",
                    key=self._stored_key(operation),
                    write_back=self.function("back"),
                ),
            }
        return compose(
            "subscriber",
            "ship",
            call=sql.Literal(self.call(operation)),
            own_branch=self.sites.own_branch,
            publisher_branch=self.sites.publisher_branch,
            sites=self.sites.array,
            sites_text=self.sites.array_text,
            table_name=sql.Literal(self.article.name),
            **holes,
        )

    def _comment(self, text: str) -> sql.Literal:
        return sql.Literal(f"{text} {self.article.name}")

    def _images(self, alias: str) -> sql.Composed:
        return f.identifiers((column.name for column in self.article.value_columns), alias)

    def _keys(self, alias: str) -> sql.Composed:
        return f.identifiers([*self.article.key, names.VERSION_COLUMN], alias)

    def _before(self, operation: str) -> sql.Composable:
        """What a capture trigger does before it sends: look whether its rows must wait."""
        rows = by_row(self.local, operation)
        parts: list[sql.Composable] = []
        if rows:
            image, source = ("old", "deleted") if operation == "del" else ("new", "inserted")
            parts.append(
                compose(
                    "subscriber",
                    "first_row",
                    row=self._keys(image),
                    first=self._keys("x"),
                    source=sql.SQL(source),
                )
            )
        if self.may_hold:
            parts.append(self._hold(operation, by_row=rows))
        return sql.SQL("").join([sql.SQL("\n{}").format(part) for part in parts])

    def _hold(self, operation: str, *, by_row: bool) -> sql.Composed:
        ends, may_act = not by_row, self._may_act(operation, before_end=by_row)
        holes: dict[str, sql.Composable] = {
            "place": sql.SQL("msrepl.leave_statement({}, {})").format(
                sql.Literal(ends), sql.Literal(may_act)
            ),
            "relation": sql.Literal(self.table.as_string(None)),
            "release": sql.SQL("perform msrepl.release_held();") if ends else _NOTHING,
        }
        if operation != "ins":
            holes |= {"old_key": self._keys("o"), "old_columns": self._images("o")}
        if operation != "del":
            holes |= {"new_key": self._keys("n"), "new_columns": self._images("n")}
        if operation == "upd":
            holes["derived"] = sql.SQL(
                "md5(o.msrepl_tran_version::text"
                " || coalesce(current_setting('msrepl.gid', true), ''))::uuid"
            )
        file = {"ins": "hold_insert", "upd": "hold_update", "del": "hold_delete"}[operation]
        return compose("subscriber", file, **holes)

    def _may_act(self, operation: str, *, before_end: bool) -> bool:
        """Whether rows must be held although no other statement is open.

        Before the statement's end its referential actions are still to come. At its end, those of a
        table that refers to itself have changed rows of the same transition table once more.
        """
        own = (self.article.schema, self.article.table)
        return operation != "ins" and any(
            (key.on_delete if operation == "del" else key.on_update) in "cnd"
            for key in self.article.referenced_by
            if before_end or (operation == "upd" and (key.schema, key.table) == own)
        )

    # -- functions --------------------------------------------------------------------------------

    def _capture(self, operation: str, file: str, comment: str, **holes: sql.Composable) -> str:
        return render(
            "subscriber",
            file,
            function=self.function(operation),
            variables=self._variables(operation),
            before=self._before(operation),
            ship=self._ship(operation),
            owner=self.owner,
            comment=self._comment(f"Sends to the Publisher what was {comment}"),
            **holes,
        )

    def capture_insert(self) -> str:
        """Sends inserted rows."""
        return self._capture(
            "ins", "capture_insert", "inserted into", new_columns=self._images("n")
        )

    def capture_update(self) -> str:
        """Sends updated rows, old and new."""
        return self._capture(
            "upd",
            "capture_update",
            "updated in",
            old_columns=self._keys("o"),
            new_columns=self._images("n"),
        )

    def capture_delete(self) -> str:
        """Sends deleted rows."""
        return self._capture("del", "capture_delete", "deleted from", old_columns=self._images("o"))

    def stamp_version(self) -> str:
        """Gives an updated row its new version."""
        always = [c for c in self.article.value_columns if c.identity == "a"]
        guard: sql.Composable = _NOTHING
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
        return render(
            "subscriber",
            "stamp_version",
            function=self.function("ver"),
            guard=guard,
            comment=self._comment("Gives a new version to updated rows of"),
        )

    def fill_generated(self) -> str:
        """Fills in values that only the Publisher can make."""
        made = self.article.made_by_publisher

        def is_missing(column: Column) -> sql.Composed:
            return sql.SQL("{} is null").format(sql.Identifier("new", column.name))

        generator = sql.Identifier(
            names.SCHEMA, names.sync_procedure("gen", self.article.schema, self.article.table)
        )
        return render(
            "subscriber",
            "fill_generated",
            function=self.function("gen"),
            missing=sql.SQL(" or ").join([is_missing(column) for column in made]),
            take=sql.SQL("\n        ").join(
                [
                    sql.SQL("{target} := coalesce({target}, (made ->> {place})::{type});").format(
                        target=sql.Identifier("new", column.name),
                        place=sql.Literal(place),
                        type=f.raw(column.type),
                    )
                    for place, column in enumerate(made)
                ]
            ),
            setting=sql.Literal(names.generated_setting(self.article.schema, self.article.table)),
            generator=sql.Literal(generator.as_string(None)),
            owner=self.owner,
            comment=self._comment("Fills in values that the Publisher makes for"),
        )

    def write_back(self) -> list[str]:
        """The type of the rows that come back, and the function that takes them over."""
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
            render(
                "subscriber",
                "row_type",
                type=self.row_type(),
                attributes=f.attribute_definitions(pairs),
                owner=self.owner,
                comment=self._comment("Rows as the Publisher stored them, of"),
            ),
            render(
                "subscriber",
                "write_back",
                function=self.function("back"),
                table=self.table,
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
                owner=self.owner,
                comment=self._comment("Takes over what the Publisher stored in"),
            ),
        ]

    def functions(self) -> list[str]:
        """Every type and function, in the order of creation."""
        texts = [self.stamp_version()]
        if self.takes_back:
            texts += self.write_back()
        texts += [self.capture_insert(), self.capture_update(), self.capture_delete()]
        if self.article.made_by_publisher:
            texts.append(self.fill_generated())
        return texts

    # -- triggers ---------------------------------------------------------------------------------

    def triggers(self, partitions: Sequence[sql.Identifier] = ()) -> list[str]:
        """Every trigger of the table and of its partitions.

        A statement fires the statement triggers of the table it names and of no other, so each
        partition has its own; row triggers are handed down by PostgreSQL.
        """
        texts = [self._row_trigger("ver", "update", self.function("ver"))]
        if self.article.made_by_publisher:
            texts.append(self._row_trigger("gen", "insert", self.function("gen")))
        if self.may_hold:
            renew = sql.Identifier(names.SCHEMA, "renew_version")
            texts.append(self._row_trigger("new", "insert", renew))
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
                render(
                    "subscriber",
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
        return render(
            "subscriber",
            "statement_trigger",
            trigger=self.trigger(what),
            when=sql.SQL(when),
            table=where,
            function=sql.Identifier(names.SCHEMA, f"{function}_statement"),
        )

    def _row_trigger(self, what: str, event: str, function: sql.Identifier) -> str:
        return render(
            "subscriber",
            "row_trigger",
            trigger=self.trigger(what),
            event=sql.SQL(event),
            table=self.table,
            function=function,
        )


def _plain(text: str) -> sql.SQL:
    """A name inside a RAISE format string: its quotes and percent signs are doubled."""
    return sql.SQL(text.replace("'", "''").replace("%", "%%"))
