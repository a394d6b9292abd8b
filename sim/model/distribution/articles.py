"""Articles, subscriptions and originators, as the distribution database holds them.

The values are built from the nodes' tables, independent of positions and of the processing of changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from twopc.articles import Article, Column
from twopc.distributed_article import DistributedArticle, default_procedures
from twopc.names import VERSION_COLUMN
from twopc.proc_execution import ProcArticle, ProcType, beside
from twopc.propagation import Propagation
from twopc.publisher.pgoutput import RelationColumn, RelationMessage
from twopc.sim.model.node.heap import HeapTable
from twopc.sim.model.node.node import ModelNode
from twopc.sim.model.sql.ddl import condition
from twopc.sim.model.sql.types import SqlType
from twopc.sim.model.values import SubscriberSpec, TableSpec, Values
from twopc.subscriber.distribution_agent.planner import ArticleTerms, PgSnapshot

_ALWAYS = 2**63 - 1
_TYPES = {
    "float": "double precision", "varchar": "character varying", "char": "character",
    "timestamptz": "timestamp with time zone", "timestamp": "timestamp without time zone",
}  # fmt: skip


def type_text(kind: SqlType) -> str:
    """Return the type's name as `format_type` does."""
    if kind.element is not None:
        return f"{type_text(kind.element)}[]"
    name = _TYPES.get(kind.name, kind.name)
    if kind.precision is None:
        return name
    scale = f",{kind.scale or 0}" if kind.name == "numeric" else ""
    return f"{name}({kind.precision}{scale})"


def split(name: str) -> tuple[str, str]:
    """Return schema and table of a table's name."""
    schema, _, table = name.rpartition(".")
    return schema or "public", table


def _columns(table: HeapTable, published: Sequence[str]) -> tuple[Column, ...]:
    requested = {*published, *table.key, VERSION_COLUMN} if published else {*table.at}
    return tuple(
        Column(
            name=column.name,
            type=type_text(column.type),
            not_null=column.not_null,
            identity=("a" if column.always else "d") if column.identity else "",
            generated="s" if column.generated is not None else "",
        )
        for column in table.columns
        if column.name in requested
    )


def article_of(table: HeapTable, spec: TableSpec, number: int) -> DistributedArticle:
    """The article of a published table."""
    schema, name = split(spec.name)
    columns = _columns(table, spec.published)
    known = {column.name for column in columns}
    return DistributedArticle(
        article_id=number,
        article=Article(
            schema=schema, table=name, columns=columns, key=table.key or spec.key,
            row_filter=spec.filter or None,
        ),
        propagation=Propagation.from_json({**Propagation().as_json(), **spec.propagate}),
        procedures=default_procedures(schema, name),
        left_out=tuple(
            column.name
            for column in table.columns
            if column.name not in known and column.generated is None
        ),
        generated=tuple(
            column.name for column in table.columns if column.generated is not None
        ),
    )  # fmt: skip


def part_of(base: DistributedArticle, number: int, more: str) -> DistributedArticle:
    """Return a separate article for Subscribers with a filter in addition to the article's."""
    there = base.article.row_filter
    return replace(
        base,
        article_id=number,
        article=replace(base.article, row_filter=f"({there}) and ({more})" if there else more),
    )


@dataclass(slots=True, kw_only=True)
class SubscribedArticle:
    """One article of one Subscriber's subscription: a row of ``msrepl.mssubscriptions``."""

    article: DistributedArticle
    after: int = 0
    copy: PgSnapshot | None = None
    copied_to: int = 0
    loopback_detection: bool = True
    active: bool = True


