"""SQL texts of the objects that sessions of merge replication use in a database, for one article.

Pure: from a `MergeArticle` to SQL. Executed by `twopc.drivers.merge.tracking`.
"""

from __future__ import annotations

from collections.abc import Set
from typing import LiteralString

from psycopg import sql

from twopc import names
from twopc.merge.articles import MergeArticle
from twopc.merge.plan import BYTES_MAX, ROWS_MAX
from twopc.merge.protections import NOTHING_LEFT_OUT, MergeProtection
from twopc.sql import fragments as f
from twopc.sql.merge_texts import TrackingTexts
from twopc.sql.table_role import create_text, drop_role_text, drop_text

__all__ = ["AGENT_FUNCTIONS", "ASK_ARGUMENTS", "SessionTexts"]

AGENT_FUNCTIONS: dict[str, LiteralString] = {
    "enumerate": "int8, int8",
    "hold": "uuid[], int8[]",
    "amend": "uuid[], text[], text[]",
}
"""Functions of an article that agents call directly, each with the types of its arguments."""
ASK_ARGUMENTS: LiteralString = "jsonb"
"""Types of the arguments of the function that asks a SQL resolver, which exists at a Publisher only."""
#: Condition for changes that belong to the generations that are read.
_IN_GENERATIONS: LiteralString = """m.xid >= pg_snapshot_xmin(seen) and m.xid < pg_snapshot_xmax(present)
          and not pg_visible_in_snapshot(m.xid, seen) and pg_visible_in_snapshot(m.xid, present)"""
#: Condition without the protection: as if transactions committed in the order of their numbers.
_BY_NUMBERS: LiteralString = "m.xid >= pg_snapshot_xmax(seen) and m.xid < pg_snapshot_xmax(present)"
#: Text of the result of `merge_lineage`: for up to two replicas without a function call for each row, nor an array
#: to print.
_LINEAGE: LiteralString = """case when m.own = 0 then coalesce(m.lineage, '{}')::text
                        when m.lineage is null and m.own > 0 then '{' || (me << 31 | m.own) || '}'
                        when cardinality(m.lineage) = 1 then '{' || least(m.lineage[1], me << 31 | m.own)
                            || ',' || greatest(m.lineage[1], me << 31 | m.own) || '}'
                        else msrepl.merge_lineage(m.lineage, me, m.own)::text end"""
_PRIORITY: LiteralString = "msrepl.merge_priority(peer, i.writer)"
_FUNCTIONS: dict[str, LiteralString] = {
    **AGENT_FUNCTIONS,
    "read": "uuid[]",
    "lock": "uuid[]",
    "write": "uuid[], uuid[], text[], text[], uuid[], text[]",
    "log": "uuid, uuid, text",
    "ask": ASK_ARGUMENTS,
    "call": ASK_ARGUMENTS,
    "take": "uuid[], boolean[], text[], text[], int8[], text[], text[]",
    "leave": "uuid[]",
}


