"""What is published and who subscribes: plain values, read from the catalogs elsewhere."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from twopc.names import VERSION_COLUMN, article_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a published table."""

    name: str
    type: str
    """As `format_type` gives it, with its modifier."""
    plain_type: str = ""
    """The same without modifier: takes the values of every width and precision. Empty: the type has none."""
    not_null: bool = False
    identity: str = ""
    """``a`` always, ``d`` by default, empty if none."""
    generated: str = ""
    """``s`` stored, ``v`` virtual, empty if the column takes values."""
    default: str | None = None
    """Its default or generation expression."""
    default_at_publisher: bool = False
    """The default can be evaluated at the Publisher only: a sequence, or a function of the user's."""
    comparable: bool = True
    """Its type has an equality that tells values apart (json and point have none)."""
    equality: str = "="
    """The operator by which keys of this type are equal; with its schema unless that is pg_catalog."""
    collation: str | None = None
    """Quoted name of a collation other than the type's own."""
    monetary: bool = False
    """Of type money, directly or behind a domain or array."""
    generated_from: tuple[str, ...] = ()
    """The columns that its generation expression uses."""

    @property
    def takes_values(self) -> bool:
        """False for generated columns, which INSERT and UPDATE may not name."""
        return not self.generated

    @property
    def made_by_publisher(self) -> bool:
        """An INSERT that leaves the column out gets its value from the Publisher."""
        return bool(self.identity) or self.default_at_publisher


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueKey:
    """A unique index over plain columns, partial ones left out."""

    name: str
    columns: tuple[str, ...]
    primary: bool = False
    constraint: str | None = None
    """``UNIQUE (...) DEFERRABLE`` and so on; None for an index without a constraint."""
    index: str = ""
    """The statement that creates the index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKey:
    """A foreign key between two tables of a database, as far as replication must know it."""

    name: str
    schema: str
    """Of the referencing table."""
    table: str
    columns: tuple[str, ...]
    target_schema: str
    target_table: str
    target_columns: tuple[str, ...]
    on_delete: str
    """``a`` no action, ``r`` restrict, ``c`` cascade, ``n`` set null, ``d`` set default."""
    on_update: str
    deferrable: bool = False

    @property
    def acts(self) -> bool:
        """It changes rows by itself."""
        return self.on_delete in "cnd" or self.on_update in "cnd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A CHECK constraint of a table."""

    name: str
    definition: str
    """``CHECK (...)``, every name in it written with its schema."""
    columns: tuple[str, ...]
    portable: bool
    """It stands on built-in functions only and holds for every row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserType:
    """A type that a column needs and that no server has from the start."""

    schema: str
    name: str
    """Quoted, with its schema."""
    definition: str | None
    """The statement that creates it; None for a type that came with an extension or in C."""
    extension: str | None
    columns: tuple[str, ...]
    """The columns that need it, directly or through other types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTrigger:
    """A trigger of the user's on a published table."""

    name: str
    before: bool
    row: bool
    insert: bool
    update: bool
    delete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """A table as the catalogs describe it."""

    schema: str
    name: str
    columns: tuple[Column, ...]
    key: tuple[str, ...]
    """Columns of the primary key; empty if there is none."""
    uniques: tuple[UniqueKey, ...] = ()
    """The primary key's first."""
    kind: str = "r"
    """``r`` table, ``p`` partitioned, others cannot be published."""
    persistence: str = "p"
    partitions: tuple[tuple[str, str], ...] = ()
    """Everything below it, by schema and name."""
    is_partition: bool = False
    inherits: bool = False
    """It has children, or a parent, by INHERITS."""
    has_rules: bool = False
    row_security: bool = False
    triggers: tuple[UserTrigger, ...] = ()
    """The user's, that fire for an application's statements."""
    partition_triggers: tuple[UserTrigger, ...] = ()
    """Those that its partitions have of their own."""
    references: tuple[ForeignKey, ...] = ()
    """Foreign keys of this table."""
    referenced_by: tuple[ForeignKey, ...] = ()
    """Foreign keys that point here."""
    checks: tuple[Check, ...] = ()
    types: tuple[UserType, ...] = ()
    """What its columns need, in the order of creation."""

    def column(self, name: str) -> Column:
        """The column of that name (KeyError if there is none)."""
        for column in self.columns:
            if column.name == name:
                return column
        raise KeyError(name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Article:
    """A published table, or part of one."""

    schema: str
    table: str
    columns: tuple[Column, ...]
    """The published columns in the table's order, the row version among them."""
    key: tuple[str, ...]
    row_filter: str | None = None
    """Only rows for which this holds belong to the article; SQL over the table's columns."""
    uniques: tuple[UniqueKey, ...] = ()
    writes_back: bool = False
    """The Publisher may store other values than were sent: its triggers run, and rows come back."""
    referenced_by: tuple[ForeignKey, ...] = ()
    """Foreign keys of published tables that point here."""
    references: tuple[ForeignKey, ...] = ()
    """Foreign keys of this table to published tables."""
    checks: tuple[Check, ...] = ()
    """CHECK constraints that hold at a Subscriber as well."""
    types: tuple[UserType, ...] = ()
    """What the published columns need, in the order of creation."""
    parts: tuple[tuple[int, str], ...] = ()
    """Number and row filter of what single Subscribers get in place of the whole article."""

    @property
    def name(self) -> str:
        """``table``, or ``schema.table`` outside ``public``."""
        return article_name(self.schema, self.table)

    @property
    def key_columns(self) -> tuple[Column, ...]:
        """The key's columns in the key's order."""
        by_name = {column.name: column for column in self.columns}
        return tuple(by_name[name] for name in self.key)

    @property
    def value_columns(self) -> tuple[Column, ...]:
        """The columns that travel: all but the generated ones."""
        return tuple(column for column in self.columns if column.takes_values)

    @property
    def made_by_publisher(self) -> tuple[Column, ...]:
        """Columns whose missing values come from the Publisher."""
        return tuple(column for column in self.value_columns if column.made_by_publisher)

    @property
    def shape(self) -> str:
        """A digest of what a row of the article looks like on its way; the same at both ends."""
        columns = [(column.name, column.type) for column in self.value_columns]
        return hashlib.sha256(repr((columns, self.key)).encode()).hexdigest()[:12]

    @property
    def version(self) -> Column:
        """The row version column."""
        return next(column for column in self.columns if column.name == VERSION_COLUMN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """One Subscriber's immediate-updating subscription, as the Publisher knows it."""

    subscriber: str
    """The Subscriber's name in the topology: branch name, and originator of its changes."""
    link_role: str
    """The role under which its link works at the Publisher."""
    active: bool = True
