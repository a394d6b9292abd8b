"""Published tables: their articles, row filters, and the Subscribers' copies.

Implements the effects of `twopc.publisher.publication` and `twopc.subscriber.tables`. Independent of how changes
are sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from twopc.names import VERSION_COLUMN, version_trigger
from twopc.sim.model.node.constraints import ModelForeignKey
from twopc.sim.model.node.heap import HeapColumn, HeapTable, Index
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.node.tx import OpenTx
from twopc.sim.model.replication import versions
from twopc.sim.model.replication.behaviour import Behaviour
from twopc.sim.model.replication.facts import Raw, row_json
from twopc.sim.model.sql import types
from twopc.sim.model.sql.ddl import condition
from twopc.sim.model.values import SqlError, Steps, TableSpec, Values

#: Referential actions that change rows.
ACTS = ("cascade", "set null", "set default")
#: Returns whether a row belongs to an article or a part.
Condition = Callable[[Values], bool]


def link_role(subscriber: str) -> str:
    """Return the role of a Subscriber's link at the Publisher."""
    return f"msrepl_link_{subscriber}"


@dataclass(slots=True, kw_only=True)
class ModelArticle:
    """A published table, or part of one. Rows are those of the Publisher's table unless stated otherwise."""

    name: str
    table: HeapTable
    """Table at the Publisher."""
    columns: tuple[str, ...]
    """Names of the published columns, in the table's order, including the row version: the columns of the copies."""
    filter: Condition | None = None
    filter_text: str = ""
    parts: dict[str, Condition] = field(default_factory=dict)
    """For the role of a link: the condition on the rows of its Subscriber, within the article's filter."""
    writes_back: bool = False
    """Whether triggers of the Publisher may store other values than were sent."""
    places: tuple[int, ...] = ()
    """Places of the columns in the Publisher's table."""
    values: tuple[int, ...] = ()
    """Places within `columns` of the columns that are not computed: these are sent."""
    key: tuple[int, ...] = ()
    """Places within `columns` of the key's columns, in the key's order."""
    version: int = 0
    """Place of the row version within `columns`."""
    made: tuple[int, ...] = ()
    """Places within `columns` of the identity columns, whose missing values the Publisher generates."""
    references: list[ModelForeignKey] = field(default_factory=list)
    """Foreign keys from this table to published tables."""
    referenced: list[ModelForeignKey] = field(default_factory=list)
    """Foreign keys from published tables to this table."""

    # A sent row has the columns of `values`, in that order.
    travels: tuple[tuple[int, int], ...] = ()
    """Pairs of a place in the Publisher's table and a place in a sent row."""
    sent_at: dict[int, int] = field(default_factory=dict)
    """Place in a sent row, by place in the Publisher's table."""
    settable: tuple[tuple[int, int], ...] = ()
    """The pairs of `travels` whose columns an UPDATE may set."""
    compared: tuple[tuple[int, int], ...] = ()
    """The pairs of `travels` whose columns are not in the key."""
    sources: tuple[tuple[HeapColumn, int | None], ...] = ()
    """Every column of the Publisher's table, with the place of its value in a sent row."""
    version_there: int = 0
    """Place of the row version in the Publisher's table."""
    version_sent: int = 0
    """Place of the row version in a sent row."""
    made_there: tuple[int, ...] = ()
    """Places in the Publisher's table of the columns of `made`."""
    key_sent: tuple[int, ...] = ()
    """Places of the key's columns in a sent row."""

    def __post_init__(self) -> None:
        table = self.table
        self.places = tuple(table.at[name] for name in self.columns)
        of = [table.columns[place] for place in self.places]
        self.values = tuple(p for p, column in enumerate(of) if column.generated is None)
        self.made = tuple(p for p, column in enumerate(of) if column.identity)
        self.key = tuple(self.columns.index(name) for name in table.key)
        self.version = self.columns.index(VERSION_COLUMN)
        self.travels = tuple((self.places[p], at) for at, p in enumerate(self.values))
        self.sent_at = dict(self.travels)
        self.settable = tuple(
            (there, here) for there, here in self.travels if not table.columns[there].always
        )
        key = [table.at[name] for name in table.key]
        self.compared = tuple((there, here) for there, here in self.travels if there not in key)
        self.sources = tuple(
            (column, self.sent_at.get(place)) for place, column in enumerate(table.columns)
        )
        self.version_there = table.at[VERSION_COLUMN]
        self.version_sent = self.sent_at[self.version_there]
        self.made_there = tuple(self.places[p] for p in self.made)
        self.key_sent = tuple(self.sent_at[place] for place in key)

    def image(self, row: Values) -> Values:
        """Return the published columns of a row."""
        return tuple([row[place] for place in self.places])

    def key_of(self, image: Values) -> Values:
        """Return the key of a row of a copy."""
        return tuple([image[place] for place in self.key])

    def on_its_way(self, image: Values) -> Values:
        """Return the values of a copy's row that are sent."""
        return tuple([image[place] for place in self.values])

    def key_of_values(self, sent: Values) -> Values:
        """Return the key of a sent row."""
        return tuple([sent[place] for place in self.key_sent])

    def old_key(self, operation: str, old: Values) -> Values:
        """Return the key of a sent old row: an update sends key and version, a delete all values."""
        return old[:-1] if operation == "upd" else self.key_of_values(old)

    def key_json(self, key: Values) -> Raw:
        """Return a key as JSON for the detail of a refusal."""
        names = self.table.key
        return row_json([(name, self._type(name)) for name in names], key)

    def image_json(self, row: Values) -> Raw:
        """Return the published columns of the Publisher's row as JSON for the detail of a refusal."""
        return row_json([(name, self._type(name)) for name in self.columns], self.image(row))

    def _type(self, name: str) -> str:
        return str(self.table.columns[self.table.at[name]].type.name)

    @property
    def targets(self) -> tuple[str, ...]:
        """Columns whose update may cause a referential action."""
        return tuple(
            dict.fromkeys(
                self.table.columns[place].name
                for key in self.referenced
                if key.on_update in ACTS
                for place in key.index.places
            )
        )

    @property
    def tied(self) -> tuple[str, ...]:
        """This table and the tables that foreign keys connect with it: an earlier branch may have changed them."""
        return tuple(
            dict.fromkeys(
                (
                    self.name,
                    *(key.parent.name for key in self.references),
                    *(key.child.name for key in self.referenced),
                )
            )
        )

    def has(self, row: Values, role: str = "") -> bool:
        """Return whether a row belongs to the article, and to the part of the Subscriber with this link role."""
        if self.filter is not None and not self.filter(row):
            return False
        part = self.parts.get(role)
        return part is None or part(row)


