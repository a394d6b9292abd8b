"""SQL text of the functions that send changes to the Publisher.

Pure: from an `Article` and the Subscriber's own table to SQL.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from twopc import names
from twopc.articles import Article, Column, Table
from twopc.sql import fragments as f
from twopc.sql.fragments import SALT
from twopc.sql.render import compose, render
from twopc.subscriber.trigger_order import by_row

#: The dblink connection's name within a session.
LINK = "msrepl"

NOTHING = sql.SQL("")


#: A new row's version whose second half proves that this transaction has generated it.
SEALED = sql.SQL(
    "(left(new.msrepl_tran_version::text, 18)"
    " || left(md5(left(new.msrepl_tran_version::text, 18) || {}), 16))::uuid"
).format(SALT)


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchNames:
    """Names of the two nodes in the gids of a global transaction."""

    publisher: str
    subscriber: str

    @property
    def own_branch(self) -> sql.Literal:
        """Suffix of the global id in this Subscriber's gid."""
        return sql.Literal(f":{self.subscriber}")

    @property
    def publisher_branch(self) -> sql.Literal:
        """Suffix of the global id in the Publisher's gid."""
        return sql.Literal(f":{self.publisher}")

    @property
    def array(self) -> sql.Composed:
        """Both names, as an array literal."""
        return sql.SQL("array[{}, {}]").format(
            sql.Literal(self.publisher), sql.Literal(self.subscriber)
        )

    @property
    def array_text(self) -> sql.Literal:
        """Both names, as an SQL literal that contains the text of the array literal."""
        return sql.Literal(self.array.as_string(None))


