"""Models of a scenario file for tables, and for the propagation of their changes to single Subscribers.

They check shapes only, as in `twopc.sim.scenario.model`.
"""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from twopc.errors import ArticleError
from twopc.propagation import parse_method
from twopc.sim.scenario import sqltext
from twopc.sim.scenario.merge_parts import MergedTable, MergeSubscription
from twopc.sim.scenario.parts import Part, Row, Texts, Whole, kind_of, refuse

#: Why a Subscriber cannot be a Publisher too.
REPUBLISHING = (
    "a Subscriber cannot publish what it receives: the mark of a transaction names one Publisher's "
    "Subscriber, and would be lost on the way to the next; let every Subscriber subscribe at the Publisher"
)


def _method(operation: str) -> BeforeValidator:
    def known(value: Any) -> Any:
        try:
            parse_method(operation, str(value))
        except ArticleError as error:
            raise refuse(str(error)) from None
        return value

    return BeforeValidator(known)


def _of_rows(value: Any) -> Any:
    if isinstance(value, Mapping):
        raise refuse(
            "a table's procedures apply single rows, and are SQL for Subscribers; a routine whose execution is "
            "published stands under 'procedures' of the whole file"
        )
    return value


_Ins = Annotated[str, _method("ins")]
_Upd = Annotated[str, _method("upd")]
_Del = Annotated[str, _method("del")]


class Propagate(Part):
    """Format in which each operation on a table is propagated to Subscribers."""

    what = "a table's propagation"
    blank = {}
    ins: _Ins | None = None
    """Inserts: CALL, SQL or NONE; CALL may be followed by a custom procedure."""
    upd: _Upd | None = None
    """Updates: SCALL, CALL, MCALL, XCALL, SQL or NONE."""
    dele: _Del | None = Field(default=None, alias="del")
    """Deletes: CALL, XCALL, SQL or NONE."""
    large: Texts | None = None
    """Columns whose old values XCALL omits. If omitted, those of types without a size limit."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Refuse a single format for all three operations."""
        raise refuse(
            f"write {{ins: CALL, upd: SCALL, del: CALL}}, those that differ, not {kind_of(value)}"
        )

    @property
    def given(self) -> dict[str, str | list[str]]:
        """The specified formats and procedures by operation, and the specified large columns."""
        methods = {"ins": self.ins, "upd": self.upd, "del": self.dele}
        results: dict[str, str | list[str]] = {
            operation: text for operation, text in methods.items() if text is not None
        }
        return results if self.large is None else results | {"large": [*self.large]}


#: Types with a default from a sequence.
_SERIAL = ("serial", "bigserial", "smallserial", "serial2", "serial4", "serial8")


class ScenarioTable(Part):
    """A published table and its initial rows."""

    what = "a table"
    blank = {"columns": {}}
    refused = {
        "count": "rows are listed; many are made under 'sql': insert … select … from generate_series(1, 1000)"
    }
    columns: dict[str, str]
    """Type and constraints of each column, as SQL."""
    key: tuple[str, ...] = ()
    """Columns of the primary key, if there are several."""
    sql: Texts = ()
    """SQL for the Publisher after all tables have been created: indexes, foreign keys, triggers."""
    rows: tuple[Row, ...] = ()
    """Initial rows."""
    published: tuple[str, ...] = ()
    """Published columns, including the key. Empty: all columns."""
    filter: str | None = None
    """Row filter: only rows that fulfil this condition are published."""
    propagate: Propagate = Propagate()
    procedures: Annotated[Texts, BeforeValidator(_of_rows)] = ()
    """SQL for every Subscriber before it subscribes, which creates the procedures that `propagate` names."""
    merge: MergedTable = MergedTable()
    """How changes are merged, in merge replication."""

    @property
    def own_keys(self) -> list[str]:
        """Columns that are declared as the primary key in their own definition."""
        return [name for name, text in self.columns.items() if sqltext.has(text, "primary", "key")]

    @property
    def generated_columns(self) -> list[str]:
        """Generated columns, other than identity columns."""
        return [
            name
            for name, text in self.columns.items()
            if sqltext.has(text, "generated", "always", "as")
            and not sqltext.has(text, "as", "identity")
        ]

    @property
    def counting_columns(self) -> list[str]:
        """Serial and identity columns."""
        return [
            name
            for name, text in self.columns.items()
            if any(sqltext.has(text, word) for word in _SERIAL)
            or sqltext.has(text, "as", "identity")
        ]

    @property
    def key_columns(self) -> tuple[str, ...]:
        """Columns of the primary key."""
        return self.key or tuple(self.own_keys)


class Subscriber(Part):
    """Settings of one subscription."""

    what = "a Subscriber"
    blank = {}
    refused = {"publishes": REPUBLISHING}
    sync: Literal["automatic", "replication support only", "none"] = "automatic"
    """How the initial rows are copied. With values other than `automatic`, the Subscriber has the tables already."""
    joins: Literal["at first", "later"] = "at first"
    """Whether it subscribes before the first step, or at the step `subscribe` of one of its sessions."""
    update: Literal["sync tran", "read only"] = "sync tran"
    """Whether its own changes are committed at the Publisher too, in two-phase commit, or applications only read
    there.
    """
    streams: Whole = 1
    """Number of connections over which its agent distributes commands."""
    batch: Whole = 100
    """Number of transactions that its agent applies in one commit."""
    skip_errors: Texts = ()
    """Errors after which its agent skips a transaction and continues."""
    filter: dict[str, str] = {}
    """By table: only rows that fulfil this condition are delivered to this Subscriber."""
    sql: Texts = ()
    """SQL for this Subscriber after it has subscribed: triggers, procedures, its own rows."""
    merge: MergeSubscription = MergeSubscription()
    """Its subscription in merge replication."""