class SessionTexts(TrackingTexts):
    """Renders the functions by which agents read and write the rows of one article.

    Args:
        publication: name of the publication, part of the name of the conflict table.
        without: protections that are left out.
    """

    def __init__(
        self,
        article: MergeArticle,
        owner: str,
        publication: str,
        without: Set[MergeProtection] = NOTHING_LEFT_OUT,
    ) -> None:
        super().__init__(article, owner)
        self._without = without
        self.owner_name = owner
        self.role_name = names.table_role(owner, article.schema, article.table)
        self.role = sql.Identifier(self.role_name)
        self._holes |= {what: self.function(what) for what in ("read", "lock", "write", "log")}
        self._holes["column_tracking"] = sql.Literal(article.column_tracking)
        self.row_type = self._holes["row_type"] = self.function("row")
        self.conflict_table = sql.Identifier(
            names.SCHEMA,
            names.merge_conflict_table(publication, article.schema, article.table),
        )
        self._columns = [column.name for column in article.columns]
        self._places = [f"n{number}" for number in article.places]

    def all(self) -> list[str]:
        """Return role, row type, conflict table and functions, in the order of creation."""
        return [
            create_text(
                self.owner_name,
                self.article.schema,
                self.article.table,
                "select, insert, update, delete",
            ),
            self._type(),
            self._conflict_table(),
            self._read(),
            self._function_of(self.role_name, "merge_lock_rows", "lock", "Locks rows of"),
            self._write(),
            self._log(),
            self._enumerate(),
            self._function("merge_hold", "hold", "Locks and reads what is held of rows of"),
            self._amend(),
            self._take(),
            self._leave(),
        ]

    def regenerated(self) -> list[str]:
        """Return the statements that replace all objects that depend on the table's columns, for the transaction
        that alters the table.
        """
        drop = sql.SQL("drop type {}").format(self.row_type).as_string(None)
        written = (self._read(), self._write(), self._log(), self._amend())
        return [drop, self._type(), *written, *self.functions()]

    def drop_session(self) -> list[str]:
        """Return the statements that drop all these objects."""
        return [
            *self._dropped(_FUNCTIONS),
            sql.SQL("drop type if exists {}").format(self.row_type).as_string(None),
            sql.SQL("drop table if exists {}").format(self.conflict_table).as_string(None),
            drop_text(self.owner_name, self.article.schema, self.article.table),
            drop_role_text(names.resolver_role(self.owner_name, self.article.artid)),
        ]

    def ask(self, target: sql.Identifier, target_schema: str) -> list[str]:
        """Return the function that calls a SQL resolver, and the function by which agents ask it.

        Args:
            target: the resolver, with its schema.
        """
        role = names.resolver_role(self.owner_name, self.article.artid)
        call = self._function_of(
            role,
            "merge_call_resolver",
            "call",
            "Calls the resolver of",
            owner_text=sql.Literal(role),
            role_comment=sql.Literal(f"Calls the resolver of {self.article.name}"),
            schema=sql.Identifier(names.SCHEMA),
            target_schema=sql.Identifier(target_schema),
            target=target,
        )
        does = "Asks the resolver about a conflict of"
        return [call, self._function("merge_ask", "ask", does, call=self.function("call"))]

    def _type(self) -> str:
        pairs = list(zip(self._places, self.article.columns, strict=True))
        attributes = f.plain_definitions(pairs)
        return self._render("merge_row_type", type=self.row_type, attributes=attributes)

    def _conflict_table(self) -> str:
        return self._render(
            "merge_conflict_table",
            table=self.conflict_table,
            columns=f.plain_definitions([(c.name, c) for c in self.article.columns]),
            role=self.role,
            comment=self._comment("Rows that lost a conflict, or could not be applied, of"),
        )

    def _read(self) -> str:
        return self._function_of(
            self.role_name,
            "merge_read_rows",
            "read",
            "Reads rows of",
            columns=f.identifiers(self._columns, "t"),
        )

    def _write(self) -> str:
        values = [
            sql.SQL("case when w.taken is null or (w.taken::boolean[])[{place}] then w.{value} else t.{column} end")
            .format(
                column=sql.Identifier(column.name),
                place=sql.Literal(number),
                value=sql.Identifier(place),
            )
            for number, place, column in zip(
                self.article.places, self._places, self.article.columns, strict=True
            )
        ]  # fmt: skip
        pairs = list(zip(self.article.columns, values, strict=True))
        assignments = [
            sql.SQL("{} = {}").format(sql.Identifier(column.name), value)
            for column, value in pairs
            if column.identity != "a"
        ]
        if not assignments:
            # a table with identity columns only: an update changes nothing, but must be counted
            assignments = [sql.SQL("{0} = t.{0}").format(self.rowguid)]
        identities = [
            sql.SQL("t.{} <> {}").format(sql.Identifier(column.name), value)
            for column, value in pairs
            if column.identity == "a"
        ]
        attributes = f.identifiers(self._places)
        identity_differs: sql.Composable = sql.SQL("false")
        if identities:
            identity_differs = sql.SQL(
                "exists (select from {} as t join unnest($2, $3::{}[], $4) as w(guid, {}, taken)"
                " on t.{} operator(pg_catalog.=) w.guid where {})"
            ).format(
                self.table,
                self.row_type,
                attributes,
                self.rowguid,
                sql.SQL(" or ").join(identities),
            )
        return self._function_of(
            self.role_name,
            "merge_write_rows",
            "write",
            "Writes rows of",
            table_text=sql.Literal(self.table.as_string(None)),
            attributes=attributes,
            assignments=sql.SQL(",\n                ").join(assignments),
            values=sql.SQL(",\n                   ").join(values),
            columns=f.identifiers(self._columns),
            column_count=sql.Literal(len(self._columns) + 1),
            identity_differs=identity_differs,
        )

    def _log(self) -> str:
        return self._function_of(
            self.role_name,
            "merge_log_loser",
            "log",
            "Keeps a row that has lost a conflict of",
            conflict_table=self.conflict_table,
            columns=f.identifiers(self._columns),
            excluded=f.COMMA.join(
                [
                    sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name))
                    for name in self._columns
                ]
            ),
        )

    def _enumerate(self) -> str:
        file = "merge_enumerate"
        further: dict[str, sql.Composable] = {}
        if self.article.filter is not None:
            file = "merge_enumerate_partition"
            further["realigns"] = sql.Literal(self.article.filter.realigns)
            further["is_heard_of"] = self._is_heard_of()
        return self._function(
            file,
            "enumerate",
            "Reads what generations have changed of",
            **further,
            lineage=sql.SQL(_LINEAGE),
            changed_since=self._part(
                MergeProtection.GENERATION_SNAPSHOT, _IN_GENERATIONS, _BY_NUMBERS
            ),
            rows_max=sql.Literal(ROWS_MAX),
            bytes_max=sql.Literal(BYTES_MAX),
        )

    def _is_heard_of(self) -> sql.SQL:
        """Return the condition for rows that have left a Subscriber's partition and are reported to the Subscriber."""
        reasons: dict[MergeProtection, LiteralString] = {
            MergeProtection.PAST_MAPPINGS: "p.reason in (1, 4)",
            MergeProtection.PAST_TOUCHED: "p.reason <> 4",
        }
        return sql.SQL(
            " and ".join(each for out, each in reasons.items() if out in self._without) or "true"
        )

    def _amend(self) -> str:
        count = sql.Literal(self.article.versions)
        return self._function("merge_amend", "amend", "Puts values on rows of", count=count)

    def _leave(self) -> str:
        return self._function(
            "merge_leave_rows",
            "leave",
            "Takes away rows that have left the partition, of",
            stays=self._part(MergeProtection.DEFERRAL, "true", "false"),
        )

    def _part(
        self, protection: MergeProtection, text: LiteralString, instead: LiteralString
    ) -> sql.SQL:
        """Return the text for a protection, or the one for its absence."""
        return sql.SQL(instead if protection in self._without else text)

    def _overwrites(self) -> sql.SQL:
        """Return the condition on which incoming rows replace held rows regardless of lineage."""
        ways: dict[MergeProtection, LiteralString] = {
            MergeProtection.DEFERRAL: "peer.is_publisher",
            MergeProtection.LINEAGE: "not peer.is_publisher",
        }
        return sql.SQL(
            " or ".join(each for way, each in ways.items() if way in self._without) or "false"
        )

    def _take(self) -> str:
        return self._function(
            "merge_take",
            "take",
            "Takes rows that a neighbour has sent into",
            overwrites=self._overwrites(),
            first_is_known=_is_known("m.lineage[1]"),
            second_is_known=_is_known("m.lineage[2]"),
            priority=self._part(MergeProtection.PRIORITY, _PRIORITY, "0"),
            taken=self._part(MergeProtection.COLUMN_VERSIONS, "j.taken::text", "null::text"),
            keeps_losers=self._part(MergeProtection.LOSERS, "true", "false"),
            foreign_rows=self._foreign_rows(),
        )

    def _foreign_rows(self) -> sql.Composable:
        """Return the statement that looks for rows that the Subscriber never had; empty without realignment, which
        allows a Subscriber to have any rows.
        """
        if self.article.filter is None or not self.article.filter.realigns:
            return sql.SQL("")
        return self._compose("merge_foreign_rows")


def _is_known(version: LiteralString) -> sql.Composable:
    """Return the condition that a version is among the first three versions that an incoming row includes, or older
    than such a version of the same replica.
    """
    return sql.SQL("({})").format(
        sql.SQL(" or ").join(
            sql.SQL("excluded.lineage[{0}] between {1} and {1} | 2147483647").format(
                sql.Literal(place), sql.SQL(version)
            )
            for place in (1, 2, 3)
        )
    )
