"""What a scenario file may say of merge replication: of tables, of Subscribers, and of the conflicts that it expects.

Shapes only, as in `twopc.sim.scenario.model`.
"""

# ruff: noqa: RUF012 -- pydantic copies the defaults of fields, and the other mappings are constants

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator

from twopc.merge.decision import ConflictType
from twopc.merge.ranges import IdentityRanges
from twopc.sim.scenario.parts import Exact, Part, Row, Whole, WrittenForm, refuse, said_of
from twopc.sim.scenario.text import listed, suggestion

#: Types of conflicts as a file names them.
CONFLICTS = tuple(each.name.lower() for each in ConflictType)


def _conflict_type(value: Any) -> Any:
    if value in CONFLICTS:
        return value
    hint = suggestion(str(value), CONFLICTS) or f"; there are {listed(CONFLICTS)}"
    raise refuse(f"no type of conflict is called {said_of(value)}{hint}")


class MergedIdentity(Part):
    """From which ranges nodes draw a table's identity values."""

    what = "identity ranges"
    blank = {}
    subscriber: Whole = 1000
    """How many values a range of a client subscription has."""
    publisher: Whole = 10_000
    """How many a range of a server subscription has."""
    threshold_percent: Whole = 80
    """How much of a range is used up when a session brings another."""

    @property
    def ranges(self) -> IdentityRanges:
        """As sessions know them."""
        return IdentityRanges(
            subscriber=self.subscriber,
            publisher=self.publisher,
            threshold_percent=self.threshold_percent,
        )


class MergedTable(Part):
    """How a table's changes are merged."""

    what = "a table's merge"
    blank = {}
    tracking: Literal["row", "column"] = "row"
    """Whether two changes of one row are a conflict, or only two of one column."""
    rowguid: str | None = None
    """The column by which a row is known at every node; none: it is added."""
    resolver: str | None = None
    """Who decides conflicts, as ``additive(stock)``; none: the default resolver."""
    compensate: bool = False
    """A change that cannot be applied at one end is undone at the other, instead of tried again."""
    upload: Literal["normal", "kept", "refused"] = "normal"
    """What becomes of changes at Subscribers."""
    deletes: Literal["carried", "kept"] = "carried"
    """What becomes of deletions."""
    filter: str | None = None
    """Which rows go to which Subscribers: a condition over its columns, in which ``msrepl.host_name()`` and
    ``msrepl.suser_sname()`` are the Subscriber's."""
    join: dict[str, str] = {}
    """By parent table a condition over the columns of both: its rows go where the parent's rows go that they belong to."""
    partition: Annotated[
        Literal["0", "1", "2", "3"], WrittenForm(schema={"enum": [0, 1, 2, 3]})
    ] = "0"
    """What a Subscriber may do to the partition of a row, where not all go to every one."""
    identity: MergedIdentity | None = None
    """From which ranges nodes draw the values of its identity or serial column; none: Subscribers name them."""
    realigns: bool = True
    """A row that leaves a Subscriber's partition is taken away there."""

    @property
    def is_filtered(self) -> bool:
        """Not every Subscriber gets every row."""
        return self.filter is not None or bool(self.join)


class AddedColumn(Part):
    """A column that is added to a table which is merged."""

    what = "an added column"
    word: ClassVar = "add column"
    blank = {"table": "", "column": "", "type": "text"}
    table: str
    """The table."""
    column: str
    """The column's name."""
    type: str
    """One of PostgreSQL's own types."""
    default: str | None = None
    """The text of a constant, which all rows get; none: NULL."""

    def __str__(self) -> str:
        return f"{self.table} gets a column {self.column} {self.type}"


class DroppedColumn(Part):
    """A column that is dropped from a table which is merged."""

    what = "a dropped column"
    word: ClassVar = "drop column"
    blank = {"table": "", "column": ""}
    table: str
    """The table."""
    column: str
    """The column's name."""

    def __str__(self) -> str:
        return f"{self.table} loses its column {self.column}"


class WidenedColumn(Part):
    """A column of a table which is merged that takes more values from then on."""

    what = "a widened column"
    word: ClassVar = "widen column"
    blank = {"table": "", "column": "", "type": "text"}
    table: str
    """The table."""
    column: str
    """The column's name."""
    type: str
    """A type that takes all values of the present one."""

    def __str__(self) -> str:
        return f"{self.table}: column {self.column} becomes {self.type}"


ColumnChange = AddedColumn | DroppedColumn | WidenedColumn


class MergeSubscription(Part):
    """How a Subscriber merges."""

    what = "a Subscriber's merge"
    blank = {}
    type: Literal["client", "server"] = "client"
    """`client`: the first change that reaches the Publisher wins. `server`: it has a priority of its own."""
    priority: Exact | None = None
    """Of a server subscription, from 0 to less than the Publisher's 100."""
    host_name: str | None = None
    """What ``msrepl.host_name()`` is in filters; none: the Subscriber's name."""
    login: str | None = None
    """What ``msrepl.suser_sname()`` is in filters; none: the Subscriber's name."""


class MergeConflictExpect(Part):
    """A conflict, or a change that could not be applied, as the Publisher or a Subscriber has recorded it."""

    what = "a conflict"
    blank = {"table": "", "key": {}, "type": CONFLICTS[0]}
    table: str
    """The table."""
    key: Row
    """The row, by its primary key."""
    type: Annotated[
        str, BeforeValidator(_conflict_type), WrittenForm(schema={"enum": list(CONFLICTS)})
    ]
    """What met, or what failed."""
    winner: str | None = None
    """The node whose change has won."""
    loser: Annotated[Row | None, WrittenForm(schema={"type": ["object", "null"]})] = None
    """Of the row that has lost the columns that matter; null: it was deleted."""

    @property
    def has_no_loser(self) -> bool:
        """It is said that the row that has lost was deleted."""
        return self.loser is None and "loser" in self.model_fields_set