class Registry:
    """Articles, subscriptions, and originators.

    Args:
        publisher: the Publisher's node.
        tables: the published tables, in the order of their publication.
        routines: articles of routines whose execution is published.
    """

    def __init__(
        self,
        publisher: ModelNode,
        tables: Iterable[TableSpec],
        routines: Iterable[ProcArticle] = (),
    ) -> None:
        self.publisher = publisher
        self.routines = {each.article_id: each for each in routines}
        """Articles of routines by number; tables have lower numbers."""
        self.read_only: set[str] = set()
        """Read-only Subscribers, which receive calls."""
        self.articles: dict[int, DistributedArticle] = {}
        self.subscriptions: dict[str, dict[int, SubscribedArticle]] = {}
        """Subscribed articles by Subscriber and number of the article."""
        self.originators: dict[str, int] = {}
        """Numbers of originators by link role."""
        self.names: dict[int, str] = {}
        """Names of Subscribers by their number as an originator."""
        self._originators = 0
        """Number of originators that have ever existed."""
        self.version = 0
        """Number that changes with everything on which the log reader depends."""
        self._base: dict[str, int] = {}
        self._parts: dict[tuple[str, str], int] = {}
        self._conditions: dict[int, Callable[[Values], bool]] = {}
        self._relations: dict[str, tuple[tuple[str, ...], RelationMessage]] = {}
        for spec in tables:
            self.publish(spec)

    def publish(self, spec: TableSpec) -> DistributedArticle:
        """Publish another table, and return its article."""
        table = self.publisher.table(spec.name)
        article = article_of(table, spec, self._next_number())
        self._base[table.name] = article.article_id
        self._add(article)
        return article

    def _next_number(self) -> int:
        number = len(self.articles) + 1
        while number in self.routines or number in self.articles:
            number += 1
        return number

    def _add(self, article: DistributedArticle) -> None:
        self.articles[article.article_id] = article
        self._relations.clear()
        self.version += 1

    def choose(self, filters: Mapping[str, str]) -> list[DistributedArticle]:
        """Return the articles of a Subscriber; a filtered table has a separate article for each filter."""
        chosen = []
        for name, number in self._base.items():
            more = filters.get(name, "")
            if more:
                part = self._parts.get((name, more))
                if part is None:
                    part = self._parts[name, more] = self._next_number()
                    self._add(part_of(self.articles[number], part, more))
                number = part
            chosen.append(self.articles[number])
        return chosen

    def announce(self, spec: SubscriberSpec, *, role: str, after: int, active: bool) -> None:
        """Register a Subscriber for its articles, from a position on.

        Args:
            role: role of its link at the Publisher, which the marks of its transactions name.
        """
        if spec.update == "read only":
            self.read_only.add(spec.name)
        else:
            self._originators += 1
            number = self.originators[role] = self._originators
            self.names[number] = spec.name
        self.subscriptions[spec.name] = {
            article.article_id: SubscribedArticle(article=article, after=after, active=active)
            for article in self.choose(spec.filters)
        }
        self.version += 1

    def forget(self, subscriber: str, *, role: str) -> None:
        """Remove a Subscriber's subscriptions and its originator."""
        self.subscriptions.pop(subscriber, None)
        self.read_only.discard(subscriber)
        self.names.pop(self.originators.pop(role, 0), None)
        self.version += 1

    def originator(self, subscriber: str) -> int | None:
        """Return a Subscriber's number; None if it is not an originator."""
        return next((number for number, name in self.names.items() if name == subscriber), None)

    @property
    def calls(self) -> dict[int, ProcArticle]:
        """Articles of the routines whose calls are stored."""
        return {
            number: each
            for number, each in self.routines.items()
            if self.read_only and each.type is not ProcType.SCHEMA_ONLY
        }

    @property
    def beside_until(self) -> int:
        """Position up to which the rows changed by a call are stored beside the call."""
        if not self.routines:
            return -1
        until = -1
        for name, subscribed in self.subscriptions.items():
            for each in subscribed.values():
                if name not in self.read_only or not each.active:
                    return _ALWAYS
                until = max(until, each.copied_to or -1)
        return until

    def terms(self, subscriber: str) -> tuple[ArticleTerms, ...]:
        """Return the terms of a Subscriber's active articles, for its agent."""
        own = self.originator(subscriber)
        results = [
            ArticleTerms(
                article_id=number,
                after=each.after,
                copy=each.copy,
                copied_to=each.copied_to,
                own=own if each.loopback_detection else None,
            )
            for number, each in self.subscriptions.get(subscriber, {}).items()
            if each.active
        ]
        if self.routines:
            results += list(self._of_routines(subscriber, results))
        return tuple(results)

    def _of_routines(
        self, subscriber: str, tables: Sequence[ArticleTerms]
    ) -> Iterator[ArticleTerms]:
        """Yield the terms for routines: calls for read-only Subscribers, instead of rows; definitions for all."""
        calls = subscriber in self.read_only
        for each in tables:
            if not calls:
                yield replace(each, article_id=beside(each.article_id))
            elif each.copied_to:
                yield replace(each, article_id=beside(each.article_id), upto=each.copied_to)
        after = max((max(each.after, each.copied_to) for each in tables), default=0)
        for number in self.routines if tables else ():
            yield ArticleTerms(article_id=beside(number), after=after)
            if calls:
                yield ArticleTerms(article_id=number, after=after)

    # -- rows of the Publisher -----------------------------------------------------------------------

    def belongs(self, number: int, values: Values) -> bool:
        """Return whether a row of the Publisher's table is in an article."""
        article = self.articles[number].article
        if article.row_filter is None:
            return True
        result = self._conditions.get(number)
        if result is None:
            result = self._conditions[number] = condition(
                article.row_filter, self.publisher.table(article.name), self.publisher.plans
            )
        return result(values)

    def filtered(self, relation: RelationMessage) -> list[int]:
        """Return the numbers of a table's articles with a row filter."""
        return [
            number
            for number, each in self.articles.items()
            if each.article.row_filter is not None
            and (each.article.schema, each.article.table) == (relation.schema, relation.name)
        ]

    def relation(self, table: HeapTable) -> RelationMessage | None:
        """Return a table as the log announces it; None if it is not published."""
        if table.name not in self._base and not is_ours(table.name):
            return None
        names = tuple(column.name for column in table.columns if column.generated is None)
        known = self._relations.get(table.name)
        if known is not None and known[0] == names:
            return known[1]
        schema, name = split(table.name)
        key = {*table.key}
        made = RelationMessage(
            table.number,
            schema,
            name,
            "f" if self._needs_old_rows(schema, name) else "d",
            tuple(RelationColumn(column, 0, -1, column in key) for column in names),
        )
        self._relations[table.name] = (names, made)
        return made

    def _needs_old_rows(self, schema: str, name: str) -> bool:
        return any(
            each.propagation.needs_old_rows or each.article.row_filter is not None
            for each in self.articles.values()
            if (each.article.schema, each.article.table) == (schema, name)
        )


def is_ours(table: str) -> bool:
    """Return whether a table is one of the product's own that the log reader needs."""
    return table in ("msrepl.branch_marker", "msrepl.log_message", "msrepl.call_marker")
