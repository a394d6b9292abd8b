"""SQL texts of the functions that evaluate the filters of an article at a Publisher: which rows belong to which
partitions.

Pure: from a `MergeArticle` to SQL. Executed by `twopc.publisher.merge.filters`.
"""

from __future__ import annotations

from collections.abc import Set
from typing import LiteralString

from psycopg import sql

from twopc import names
from twopc.merge.articles import MergeArticle
from twopc.merge.partitions import JoinFilter, MergeFilter, with_values
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.sql import fragments as f
from twopc.sql.merge_texts import TrackingTexts

FILTER_FUNCTIONS: dict[str, LiteralString] = {
    "belongs": "uuid[], integer[]",
    "map": "int8, pg_snapshot, boolean, integer",
    "children": "uuid[]",
    "filter": "uuid[], integer[]",
    "guard": "",
}
"""Functions of a filtered article, each with the types of its arguments."""

#: Names that no column of a user's table has.
_HOST_NAME, _LOGIN = '"msrepl partition"."msrepl host"', '"msrepl partition"."msrepl login"'
_BY_FILTER: LiteralString = """        select {alias}.{rowguid}, "msrepl partition"."msrepl id"
        from {table} as {alias}
        cross join (
            select g.partition_id, g.host_name_fn, g.suser_sname_fn from msrepl.msmerge_partition_groups as g
            where g.partition_id = any ($2)) as "msrepl partition"("msrepl id", "msrepl host", "msrepl login")
        where {among} and (
            {condition}
        )"""
_BY_JOIN: LiteralString = """        select {alias}.{rowguid}, "msrepl mapping".partition_id
        from {table} as {alias}
        cross join {parent} as {parent_alias}
        join msrepl.msmerge_current_partition_mappings as "msrepl mapping"
            on "msrepl mapping".rowguid = {parent_alias}.{parent_rowguid}
        where {among} and "msrepl mapping".tablenick = {parent_nickname} and "msrepl mapping".partition_id = any ($2) and (
            {condition}
        )"""
_CHILDREN: LiteralString = """        select {alias}.{rowguid} from {table} as {alias} cross join {parent} as {parent_alias}
        where {parent_alias}.{parent_rowguid} = any ($1) and (
            {condition}
        )"""
_UNION = sql.SQL("\n      union\n")


