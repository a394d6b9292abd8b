"""The triggers of an article at a Subscriber, as text.

Pure: from an `Article` to SQL. Who creates and drops them is `subscriber.subscription`. The functions
keep the default firing mode, so they do nothing under ``session_replication_role = replica``: that is the
original's NOT FOR REPLICATION.
"""

from __future__ import annotations

from dataclasses import dataclass

from psycopg import sql

from twopc import names
from twopc.articles import Article, Column
from twopc.sql import fragments as f
from twopc.sql.render import compose, render

#: The dblink connection's name within a session.
LINK = "msrepl"


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


class TriggerTexts:
    """Renders every object of one article at a Subscriber."""

    def __init__(self, article: Article, sites: Sites, owner: str) -> None:
        self.article = article
        self.sites = sites
        self.owner = sql.Identifier(owner)
        self.table = f.table_of(article)

    # -- names ------------------------------------------------------------------------------------

    def function_name(self, what: str) -> str:
        """``trg_mssync_<what>_<table>``."""
        return names.sync_trigger_function(what, self.article.schema, self.article.table)

    def function(self, what: str) -> sql.Identifier:
        """The same, quoted and qualified."""
        return sql.Identifier(names.SCHEMA, self.function_name(what))

    def trigger(self, what: str) -> sql.Identifier:
        """Name of the trigger that calls `function`."""
        return sql.Identifier(names.first_trigger(self.function_name(what)))

    def kinds(self) -> list[str]:
        """What triggers this article has."""
        kinds = ["ver", "ins", "upd", "del"]
        if self.article.made_by_publisher:
            kinds.append("gen")
        return kinds

    # -- functions --------------------------------------------------------------------------------

    def _procedure_text(self, operation: str) -> sql.Literal:
        name = sql.Identifier(
            names.SCHEMA,
            names.sync_procedure(operation, self.article.schema, self.article.table),
        )
        return sql.Literal(name.as_string(None))

    def _variables(self) -> sql.Composable:
        # step 0 queues, step 1 sends; an article that writes back needs its answer at once
        step = (
            "1"
            if self.article.writes_back
            else "case when current_setting('msrepl.shipping', true) = 'lazy' then 0 else 1 end"
        )
        return sql.SQL(
            "arguments text;\n"
            f"    step constant integer := {step};\n"
            "    sent integer;\n"
            "    queued text;\n"
            "    transaction text;\n"
            "    call text;\n"
            "    detail text;\n"
            "    context text;\n"
            "    marker tid;"
        )

    def _ship(self, operation: str) -> sql.Composed:
        return compose(
            "subscriber",
            "ship",
            link=sql.Literal(LINK),
            procedure=self._procedure_text(operation),
            own_branch=self.sites.own_branch,
            publisher_branch=self.sites.publisher_branch,
            sites=self.sites.array,
            sites_text=sql.Literal(self.sites.array.as_string(None)),
            table_name=sql.Literal(self.article.name),
        )

    def _comment(self, text: str) -> sql.Literal:
        return sql.Literal(f"{text} {self.article.name}")

    def _images(self, alias: str) -> sql.Composed:
        return f.identifiers((column.name for column in self.article.value_columns), alias)

    def capture_insert(self) -> str:
        """Sends inserted rows."""
        return render(
            "subscriber",
            "capture_insert",
            function=self.function("ins"),
            new_columns=self._images("n"),
            variables=self._variables(),
            more=sql.SQL(""),
            ship=self._ship("ins"),
            owner=self.owner,
            comment=self._comment("Sends to the Publisher what was inserted into"),
        )

    def capture_update(self) -> str:
        """Sends updated rows, old and new."""
        old = f.identifiers([*self.article.key, names.VERSION_COLUMN], "o")
        return render(
            "subscriber",
            "capture_update",
            function=self.function("upd"),
            old_columns=old,
            new_columns=self._images("n"),
            variables=self._variables(),
            more=sql.SQL(""),
            ship=self._ship("upd"),
            owner=self.owner,
            comment=self._comment("Sends to the Publisher what was updated in"),
        )

    def capture_delete(self) -> str:
        """Sends deleted rows."""
        return render(
            "subscriber",
            "capture_delete",
            function=self.function("del"),
            old_columns=self._images("o"),
            variables=self._variables(),
            ship=self._ship("del"),
            owner=self.owner,
            comment=self._comment("Sends to the Publisher what was deleted from"),
        )

    def stamp_version(self) -> str:
        """Gives an updated row its new version."""
        always = [c for c in self.article.value_columns if c.identity == "a"]
        guard: sql.Composable = sql.SQL("")
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

    def functions(self) -> list[str]:
        """Every function, in the order of creation."""
        texts = [
            self.stamp_version(),
            self.capture_insert(),
            self.capture_update(),
            self.capture_delete(),
        ]
        if self.article.made_by_publisher:
            texts.append(self.fill_generated())
        return texts

    # -- triggers ---------------------------------------------------------------------------------

    def triggers(self, table: sql.Identifier | None = None) -> list[str]:
        """Every trigger, on the table or on one of its partitions."""
        where = table or self.table
        texts = [
            self._row_trigger("ver", "update", where),
            *(
                self._capture_trigger(operation, event, referencing, where)
                for operation, event, referencing in (
                    ("ins", "insert", "new table as inserted"),
                    ("upd", "update", "old table as deleted new table as inserted"),
                    ("del", "delete", "old table as deleted"),
                )
            ),
        ]
        if self.article.made_by_publisher:
            texts.append(self._row_trigger("gen", "insert", where))
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

    def _row_trigger(self, what: str, event: str, table: sql.Identifier) -> str:
        return render(
            "subscriber",
            "row_trigger",
            trigger=self.trigger(what),
            event=sql.SQL(event),
            table=table,
            function=self.function(what),
        )

    def _capture_trigger(
        self, operation: str, event: str, referencing: str, table: sql.Identifier
    ) -> str:
        return render(
            "subscriber",
            "capture_trigger",
            trigger=self.trigger(operation),
            event=sql.SQL(event),
            table=table,
            referencing=sql.SQL(referencing),
            function=self.function(operation),
        )


def _plain(text: str) -> sql.SQL:
    """A name inside a RAISE format string: its quotes and percent signs are doubled."""
    return sql.SQL(text.replace("'", "''").replace("%", "%%"))
