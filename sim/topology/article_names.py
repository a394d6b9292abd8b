"""What is said of articles by their tables' names."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from twopc.distributed_article import DistributedArticle
from twopc.errors import ArticleError

Said = TypeVar("Said")


def by_article(text: Mapping[str, Said], articles: Iterable[DistributedArticle]) -> dict[str, Said]:
    """The same by the articles' own names.

    Args:
        text: by ``table``, in schema public, or ``schema.table``; dots in names are no matter.

    Raises:
        ArticleError: there is no such article, or something is said of one twice.
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
