"""Metadata of a distribution database: its Publisher, positions, articles, originators, subscriptions and routines.

All of it is small and is read through psycopg in the calling process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg.rows import dict_row

from twopc import names
from twopc.lsn import lsn_text, lsn_value
from twopc.proc_execution import BESIDE, ProcArticle
from twopc.propagation import Propagation, is_large
from twopc.sim.spark.errors import GapError, PipelineError
from twopc.sim.spark.source.queries import small

Row = Mapping[str, Any]

_PUBLISHERS = """
select d.id, d.publisher, d.publisher_db, d.slot, d.read_to::text as read_to, d.removed_to::text as removed_to,
    (select system_identifier from pg_control_system())::text || '/'
    || (select oid from pg_database where datname = current_database()) as distribution,
    d.identity::text as identity
from msrepl.mspublisher_databases d order by d.id
"""
_SHAPES = """
select article_id, shape, after::text as after, source_schema, source_object, columns, key, filter_clause,
    propagation
from msrepl.msarticle_shapes where publisher_database_id = %(publisher)s
union all
-- of a database in which shapes were not noted when the article was entered
select a.article_id, 1, '0/0', a.source_schema, a.source_object, a.columns, a.key, a.filter_clause, a.propagation
from msrepl.msarticles a
where a.publisher_database_id = %(publisher)s and a.kind = 'table' and not exists (
    select from msrepl.msarticle_shapes s
    where (s.publisher_database_id, s.article_id) = (a.publisher_database_id, a.article_id))