def publish(
    node: ModelNode, spec: TableSpec, births: versions.Births, behaviour: Behaviour
) -> ModelArticle:
    """Create an article of an existing table, and add a row version to the table."""
    table = node.table(spec.name)
    if VERSION_COLUMN not in table.at:
        _add_version(table, births)
    requested = {*spec.published, *table.key, VERSION_COLUMN}
    columns = tuple(
        column.name for column in table.columns if not spec.published or column.name in requested
    )
    article = ModelArticle(
        name=spec.name, table=table, columns=columns, filter_text=spec.filter or ""
    )
    if spec.filter:
        article.filter = condition(spec.filter, table, node.plans)
    of_writers = [one for one in table.triggers if {"ins", "upd"} & one.operations]

    trigger = versions.RenewVersion(
        version_trigger("public", spec.name), table.at[VERSION_COLUMN], births,
        behaviour.renew_version, keeps_none=any(one.when == "before row" for one in of_writers),
    )  # fmt: skip
    article.writes_back = bool(of_writers)
    node.add_trigger(spec.name, trigger)
    return article


def _add_version(table: HeapTable, births: versions.Births) -> None:
    column = HeapColumn(VERSION_COLUMN, types.named("uuid"))
    column.not_null, column.default = True, births
    table.at[VERSION_COLUMN] = len(table.columns)
    table.columns.append(column)
    for row in table.all_rows:
        for version in row.versions:
            key = table.primary.key(version.values) if table.primary is not None else ()
            version.values = (*version.values, versions.first(table.name, key))
    table.settle()


