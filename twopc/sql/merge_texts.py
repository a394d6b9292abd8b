"""SQL texts of the objects that merge replication creates in a database, the same at every node.

Pure: from a `MergeArticle` to SQL. Executed by `twopc.drivers.merge.tracking`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import LiteralString

from psycopg import sql

from twopc import names
from twopc.merge.articles import MergeArticle, Upload
from twopc.sql import fragments as f
from twopc.sql.render import compose, render
from twopc.sql.table_role import path_is_kept, runs_as

__all__ = ["TrackingTexts", "shared_texts"]

#: Names of the files, in the order of creation.
_SHARED = (
    "merge_replica",
    "sysmergepublications",
    "sysmergearticles",
    "msmerge_genhistory",
    "msmerge_metadata",
    "merge_lineage",
    "merge_lineage_parts",
    "merge_colv",
    "merge_generation",
    "msmerge_contents",
    "msmerge_tombstone",
    "sysmergesubscriptions",
    "sysmergepartitioninfo",
    "sysmergesubsetfilters",
    "msmerge_partition_groups",
    "msmerge_current_partition_mappings",
    "msmerge_past_partition_mappings",
    "msmerge_generation_partition_mappings",
    "merge_host_name",
    "merge_suser_sname",
    "merge_partition",
    "merge_refuse_rewritten",
    "merge_map",
    "merge_map_generation",
    "merge_close",
    "msmerge_conflicts_info",
    "merge_others",
    "merge_judgement",
    "merge_covers",
    "merge_unforgotten",
    "merge_precedes",
    "merge_decide",
    "merge_neighbour",
    "sysmergeschemachange",
    "merge_schema_changes",
    "merge_check_schema",
    "merge_conflict_id",
    "merge_record_conflicts",
    "merge_clean_conflicts",
    "merge_outgoing_conflicts",
    "merge_log_conflicts",
    "merge_release_conflicts",
    "merge_is_expired",
    "merge_servers",
    "merge_introduce",
    "merge_priority",
    "merge_hello",
    "merge_articles",
    "merge_knows",
    "merge_begin_anew",
    "msmerge_identity_range",
    "msmerge_allotting",
    "merge_await_allotments",
    "merge_identity_left",
    "merge_allot_ranges",
    "merge_allot",
    "merge_receive_ranges",
    "merge_ranges",
    "merge_ranges_held",
    "merge_learn_ranges",
    "merge_knows_ranges",
    "merge_note_ranges",
    "merge_withdraw_ranges",
    "merge_rewind",
    "merge_forget_failures",
    "merge_receive",
    "merge_touch_partition",
    "merge_touch_mappings",
    "merge_acknowledge",
    "merge_clean_up",
    "msmerge_sessions",
    "msmerge_articlehistory",
    "merge_end_session",
    "merge_settle",
    "merge_record_failure",
    "merge_record_failures",
    "merge_apply",
    "merge_refuse_rowguid",
    "merge_refuse_change",
    "refuse_truncate_function",
    "merge_refuse_uninitialised",
    "mssnapshotdeliveryprogress",
    "msmerge_dynamic_snapshots",
    "msmerge_replinfo",
    "msmerge_history",
    "msrepl_errors",
    "sysmergepartitioninfoview",
    "msdynamicsnapshotjobs",
    "msmerge_errorlineage",
    "merge_faults",
)

_EVENTS = {
    "ins": ("insert", "new table as inserted"),
    "upd": ("update", "new table as inserted"),
    "del": ("delete", "old table as deleted"),
}


def shared_texts(owner: str) -> list[str]:
    """Return the statements that create all objects that do not depend on an article.

    Args:
        owner: the role that owns our objects in the database.
    """
    return [render("twopc", name, owner=sql.Identifier(owner)) for name in _SHARED]


class TrackingTexts:
    """Renders the objects that track the changes of one article."""

    def __init__(self, article: MergeArticle, owner: str) -> None:
        self.article = article
        self.owner = sql.Identifier(owner)
        self.table = f.qualified(article.schema, article.table)
        self.rowguid = sql.Identifier(article.rowguid)
        self.metadata = sql.Identifier(names.SCHEMA, names.merge_metadata(article.nickname))
        self.floor = sql.Identifier(names.SCHEMA, names.merge_floor(article.nickname))
        self._holes: dict[str, sql.Composable] = {
            "table": self.table,
            "table_name": sql.Literal(article.name),
            "rowguid": self.rowguid,
            "metadata": self.metadata,
            "tablenick": sql.Literal(article.nickname),
            "floor": self.floor,
            "floor_text": sql.Literal(self.floor.as_string(None)),
            "owner": self.owner,
            "path_is_kept": path_is_kept(article.name),
        }
        """The text of each hole that means the same in every file."""

    def _compose(self, file: str, **holes: sql.Composable) -> sql.Composed:
        """Return the text of a file, given its holes besides `_holes`."""
        return compose("twopc", file, **(self._holes | holes))

    def _render(self, file: str, **holes: sql.Composable) -> str:
        return self._compose(file, **holes).as_string(None)

    def _comment(self, does: str) -> sql.Literal:
        return sql.Literal(f"{does} {self.article.name} for merge replication")

    def _function(self, file: str, what: str, does: str, **holes: sql.Composable) -> str:
        """Return the text of a function of our objects' owner.

        Args:
            does: purpose of the function, which the table's name completes.
        """
        return self._render(
            file, function=self.function(what), comment=self._comment(does), **holes
        )

    def _function_of(
        self, role: str, file: str, what: str, does: str, **holes: sql.Composable
    ) -> str:
        """Return the text of a function of another role, which the owner of our objects calls."""
        own = {"runs_as": runs_as(role), "owner": sql.Identifier(role), "caller": self.owner}
        return self._function(file, what, does, **own, **holes)

    def function(self, what: str) -> sql.Identifier:
        """Return the qualified name of one of the article's functions."""
        return sql.Identifier(names.SCHEMA, names.merge_object(what, self.article.artid))

    def trigger(self, what: str) -> sql.Identifier:
        """Return the name of one of the article's triggers."""
        return sql.Identifier(names.merge_object(what, self.article.artid))

    @property
    def truncate_trigger(self) -> sql.Identifier:
        """Name of the trigger that refuses TRUNCATE."""
        return sql.Identifier(names.truncate_trigger(self.article.schema, self.article.table))

    def metadata_part(self) -> str:
        """Return the statement that creates the partition of the metadata for the article's rows."""
        index = sql.Identifier(f"{names.merge_metadata(self.article.nickname)}_xid")
        return self._render("merge_metadata_part", table=self.metadata, index=index)

    def floor_of_versions(self) -> str:
        """Return the statement that creates the sequence of the lower bound of row versions, for rows whose
        metadata was removed.
        """
        return self._render("merge_floor", sequence=self.floor)

    def functions(self) -> list[str]:
        """Return the functions of the article's triggers."""
        count = sql.Literal(self.article.versions)
        first: sql.Composable = sql.SQL("null")
        repeated: sql.Composable = sql.SQL("null")
        if self.article.column_tracking:
            first = sql.SQL("array_fill(first_version::int8, array[{}])").format(count)
            repeated = sql.SQL("array_fill((m.top + 1)::int8, array[{}])").format(count)
        update = self._track("merge_track_update", "upd", "Records updates of")
        if self.article.column_tracking:
            update = self._track_columns()
        return [
            self._track(
                "merge_track_insert", "ins", "Records inserts into", first=first, again=repeated
            ),
            update,
            self._track("merge_track_delete", "del", "Records deletes from"),
        ]

    def _track(self, file: str, what: str, does: str, **holes: sql.Composable) -> str:
        """Return the text of a function that records changes.

        Another column may have taken the name of the column that identifies rows. COALESCE accepts no other type than
        uuid: a cast would be code of the table's owner, and would run with the rights of this function.
        """
        guids = {
            name: sql.SQL("coalesce({}, null::uuid)").format(
                sql.Identifier(row, self.article.rowguid)
            )
            for name, row in (("old_guid", "o"), ("new_guid", "n"))
        }
        return self._function(file, what, does, floor=self._holes["floor_text"], **guids, **holes)

    def _track_columns(self) -> str:
        differs = [
            sql.SQL("row({})::record operator(pg_catalog.*<>) row({})::record").format(
                sql.Identifier("o", column.name), sql.Identifier("n", column.name)
            )
            for column in self.article.columns
        ]
        changed = self._by_number(
            [sql.SQL("(({})::integer * first_version)::int8").format(each) for each in differs]
        )
        changed_ever = self._by_number(
            [
                sql.SQL("(bool_or({})::integer * first_version)::int8").format(each)
                for each in differs
            ]
        )
        versions = [
            sql.SQL(
                "case excluded.colv[{0}] when 0 then coalesce(m.colv[{0}], 0) else m.top + 1 end"
            ).format(sql.Literal(place))
            for place in range(1, self.article.versions + 1)
        ]
        apart = sql.SQL(",\n            ")
        return self._track(
            "merge_track_columns",
            "upd",
            "Records updates of",
            changed=apart.join(changed),
            changed_ever=apart.join(changed_ever),
            versions=apart.join(versions),
        )

    def _by_number(self, of_columns: list[sql.Composed]) -> list[sql.Composable]:
        """Return the expressions of the columns in the order of column versions, with zero for dropped columns."""
        by_number = dict(zip(self.article.places, of_columns, strict=True))
        return [
            by_number.get(place, sql.SQL("0::int8"))
            for place in range(1, self.article.versions + 1)
        ]

    def triggers(self, *, is_local: bool = False) -> list[str]:
        """Return the article's triggers, for a table that has none of them.

        Args:
            is_local: whether the table is a client subscription's, whose changes may not be uploaded.
        """
        options = self.article.options
        upload = options.upload if is_local else Upload.NORMAL
        events = dict(_EVENTS) if upload is Upload.NORMAL else {}
        if events and self.article.column_tracking:
            events["upd"] = ("update", "old table as deleted new table as inserted")
        texts = [
            self._render(
                "merge_trigger",
                trigger=self.trigger(what),
                event=sql.SQL(event),
                referencing=sql.SQL(referencing),
                function=self.function(what),
            )
            for what, (event, referencing) in events.items()
            if not (what == "del" and options.keeps_deletes)
        ]
        if upload is Upload.REFUSED:
            texts.append(self._render("merge_refuse_trigger", trigger=self.trigger("ref")))
        return [
            *texts,
            self._render(
                "merge_rowguid_trigger",
                trigger=self.trigger("guid"),
                name=sql.Literal(self.article.rowguid),
            ),
            self._render("refuse_truncate_trigger", trigger=self.truncate_trigger),
        ]

    def initialising(self) -> str:
        """Return the trigger that refuses changes until the table is initialised."""
        return self._render("merge_initialising_trigger", trigger=self.trigger("init"))

    def drop(self, *, table: bool) -> list[str]:
        """Return the statements that drop the triggers, their functions, and the recorded metadata.

        Args:
            table: whether the table still exists.
        """
        triggers = (
            [*map(self.trigger, (*_EVENTS, "guid", "ref")), self.truncate_trigger] if table else []
        )
        return [
            *self._dropped(dict.fromkeys(_EVENTS, ""), triggers),
            sql.SQL("drop table if exists {}").format(self.metadata).as_string(None),
            sql.SQL("drop sequence if exists {}").format(self.floor).as_string(None),
        ]

    def drop_identity(self, *, table: bool) -> list[str]:
        """Return the statements that drop the objects of `IdentityTexts`, if they exist.

        Args:
            table: whether the table still exists.
        """
        places = sql.Identifier(names.SCHEMA, names.merge_places(self.article.nickname))
        triggers = map(self.trigger, ("idn", "idc", "idu")) if table else ()
        return [
            *self._dropped(dict.fromkeys(("idn", "idc", "idh"), ""), triggers),
            sql.SQL("drop sequence if exists {}").format(places).as_string(None),
        ]

    def _dropped(
        self, functions: Mapping[str, LiteralString], triggers: Iterable[sql.Identifier] = ()
    ) -> list[str]:
        """Return the statements that drop triggers and then functions, if they exist.

        Args:
            functions: each with the types of its arguments.
        """
        texts = [
            sql.SQL("drop trigger if exists {} on {}").format(each, self.table) for each in triggers
        ]
        texts += [
            sql.SQL("drop function if exists {}({})").format(
                self.function(what), sql.SQL(arguments)
            )
            for what, arguments in functions.items()
        ]
        return [text.as_string(None) for text in texts]
