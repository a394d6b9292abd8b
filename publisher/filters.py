"""Which images of changed rows belong to filtered articles, evaluated at the Publisher in blocks.

Only changes of tables with a filtered article incur this cost. A filter is any condition that publishing accepts,
including users' functions; it is evaluated when the change is read, not when it was committed, so a function that
reads other rows sees their current state. Time zone and date style are UTC and ISO.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import psycopg
from psycopg import AsyncConnection

from twopc.distributed_article import DistributedArticle
from twopc.errors import ArticleError
from twopc.names import VERSION_COLUMN
from twopc.propagation import record_text
from twopc.publisher.commands import Belonging, CommandBuilder
from twopc.publisher.pgoutput import RelationMessage, RowMessage

#: Maximum number of images in one call; each is as large as a row.
_IMAGES_MAX = 2000


class RowFilters:
    """Evaluates row filters for blocks of changes of a `CommandBuilder`.

    Args:
        connection: to the Publisher's database, of the log reader's role; in autocommit mode.
    """

    def __init__(self, connection: AsyncConnection[Any], builder: CommandBuilder) -> None:
        self._connection = connection
        self._builder = builder

    async def belongings(self, changes: Sequence[RowMessage]) -> list[Belonging]:
        """Return for each change the `belonging` that `CommandBuilder.commands` takes.

        Raises:
            ArticleError: a filter cannot be evaluated, or the log lacks an old row.
        """
        results: list[list[tuple[bool, bool]]] = [[] for _ in changes]
        by_relation: dict[int, list[int]] = {}
        relations: dict[int, RelationMessage] = {}
        for place, change in enumerate(changes):
            by_relation.setdefault(id(change.relation), []).append(place)
            relations[id(change.relation)] = change.relation
        for key, places in by_relation.items():
            if not self._builder.fits(relations[key]):
                continue  # making commands of these changes raises the error, after earlier commands
            for article in self._builder.filtered(relations[key]):
                images = _images(article, [changes[place] for place in places])
                belong = iter(await self._ask(article, images))
                for place in places:
                    change = changes[place]
                    old = change.old is not None and next(belong)
                    results[place].append((old, change.new is not None and next(belong)))
        return list(results)

    async def _ask(self, article: DistributedArticle, images: list[str]) -> list[bool]:
        belong: list[bool] = []
        for start in range(0, len(images), _IMAGES_MAX):
            part = images[start : start + _IMAGES_MAX]
            try:
                cursor = await self._connection.execute(
                    "select msrepl.filter_rows(%s::integer, %b::text[])", (article.article_id, part)
                )
                row = await cursor.fetchone()
            except psycopg.OperationalError:
                raise
            except psycopg.Error as error:
                raise ArticleError(
                    f"row filter {article.article.row_filter!r} of article {article.article.name} cannot be "
                    f"evaluated for a changed row: {error.diag.message_primary or error}; correct the row "
                    "or what the filter calls, or `twopc regenerate` after an ALTER TABLE"
                ) from error
            assert row is not None
            belong += row[0]
        return belong


def _images(article: DistributedArticle, changes: Sequence[RowMessage]) -> list[str]:
    """Return the images of each change, the old one first, as text of the row type that the filter takes."""
    relation = changes[0].relation
    kept = [
        place
        for place, column in enumerate(relation.columns)
        if column.name not in article.generated
    ]
    version = next(p for p, c in enumerate(relation.columns) if c.name == VERSION_COLUMN)
    images: list[str] = []
    for change in changes:
        if change.operation != "ins" and (change.old is None or change.old[version] is None):
            raise ArticleError(
                f"article {article.article.name}: its row filter needs old rows, which the log lacks, "
                "because the table or a partition of it has lost REPLICA IDENTITY FULL: `twopc regenerate` "
                "it, and `twopc reinitialise` its Subscribers"
            )
        images += [
            record_text([image[place] for place in kept]).decode()
            for image in (change.old, change.new)
            if image is not None
        ]
    return images