def tie(articles: Mapping[str, ModelArticle]) -> None:
    """Register the foreign keys between published tables, and make them deferrable."""
    for article in articles.values():
        for key in article.table.references:
            there = articles.get(key.parent.name)
            if there is not None:
                article.references.append(key)
                there.referenced.append(key)
                key.deferrable = True


def make_copies(
    articles: Mapping[str, ModelArticle], node: ModelNode, births: versions.Births
) -> None:
    """Create a Subscriber's copies, without rows."""
    for article in articles.values():
        _copy(article, node, births)
    for article in articles.values():
        for key in article.references:
            _copy_key(article, articles[key.parent.name], key, node)


def insert(node: ModelNode, name: str, row: Mapping[str, Any]) -> None:
    """Insert a row outside virtual time, as INSERT … OVERRIDING SYSTEM VALUE does. Raises SqlError."""
    table = node.table(name)
    for column in row:
        if column not in table.at:
            raise SqlError("42703", f'column "{column}" of relation "{name}" does not exist')

    def work(tx: OpenTx) -> Steps[Values]:
        values = [
            column.type.store(row[column.name])
            if column.name in row
            else node.default(tx, table, column)
            for column in table.columns
        ]
        return (yield from tx.insert(name, node.generated(table, tuple(values))))

    node.outside(work, f"insert into {name}")


def fill(article: ModelArticle, node: ModelNode, role: str) -> None:
    """Copy the Publisher's rows into an empty copy, outside virtual time and without triggers or checks."""
    table = node.table(article.name)

    def work(tx: OpenTx) -> Steps[None]:
        tx.assign()
        for row in article.table.rows():
            if article.has(row, role):
                table.insert(article.image(row), tx.top, 0)
        return
        yield  # makes this function a generator

    node.outside(work, f"copy {article.name}")


def _copy(article: ModelArticle, node: ModelNode, births: versions.Births) -> None:
    there = article.table
    table = HeapTable(there.name, len(node.tables))
    width = len(there.columns)

    def expanded(row: Values) -> Values:
        whole: list[Any] = [None] * width
        for place, value in zip(article.places, row, strict=True):
            whole[place] = value
        return tuple(whole)

    for name in article.columns:
        column = there.columns[there.at[name]]
        own = HeapColumn(name, column.type)
        own.not_null = column.not_null
        if name == VERSION_COLUMN:
            own.default = births
        elif column.generated is not None:
            own.generated = _expanding(column.generated, expanded)
        elif not column.identity:
            own.default = column.default
        table.at[name] = len(table.columns)
        table.columns.append(own)
    for index in there.indexes:
        if index.where is None and all(place in article.places for place in index.places):
            _copy_index(article, table, index)
    table.checks = [(name, _expanding(check, expanded)) for name, check in there.checks]
    table.computed = any(column.generated is not None for column in table.columns)
    node.tables[table.name] = table
    table.settle()
    node.plans.forget()


def _expanding(of: Callable[[Values], Any], expanded: Callable[[Values], Values]) -> Any:
    return lambda row: of(expanded(row))


def _copy_index(article: ModelArticle, table: HeapTable, index: Index) -> None:
    own = Index(
        index.name, [article.places.index(place) for place in index.places], primary=index.primary,
        deferrable=index.deferrable, deferred=index.deferred, distinct=index.distinct,
    )  # fmt: skip
    table.indexes.append(own)
    if index.primary:
        table.primary = own


def _copy_key(
    article: ModelArticle, target: ModelArticle, key: ModelForeignKey, node: ModelNode
) -> None:
    child, parent = node.table(article.name), node.table(target.name)
    if not all(place in article.places for place in key.places):
        return
    index = next((one for one in parent.indexes if one.name == key.index.name), None)
    if index is None:
        return
    own = ModelForeignKey(
        key.name, child, tuple(article.places.index(place) for place in key.places), parent, index
    )
    own.on_delete, own.on_update = key.on_delete, key.on_update
    child.references.append(own)
    parent.referenced.append(own)
    child.settle()
    parent.settle()