class CaptureTexts:
    """Renders the functions that capture the changes of one article at a Subscriber.

    Args:
        local: the Subscriber's table, with the user's triggers; None for the table that a subscription creates.
    """

    def __init__(
        self, article: Article, sites: BranchNames, owner: str, local: Table | None = None
    ) -> None:
        self.article = article
        self.sites = sites
        self.owner = sql.Identifier(owner)
        self.owner_name = owner
        self.table_role = names.table_role(owner, article.schema, article.table)
        self.table = f.table_of(article)
        self.local = local or Table(
            schema=article.schema, name=article.table, columns=article.columns, key=article.key
        )
        keys = (*article.references, *article.referenced_by)
        own_keys = (*self.local.references, *self.local.referenced_by)
        self.may_hold = (
            bool(keys)
            or any(key.acts for key in own_keys)
            or any("DEFERRABLE" in (unique.constraint or "") for unique in article.uniques)
            or any(
                trigger.before and trigger.row
                for trigger in (*self.local.triggers, *self.local.partition_triggers)
            )
        )
        """Whether changes of one statement may have to wait for each other, because of foreign keys
        between published tables, of unique keys that are checked at its end, or of users' triggers that fire
        between its rows: what they change may be a row of the statement, which is sent later.
        """
        self.moves_rows = self.local.kind == "p"
        """Whether an UPDATE may move a row from one partition to another."""
        self.takes_back = article.writes_back or bool(self._made_there())
        """Whether the Publisher returns rows as it stored them."""

    # -- names ------------------------------------------------------------------------------------

    def function_name(self, what: str) -> str:
        """Return the name ``trg_mssync_<what>_<table>``."""
        return names.sync_trigger_function(what, self.article.schema, self.article.table)

    def function(self, what: str) -> sql.Identifier:
        """Return the identifier of a function, qualified with its schema."""
        return sql.Identifier(names.SCHEMA, self.function_name(what))

    def trigger_name(self, what: str) -> str:
        """Return the name of a trigger; triggers that stamp the row version sort last, all others first."""
        name = self.function_name(what)
        return names.last_trigger(name) if what in ("new", "ver") else names.first_trigger(name)

    def trigger(self, what: str) -> sql.Identifier:
        """Return the identifier of a trigger."""
        return sql.Identifier(self.trigger_name(what))

    def row_type(self) -> sql.Identifier:
        """Return the identifier of the type of rows that the Publisher returns."""
        return sql.Identifier(
            names.SCHEMA,
            names.sync_row_type("back", self.article.schema, self.article.table),
        )

    # -- fragments --------------------------------------------------------------------------------

    def _made_there(self) -> list[Column]:
        """Return the columns that are generated at the Publisher but not at the Subscriber."""
        generated_here = {c.name for c in self.local.columns if c.generated}
        return [c for c in self.article.columns if c.generated and c.name not in generated_here]

    def call(self, operation: str) -> str:
        """Return the beginning of a call of ``sp_mssync_<operation>_<table>``, up to the shape of its rows."""
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
        # step 0 queues, step 1 sends; an article whose rows the Publisher returns needs the answer at once
        step = (
            "1"
            if self._takes_back_from(operation)
            else "case when current_setting('msrepl.shipping', true) = 'lazy' then 0 else 1 end"
        )
        lines = [
            "arguments text;",
            f"step constant integer := {step};",
            "sent integer;",
            "level boolean;",
            "queued text;",
            "transaction text;",
            "call text;",
            "detail text;",
            "context text;",
            "hint text;",
            "marker tid;",
            "sites text[];",
        ]
        if self.may_hold:
            lines.append("place integer;")
        if self._takes_back_from(operation):
            lines.append("stored text;")
        return sql.SQL("\n    ".join(lines))

    def _takes_back_from(self, operation: str) -> bool:
        return self.takes_back and operation != "del"

    def _ship(self, operation: str) -> sql.Composed:
        forget = ""
        holes: dict[str, sql.Composable] = {
            "send": sql.SQL("sync.call := msrepl_link.dblink_exec({}, sync.call);").format(
                sql.Literal(LINK)
            ),
            "send_again": NOTHING,
            "after": NOTHING,
        }
        if self._takes_back_from(operation):
            forget = "set local msrepl.stored = '';"
            holes = {
                "send": compose("twopc.subscriber", "send_for_stored"),
                "send_again": sql.SQL("\n            sync.stored := msrepl.fetch_stored();"),
                "after": compose(
                    "twopc.subscriber",
                    "take_stored",
                    key=self._stored_key(operation),
                    write_back=self.function("back"),
                ),
            }
        return compose(
            "twopc.subscriber",
            "ship",
            call=sql.Literal(forget + self.call(operation)),
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
        """Return the part of a capture trigger before it sends, which checks whether its rows must wait."""
        rows = by_row(self.local, operation)
        parts: list[sql.Composable] = []
        if rows:
            image, source = ("old", "deleted") if operation == "del" else ("new", "inserted")
            parts.append(
                compose(
                    "twopc.subscriber",
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
            "place": sql.SQL("msrepl.leave_statement(tg_relid, tg_op, {}, {})").format(
                sql.Literal(ends), sql.Literal(may_act)
            ),
            "relation": sql.Literal(self.table.as_string(None)),
            "note": sql.SQL("perform msrepl.release_held(sync.marker);"),
        }
        if operation != "ins":
            holes |= {"old_key": self._keys("o"), "old_columns": self._images("o")}
        if operation != "del":
            holes |= {"new_key": self._keys("n"), "new_columns": self._images("n")}
        if operation == "upd":
            holes |= {"old_target": self._targets("o"), "new_target": self._targets("n")}
            holes["derived"] = sql.SQL("md5(o.msrepl_tran_version::text || {})::uuid").format(SALT)
        file = {"ins": "hold_insert", "upd": "hold_update", "del": "hold_delete"}[operation]
        return compose("twopc.subscriber", file, **holes)

    def _targets(self, alias: str) -> sql.Composable:
        """Return the columns whose update in this table may start a referential action."""
        columns = dict.fromkeys(
            column
            for key in self.article.referenced_by
            if key.on_update in "cnd"
            for column in key.target_columns
        )
        return f.identifiers(columns, alias) if columns else sql.SQL("null")

    def _may_act(self, operation: str, *, before_end: bool) -> bool:
        """Return whether rows must be held although no other statement is open.

        Before the statement's end its referential actions are still to come. At its end, the actions of a
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
            "twopc.subscriber",
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
        """Return the text of the function that sends inserted rows."""
        return self._capture_rows("ins", "inserted into", "news", "inserted", "n")

    def capture_update(self) -> str:
        """Return the text of the function that sends updated rows, old and new."""
        return self._capture(
            "upd",
            "capture_update",
            "updated in",
            old_columns=self._keys("o"),
            new_columns=self._images("n"),
            salt=SALT,
        )

    def capture_delete(self) -> str:
        """Return the text of the function that sends deleted rows."""
        return self._capture_rows("del", "deleted from", "olds", "deleted", "o")

    def _capture_rows(self, operation: str, comment: str, sent: str, table: str, alias: str) -> str:
        return self._capture(
            operation,
            "capture_rows",
            comment,
            sent=f.raw(sent),
            columns=self._images(alias),
            rows=f.raw(f"{table} as {alias}"),
        )
