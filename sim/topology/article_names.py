"""Mappings from table names, as users write them, to the names of articles."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from twopc.distributed_article import DistributedArticle
from twopc.errors import ArticleError

Said = TypeVar("Said")


def by_article(text: Mapping[str, Said], articles: Iterable[DistributedArticle]) -> dict[str, Said]:
    """Return the mapping with each table's name replaced by the name of its article.

    Args:
        text: values by ``table`` (in schema public) or ``schema.table``; names may contain dots.

    Raises:
        ArticleError: a table is not published, or is named twice.
    """
    known = {each.article.name for each in articles}
    results: dict[str, Said] = {}
    for name, each in text.items():
        plain = name.removeprefix("public.")
        own = name if name in known else plain
        if own not in known:
            raise ArticleError(
                f"table {name} is not published; published are: {', '.join(sorted(known)) or 'none'}"
            )
        if own in results:
            raise ArticleError(f"table {own} is named twice")
        results[own] = each
    return results
