"""Published tables and their subscriptions: plain values, read from the catalogs elsewhere."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from twopc.names import VERSION_COLUMN, article_name


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of a published table."""

    name: str
    type: str
    """The type as `format_type` returns it, with its modifier."""
    plain_type: str = ""
    """The type without modifier, which accepts values of every width and precision. Empty if the type has no
    modifier.
    """
    not_null: bool = False
    identity: str = ""
    """``a`` always, ``d`` by default, empty if none."""
    generated: str = ""
    """``s`` stored, ``v`` virtual, empty if the column takes values."""
    default: str | None = None
    """Expression of the column's default or of its generation."""
    default_at_publisher: bool = False
    """Whether only the Publisher can evaluate the default, which uses a sequence or a user's function."""
    comparable: bool = True
    """Whether the type has an equality that distinguishes values (json and point have none)."""
    equality: str = "="
    """Equality operator for keys of this type; with its schema unless that is pg_catalog."""
    collation: str | None = None
    """Quoted name of the collation, if it is not the type's own."""
    monetary: bool = False
    """Whether the type is money, directly or behind a domain or array."""
    generated_from: tuple[str, ...] = ()
    """The columns that the generation expression uses."""

    @property
    def takes_values(self) -> bool:
        """Whether INSERT and UPDATE may name the column, that is, it is not a generated column."""
        return not self.generated

    @property
    def made_by_publisher(self) -> bool:
        """Whether the Publisher supplies the value for an INSERT that omits the column."""
        return bool(self.identity) or self.default_at_publisher


@dataclass(frozen=True, slots=True, kw_only=True)
class UniqueKey:
    """A unique index over plain columns; partial indexes are excluded."""

    name: str
    columns: tuple[str, ...]
    primary: bool = False
    constraint: str | None = None
    """``UNIQUE (...) DEFERRABLE`` and so on; None for an index without a constraint."""
    index: str = ""
    """The statement that creates the index."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ForeignKey:
    """A foreign key between two tables of a database, with the properties that replication needs.

    Keys that are NOT ENFORCED are left out: PostgreSQL ignores them.
    """

    name: str
    schema: str
    """Schema of the referencing table."""
    table: str
    columns: tuple[str, ...]
    target_schema: str
    target_table: str
    target_columns: tuple[str, ...]
    on_delete: str
    """``a`` no action, ``r`` restrict, ``c`` cascade, ``n`` set null, ``d`` set default."""
    on_update: str
    definition: str
    """``FOREIGN KEY (...) REFERENCES ...``, without whether it is deferrable, and was checked for existing rows."""
    deferrable: bool = False
    deferred: bool = False
    """Whether it is checked at the end of a transaction unless SET CONSTRAINTS says otherwise."""
    validated: bool = True

    @property
    def acts(self) -> bool:
        """Whether the foreign key changes rows by itself."""
        return self.on_delete in "cnd" or self.on_update in "cnd"


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """A CHECK constraint of a table."""

    name: str
    definition: str
    """``CHECK (...)``, with every name qualified by its schema."""
    columns: tuple[str, ...]
    portable: bool
    """Whether the constraint uses built-in functions only and holds for every row."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserType:
    """A type that a column needs and that is not built in."""

    schema: str
    name: str
    """Quoted name, with its schema."""
    definition: str | None
    """Statement that creates the type; None for a type that an extension supplies or that is written in C."""
    extension: str | None
    columns: tuple[str, ...]
    """The columns that need the type, directly or through other types."""


@dataclass(frozen=True, slots=True, kw_only=True)
class UserTrigger:
    """A user's trigger on a published table."""

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
    """Unique keys, the primary key first."""
    kind: str = "r"
    """``r`` table, ``p`` partitioned table; other kinds cannot be published."""
    persistence: str = "p"
    partitions: tuple[tuple[str, str], ...] = ()
    """All partitions below the table, by schema and name."""
    is_partition: bool = False
    inherits: bool = False
    """Whether the table has children, or a parent, by INHERITS."""
    has_rules: bool = False
    row_security: bool = False
    triggers: tuple[UserTrigger, ...] = ()
    """Users' triggers that fire for statements of an application."""
    partition_triggers: tuple[UserTrigger, ...] = ()
    """Triggers that belong to single partitions."""
    references: tuple[ForeignKey, ...] = ()
    """Foreign keys of this table."""
    referenced_by: tuple[ForeignKey, ...] = ()
    """Foreign keys that reference this table."""
    checks: tuple[Check, ...] = ()
    types: tuple[UserType, ...] = ()
    """User-defined types of the columns, in the order of creation."""

    def column(self, name: str) -> Column:
        """Return the column of that name; raise KeyError if there is none."""
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
    """The published columns in the table's order, including the row version."""
    key: tuple[str, ...]
    row_filter: str | None = None
    """Condition for rows that belong to the article: SQL over the table's columns."""
    uniques: tuple[UniqueKey, ...] = ()
    writes_back: bool = False
    """Whether the Publisher may store other values than were sent, because its triggers run; rows are then sent
    back.
    """
    referenced_by: tuple[ForeignKey, ...] = ()
    """Foreign keys of published tables that reference this table."""
    references: tuple[ForeignKey, ...] = ()
    """Foreign keys of this table to published tables."""
    checks: tuple[Check, ...] = ()
    """CHECK constraints that hold at a Subscriber as well."""
    types: tuple[UserType, ...] = ()
    """User-defined types of the published columns, in the order of creation."""
    parts: tuple[tuple[int, str], ...] = ()
    """Number and row filter of each part that single Subscribers get instead of the whole article."""

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
        """The columns whose values are sent: all but the generated ones."""
        return tuple(column for column in self.columns if column.takes_values)

    @property
    def made_by_publisher(self) -> tuple[Column, ...]:
        """Columns for which the Publisher supplies missing values."""
        return tuple(column for column in self.value_columns if column.made_by_publisher)

    @property
    def shape(self) -> str:
        """Digest of the layout of the article's rows as they are sent; the same at both ends."""
        columns = [(column.name, column.type) for column in self.value_columns]
        return hashlib.sha256(repr((columns, self.key)).encode()).hexdigest()[:12]

    @property
    def version(self) -> Column:
        """The row version column."""
        return next(column for column in self.columns if column.name == VERSION_COLUMN)


@dataclass(frozen=True, slots=True, kw_only=True)
class Subscription:
    """An immediate-updating subscription of one Subscriber, as recorded at the Publisher."""

    subscriber: str
    """The Subscriber's name in the topology, which is its branch name and the originator of its changes."""
    link_role: str
    """The role that the Subscriber's link uses at the Publisher."""
    active: bool = True
