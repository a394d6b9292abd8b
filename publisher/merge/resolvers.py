"""The resolver of an article, checked when it is published."""

from __future__ import annotations

from twopc.drivers.merge.resolving import resolver_of
from twopc.merge.articles import MergeArticle
from twopc.merge.resolvers import SuppliedResolver, check


def check_resolver(article: MergeArticle, where: str) -> None:
    """Refuse a resolver that could not work.

    Raises:
        ArticleError: see `twopc.merge.resolvers.check`; or a user's own is not there (20020).
    """
    if article.options.resolver is None:
        return
    resolver = resolver_of(article.options.resolver, where)
    if isinstance(resolver, SuppliedResolver):
        types = {column.name: column.type for column in article.columns}
        check(resolver, types, where, column_tracking=article.column_tracking)
