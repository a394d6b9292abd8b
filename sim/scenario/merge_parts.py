"""Models of a scenario file for merge replication: of tables, Subscribers, column changes and expected conflicts.

They check shapes only, as in `twopc.sim.scenario.model`.
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
    """Sizes of the ranges from which nodes assign a table's identity values."""

    what = "identity ranges"
    blank = {}
    subscriber: Whole = 1000
    """Size of a range of a client subscription."""
    publisher: Whole = 10_000
    """Size of a range of a server subscription."""
    threshold_percent: Whole = 80
    """Used percentage of a range at which a session assigns another."""

    @property
    def ranges(self) -> IdentityRanges:
        """The ranges as the product represents them."""
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
    """Whether two changes of one row conflict, or only two changes of one column."""
    rowguid: str | None = None
    """Column that identifies a row at all nodes. If omitted, a column is added."""
    resolver: str | None = None
    """Resolver of conflicts, such as ``additive(stock)``. If omitted, the default resolver."""
    compensate: bool = False
    """Whether a change that cannot be applied at the other node is undone where it was made, instead of retried."""
    upload: Literal["normal", "kept", "refused"] = "normal"
    """Whether changes at Subscribers are uploaded, kept there, or refused."""
    deletes: Literal["carried", "kept"] = "carried"
    """Whether deletions are propagated, or kept at the node where they were made."""
    filter: str | None = None
    """Condition that selects the rows for each Subscriber. In it, ``msrepl.host_name()`` and
    ``msrepl.suser_sname()`` have the Subscriber's values.
    """
    join: dict[str, str] = {}
    """By parent table, a condition over the columns of both: a row goes to the Subscribers to which the matching
    rows of the parent table go.
    """
    partition: Annotated[
        Literal["0", "1", "2", "3"], WrittenForm(schema={"enum": [0, 1, 2, 3]})
    ] = "0"
    """Partition option: whether Subscribers may move rows between partitions, and whether partitions overlap."""
    identity: MergedIdentity | None = None
    """Ranges from which nodes assign the values of its identity or serial column. If omitted, Subscribers give
    values explicitly.
    """
    realigns: bool = True
    """Whether a row that leaves a Subscriber's partition is deleted there."""

    @property
    def is_filtered(self) -> bool:
        """Whether Subscribers receive only some of the rows."""
        return self.filter is not None or bool(self.join)


class AddedColumn(Part):
    """A column that is added to a merged table."""

    what = "an added column"
    word: ClassVar = "add column"
    blank = {"table": "", "column": "", "type": "text"}
    table: str
    """Name of the table."""
    column: str
    """Name of the column."""
    type: str
    """A built-in type of PostgreSQL."""
    default: str | None = None
    """Text of a constant, the value of the column in existing rows. If omitted, NULL."""

    def __str__(self) -> str:
        return f"{self.table} gets a column {self.column} {self.type}"


class DroppedColumn(Part):
    """A column that is dropped from a merged table."""

    what = "a dropped column"
    word: ClassVar = "drop column"
    blank = {"table": "", "column": ""}
    table: str
    """Name of the table."""
    column: str
    """Name of the column."""

    def __str__(self) -> str:
        return f"{self.table} loses its column {self.column}"


class WidenedColumn(Part):
    """A column of a merged table that gets a wider type."""

    what = "a widened column"
    word: ClassVar = "widen column"
    blank = {"table": "", "column": "", "type": "text"}
    table: str
    """Name of the table."""
    column: str
    """Name of the column."""
    type: str
    """A type that includes all values of the present type."""

    def __str__(self) -> str:
        return f"{self.table}: column {self.column} becomes {self.type}"


ColumnChange = AddedColumn | DroppedColumn | WidenedColumn


class MergeSubscription(Part):
    """A Subscriber's subscription in merge replication."""

    what = "a Subscriber's merge"
    blank = {}
    type: Literal["client", "server"] = "client"
    """`client`: the first change that reaches the Publisher wins. `server`: the subscription has its own priority."""
    priority: Exact | None = None
    """Priority of a server subscription, from 0 to less than the Publisher's 100."""
    host_name: str | None = None
    """Value of ``msrepl.host_name()`` in filters. If omitted, the Subscriber's name."""
    login: str | None = None
    """Value of ``msrepl.suser_sname()`` in filters. If omitted, the Subscriber's name."""


class MergeConflictExpect(Part):
    """A conflict, or a change that could not be applied, as recorded by the Publisher or a Subscriber."""

    what = "a conflict"
    blank = {"table": "", "key": {}, "type": CONFLICTS[0]}
    table: str
    """Name of the table."""
    key: Row
    """Primary key of the row."""
    type: Annotated[
        str, BeforeValidator(_conflict_type), WrittenForm(schema={"enum": list(CONFLICTS)})
    ]
    """Type of the conflict."""
    winner: str | None = None
    """Node whose change won."""
    loser: Annotated[Row | None, WrittenForm(schema={"type": ["object", "null"]})] = None
    """Columns of the losing row to compare. null: the losing change was a deletion."""

    @property
    def has_no_loser(self) -> bool:
        """Whether the losing change is expected to be a deletion."""
        return self.loser is None and "loser" in self.model_fields_set