class FilterTexts(TrackingTexts):
    """Renders the functions of one filtered article.

    Args:
        without: protections that are left out.
    """

    def __init__(
        self,
        article: MergeArticle,
        owner: str,
        without: Set[MergeProtection] = NOTHING_LEFT_OUT,
    ) -> None:
        super().__init__(article, owner)
        self._without = without
        self.role_name = names.filter_role(owner, article.artid)
        self.role = sql.Identifier(self.role_name)
        self._alias = sql.Identifier(article.table)

    def all(self, merge_filter: MergeFilter) -> list[str]:
        """Return role and functions, in the order of creation."""
        texts = self._role(merge_filter)
        texts.append(self._filter(merge_filter))
        texts.append(self._belongs())
        if merge_filter.joins:
            texts.append(self._children(merge_filter.joins))
        texts.append(self._map(merge_filter.joins))
        return texts

    def _role(self, merge_filter: MergeFilter) -> list[str]:
        """Return the role that evaluates conditions, with its rights to read."""
        tables = {(self.article.schema, self.article.table)} | {
            (join.parent_schema, join.parent_table) for join in merge_filter.joins
        }
        texts = [
            self._render(
                "merge_filter_role",
                role=self.role,
                role_text=sql.Literal(self.role_name),
                comment=sql.Literal(f"Evaluates the filters of {self.article.name}"),
            )
        ]
        for schema, table in sorted(tables):
            for grant, target in (
                ("grant usage on schema {} to {}", sql.Identifier(schema)),
                ("grant select on {} to {}", f.qualified(schema, table)),
            ):
                texts.append(sql.SQL(grant).format(target, self.role).as_string(None))
        return texts

    def guard(self, merge_filter: MergeFilter, host_name: str, login: str) -> list[str]:
        """Return, for a Subscriber, the function and triggers that refuse changes which would leave a row outside
        its partition.
        """
        conditions: list[sql.Composable] = [
            sql.SQL("exists (select from {} as {} where {})").format(
                f.qualified(join.parent_schema, join.parent_table),
                sql.Identifier(join.parent_table),
                sql.SQL(join.condition),
            )
            for join in merge_filter.joins
        ]
        if merge_filter.condition is not None:
            values = [sql.Literal(value).as_string(None) for value in (host_name, login)]
            conditions.append(sql.SQL(with_values(merge_filter.condition, *values)))
        rows = sql.SQL("        select from inserted as {} where ({}) is not true").format(
            self._alias, sql.SQL("\n            or ").join(conditions)
        )
        guard = self._function_of(
            self.role_name,
            "merge_guard_partition",
            "guard",
            "Keeps within the partition the rows of",
            rows=rows,
            insert_trigger=self.trigger("guard_ins"),
            update_trigger=self.trigger("guard_upd"),
        )
        return [*self._role(merge_filter), guard]

    def drop_filter(self, *, table: bool) -> list[str]:
        """Return the statements that drop the guard's triggers and all functions, if they exist.

        Args:
            table: whether the table still exists.
        """
        triggers = map(self.trigger, ("guard_ins", "guard_upd")) if table else ()
        return self._dropped(FILTER_FUNCTIONS, triggers)

    def _filter(self, merge_filter: MergeFilter) -> str:
        among = sql.SQL("{}.{} = any ($1)").format(self._alias, self.rowguid)
        return self._function_of(
            self.role_name,
            "merge_filter_rows",
            "filter",
            "Evaluates the filters of",
            all_rows=self._rows(merge_filter, sql.SQL("true")),
            some_rows=self._rows(merge_filter, among),
        )

    def _belongs(self) -> str:
        does = "Works out, whatever the filters do, to whom belong rows of"
        return self._function("merge_belongs", "belongs", does, filter=self.function("filter"))

    def _rows(self, merge_filter: MergeFilter, among: sql.Composable) -> sql.Composed:
        parts = [
            sql.SQL(_BY_JOIN).format(
                **self._joined(join),
                among=among,
                parent_nickname=sql.Literal(join.parent_nickname),
            )
            for join in merge_filter.joins
        ]
        if merge_filter.condition is not None:
            condition = with_values(merge_filter.condition, _HOST_NAME, _LOGIN)
            row_filter = sql.SQL(_BY_FILTER).format(
                alias=self._alias,
                rowguid=self.rowguid,
                table=self.table,
                among=among,
                condition=sql.SQL(condition),
            )
            parts.insert(0, row_filter)
        return _UNION.join(parts)

    def _joined(self, join: JoinFilter) -> dict[str, sql.Composable]:
        return {
            "alias": self._alias,
            "rowguid": self.rowguid,
            "table": self.table,
            "parent": f.qualified(join.parent_schema, join.parent_table),
            "parent_alias": sql.Identifier(join.parent_table),
            "parent_rowguid": sql.Identifier(join.parent_rowguid),
            "condition": sql.SQL(join.condition),
        }

    def _children(self, joins: tuple[JoinFilter, ...]) -> str:
        return self._function_of(
            self.role_name,
            "merge_children",
            "children",
            "Finds rows below others of",
            rows=_UNION.join([sql.SQL(_CHILDREN).format(**self._joined(join)) for join in joins]),
        )

    def _map(self, joins: tuple[JoinFilter, ...]) -> str:
        children: sql.Composable = sql.SQL("")
        if joins and MergeProtection.CHILDREN_FOLLOW not in self._without:
            children = self._compose(
                "merge_children_of",
                children=self.function("children"),
                parent_nicknames=sql.SQL("array[{}]").format(
                    f.COMMA.join([sql.Literal(join.parent_nickname) for join in joins])
                ),
            )
        return self._function(
            "merge_map_rows",
            "map",
            "Works out partitions of",
            belongs=self.function("belongs"),
            children=children,
        )
