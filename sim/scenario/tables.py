"""What a scenario file may say of its tables, and of single Subscribers: how changes reach them.

Shapes only, as in `twopc.sim.scenario.model`.
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
    """How each operation on a table reaches the Subscribers."""

    what = "a table's propagation"
    blank = {}
    ins: _Ins | None = None
    """Of inserts: CALL, SQL or NONE, with a procedure of one's own behind CALL."""
    upd: _Upd | None = None
    """Of updates: SCALL, CALL, MCALL, XCALL, SQL or NONE."""
    dele: _Del | None = Field(default=None, alias="del")
    """Of deletes: CALL, XCALL, SQL or NONE."""
    large: Texts | None = None
    """Columns whose old values XCALL leaves out; where it is missing, those whose type has no bound."""

    @classmethod
    def spell_out(cls, value: Any) -> Any:
        """Refused: one format does not suit all three."""
        raise refuse(
            f"write {{ins: CALL, upd: SCALL, del: CALL}}, those that differ, not {kind_of(value)}"
        )

    @property
    def given(self) -> dict[str, str | list[str]]:
        """Format and procedure by operation, and the large columns, as far as they are given."""
        methods = {"ins": self.ins, "upd": self.upd, "del": self.dele}
        results: dict[str, str | list[str]] = {
            operation: text for operation, text in methods.items() if text is not None
        }
        return results if self.large is None else results | {"large": [*self.large]}


#: Types that draw from a sequence.
_SERIAL = ("serial", "bigserial", "smallserial", "serial2", "serial4", "serial8")


class ScenarioTable(Part):
    """A published table and its first rows."""

    what = "a table"
    blank = {"columns": {}}
    refused = {
        "count": "rows are listed; many are made under 'sql': insert … select … from generate_series(1, 1000)"
    }
    columns: dict[str, str]
    """Each column's type and constraints, as SQL."""
    key: tuple[str, ...] = ()
    """The primary key, where it has several columns."""
    sql: Texts = ()
    """More SQL for the Publisher after its tables are made: indexes, foreign keys, triggers."""
    rows: tuple[Row, ...] = ()
    """Its first rows."""
    published: tuple[str, ...] = ()
    """The columns that are published, the key among them; empty: all."""
    filter: str | None = None
    """Only rows that fulfil it are published."""
    propagate: Propagate = Propagate()
    procedures: Annotated[Texts, BeforeValidator(_of_rows)] = ()
    """SQL for every Subscriber before it subscribes: what `propagate` names."""
    merge: MergedTable = MergedTable()
    """How its changes are merged, where replication is."""

    @property
    def own_keys(self) -> list[str]:
        """The columns that are called the primary key in their own text."""
        return [name for name, text in self.columns.items() if sqltext.has(text, "primary", "key")]

    @property
    def generated_columns(self) -> list[str]:
        """The columns that nodes compute from others."""
        return [
            name
            for name, text in self.columns.items()
            if sqltext.has(text, "generated", "always", "as")
            and not sqltext.has(text, "as", "identity")
        ]

    @property
    def counting_columns(self) -> list[str]:
        """The columns that are serial, or an identity."""
        return [
            name
            for name, text in self.columns.items()
            if any(sqltext.has(text, word) for word in _SERIAL)
            or sqltext.has(text, "as", "identity")
        ]

    @property
    def key_columns(self) -> tuple[str, ...]:
        """The columns of the primary key."""
        return self.key or tuple(self.own_keys)


class Subscriber(Part):
    """How one Subscriber gets what is published."""

    what = "a Subscriber"
    blank = {}
    refused = {"publishes": REPUBLISHING}
    sync: Literal["automatic", "replication support only", "none"] = "automatic"
    """Who brings the first rows; where nobody does, the tables are there already."""
    joins: Literal["at first", "later"] = "at first"
    """It subscribes before the first step, or when a session there has the step `subscribe`."""
    update: Literal["sync tran", "read only"] = "sync tran"
    """Its own changes go to the Publisher in two-phase commit; or the application only reads there."""
    streams: Whole = 1
    """Connections over which its agent spreads commands."""
    batch: Whole = 100
    """Transactions that its agent commits at once."""
    skip_errors: Texts = ()
    """Errors for which its agent leaves a transaction out and goes on."""
    filter: dict[str, str] = {}
    """By table: only rows that fulfil it come here."""
    sql: Texts = ()
    """More SQL for it after it has subscribed: triggers, procedures, rows of its own."""
    merge: MergeSubscription = MergeSubscription()
    """How it merges, where replication is."""
