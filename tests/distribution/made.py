"""Constructed articles, relations and changes."""

from __future__ import annotations

from collections.abc import Sequence

from twopc.articles import Article, Column
from twopc.distributed_article import DistributedArticle, default_procedures
from twopc.names import VERSION_COLUMN
from twopc.propagation import Propagation, parse_method
from twopc.publisher.pgoutput import RelationColumn, RelationMessage, RowMessage

Values = Sequence[bytes | None]

VERSION = Column(name=VERSION_COLUMN, type="uuid")


def propagation(
    ins: str = "CALL", upd: str = "SCALL", dele: str = "CALL", large: tuple[str, ...] | None = None
) -> Propagation:
    """Return a propagation from the words that a user writes."""
    return Propagation(
        ins=parse_method("ins", ins),
        upd=parse_method("upd", upd),
        dele=parse_method("del", dele),
        large=large,
    )


def columns(count: int, type_name: str = "integer") -> tuple[Column, ...]:
    """Return `count` columns, the last of which is the row version."""
    names = [f"c{n}" for n in range(1, count)]
    return (*(Column(name=name, type=type_name) for name in names), VERSION)


def article(
    *parts: Column,
    key: tuple[str, ...] = ("c1",),
    number: int = 7,
    how: Propagation | None = None,
    row_filter: str | None = None,
    left_out: tuple[str, ...] = (),
    generated: tuple[str, ...] = (),
    types: tuple[int, ...] = (),
    table: str = "t",
    schema: str = "public",
) -> DistributedArticle:
    """Return an article of these columns."""
    return DistributedArticle(
        article_id=number,
        article=Article(schema=schema, table=table, columns=parts, key=key, row_filter=row_filter),
        propagation=how or Propagation(),
        procedures=default_procedures(schema, table),
        left_out=left_out,
        generated=generated,
        types=types,
    )


def relation(
    *names: str, identity: str = "f", table: str = "t", schema: str = "public", oid: int = 0
) -> RelationMessage:
    """Return a relation as the log announces it."""
    described = tuple(RelationColumn(name, oid, -1, False) for name in names)
    return RelationMessage(1, schema, table, identity, described)


def names_of(distributed: DistributedArticle) -> list[str]:
    """Return the names of an article's columns."""
    return [column.name for column in distributed.article.columns]


def insert(of: RelationMessage, new: Values) -> RowMessage:
    """Return the insert of a row."""
    return RowMessage(of, "ins", None, list(new), False)


def update(
    of: RelationMessage, old: Values | None, new: Values, *, key_only: bool = False
) -> RowMessage:
    """Return the update of a row."""
    return RowMessage(of, "upd", None if old is None else list(old), list(new), key_only)


def delete(of: RelationMessage, old: Values, *, key_only: bool = False) -> RowMessage:
    """Return the delete of a row."""
    return RowMessage(of, "del", list(old), None, key_only)