order by 1, 2
"""
_ROUTINES = """
select a.article_id, a.source_schema, a.source_object, a.proc from msrepl.msarticles a
where a.publisher_database_id = %(publisher)s and a.kind = 'proc' and a.article_id < %(beside)s order by a.article_id
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Publisher:
    """The Publisher of a distribution database's commands."""

    name: str
    database: str
    number: int
    """Number of the Publisher in its distribution database."""
    slot: str
    distribution: str
    """System identifier and database number of the distribution database."""
    identity: str = ""
    """Identity generated when the Publisher was entered in the distribution database; it differs between copies of
    one server. Empty: unknown, in an archive of an earlier version.
    """
    system: str = ""
    """The Publisher's own system identifier; empty if it has not been read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """The metadata of a distribution database in one snapshot."""

    publisher: Publisher
    read_to: int
    """Sequence number of the last stored transaction."""
    removed_to: int
    """Sequence number of the last transaction that clean-up has removed; everything up to it is gone."""
    articles: tuple[Row, ...]
    """Rows of `shapes.ARTICLES`, every shape."""
    originators: tuple[Row, ...]
    """Rows of `shapes.ORIGINATORS`."""
    subscriptions: tuple[Row, ...]
    """Rows of `shapes.SUBSCRIPTIONS`."""
    routines: tuple[Row, ...] = ()
    """Rows of `shapes.ROUTINES`."""

    def holds(self, *, after: int, upto: int, where: str) -> None:
        """Check that every transaction between two positions is stored.

        Raises:
            GapError: a transaction has been removed, or was never stored.
        """
        if after < self.removed_to:
            raise GapError(
                f"clean-up has removed what follows {lsn_text(after)}: the distribution database begins after "
                f"{lsn_text(self.removed_to)}. Begin a new archive with a base; clean-up waits for it, unless "
                "nothing is appended to it for longer than its --archive-hours",
                after=after,
                upto=self.removed_to,
                where=where,
            )
        if upto > self.read_to:
            raise GapError(
                f"the log of {self.publisher.name} has been read to {lsn_text(self.read_to)} only, and what "
                f"is up to {lsn_text(upto)} was asked for: this is another distribution database, or one "
                "that was restored",
                after=self.read_to,
                upto=upto,
                where=where,
            )


@contextmanager
def connected(dsn: str, what: str) -> Iterator[psycopg.Connection[Any]]:
    """Yield a connection in autocommit mode; a transaction that is opened on it can serve as one snapshot.

    Raises:
        PipelineError: the connection fails, or the tables do not exist or may not be read.
    """
    with errors_of(what), psycopg.connect(dsn, autocommit=True) as connection:
        yield connection


@contextmanager
def errors_of(what: str) -> Iterator[None]:
    """Convert errors of a database to PipelineError: the connection fails, or the tables do not exist or may not be
    read.
    """
    try:
        yield
    except psycopg.OperationalError as error:
        raise PipelineError(f"{what} cannot be reached: {error}".strip()) from error
    except (psycopg.errors.UndefinedTable, psycopg.errors.UndefinedColumn) as error:
        raise PipelineError(
            f"{what} has no such tables as this program reads ({error.diag.message_primary}): is it "
            "one, and was it opened by this version?"
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise PipelineError(
            f"{what}: {error.diag.message_primary}: connect as its administrator"
        ) from error


def facts(dsn: str, publisher: str = "") -> Facts:
    """Read the metadata of a distribution database in one snapshot.

    Args:
        publisher: the Publisher's name; empty: the only Publisher.

    Raises:
        PipelineError: the database cannot be reached, is no distribution database, or has no such Publisher.
    """
    with (
        connected(dsn, "the distribution database") as connection,
        connection.transaction(),
        connection.cursor(row_factory=dict_row) as cursor,
    ):
        cursor.execute("set transaction isolation level repeatable read read only")
        rows = chosen(cursor.execute(_PUBLISHERS).fetchall(), publisher)
        number = {"publisher": rows["id"]}
        return Facts(
            publisher=Publisher(
                name=rows["publisher"],
                database=rows["publisher_db"],
                number=rows["id"],
                slot=rows["slot"],
                distribution=rows["distribution"],
                identity=rows["identity"],
            ),
            read_to=lsn_value(rows["read_to"]),
            removed_to=lsn_value(rows["removed_to"]),
            articles=tuple(_article(row) for row in cursor.execute(_SHAPES, number).fetchall()),
            originators=tuple(_small(cursor, "originators", rows["id"])),
            subscriptions=tuple(_small(cursor, "subscriptions", rows["id"])),
            routines=tuple(
                _routine(row)
                for row in cursor.execute(_ROUTINES, {**number, "beside": BESIDE}).fetchall()
            ),
        )


def chosen(publishers: list[dict[str, Any]], name: str) -> dict[str, Any]:
    """Return the Publisher with that name, or the only one if the name is empty.

    Raises:
        PipelineError: there is no such Publisher, or there are several and the name is empty.
    """
    known = ", ".join(each["publisher"] for each in publishers)
    if name:
        for each in publishers:
            if each["publisher"] == name:
                return each
        raise PipelineError(
            f"no Publisher {name!r} in the distribution database: there are {known}"
        )
    if not publishers:
        raise PipelineError(
            "the distribution database knows no Publisher: nothing is published yet"
        )
    if len(publishers) > 1:
        raise PipelineError(
            f"the distribution database has several Publishers: choose by --publisher: {known}"
        )
    return publishers[0]


def _small(cursor: psycopg.Cursor[dict[str, Any]], table: str, number: int) -> list[dict[str, Any]]:
    return cursor.execute(small(table, number).encode()).fetchall()


def _routine(row: Row) -> dict[str, Any]:
    """Return a row of `shapes.ROUTINES`."""
    described = ProcArticle.from_json(row["proc"])
    return {
        "article_id": row["article_id"],
        "source_schema": row["source_schema"],
        "source_object": row["source_object"],
        "identity": described.identity,
        "writes": None if described.writes is None else list(described.writes),
    }


def _article(row: Row) -> dict[str, Any]:
    """Return a row of `shapes.ARTICLES`."""
    columns = [each["name"] for each in row["columns"]]
    types = [each["type"] for each in row["columns"]]
    propagation = Propagation.from_json(row["propagation"])
    large = propagation.large
    if large is None:
        large = tuple(c for c, t in zip(columns, types, strict=True) if is_large(t))
    return {
        "article_id": row["article_id"],
        "shape": row["shape"],
        "first_seqno": lsn_value(row["after"]),
        "source_schema": row["source_schema"],
        "source_object": row["source_object"],
        "columns": columns,
        "types": types,
        "key": [columns.index(each) for each in row["key"]],
        "version": columns.index(names.VERSION_COLUMN) if names.VERSION_COLUMN in columns else None,
        "filter_clause": row["filter_clause"],
        "ins": str(propagation.ins),
        "upd": str(propagation.upd),
        "del": str(propagation.dele),
        "large": [columns.index(each) for each in large if each in columns],
    }


def system_of(dsn: str, what: str) -> str:
    """Return a server's system identifier."""
    with connected(dsn, what) as connection:
        return value_of(connection, "select system_identifier from pg_control_system()")


def value_of(connection: psycopg.Connection[Any], query: str) -> str:
    """Return the only value that a query gives, as text."""
    [(value,)] = connection.execute(query.encode()).fetchall()
    return str(value)
