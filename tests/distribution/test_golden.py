"""The SQL that distribution installs at the Publisher's end for an article; ``--rewrite-golden`` writes it anew."""

from __future__ import annotations

import pytest
from psycopg import sql

from tests.fix_golden import Golden
from tests.sql.articles import ACCOUNT, LINE, ODD, table_of
from tests.sql.test_golden import OWNER, whole
from twopc.articles import Article
from twopc.publisher.distribution_setup import filter_texts
from twopc.sql.render import render


def test_rights_at_the_publisher(golden: Golden) -> None:
    """What the log reader's role may do there."""
    text = render(
        "twopc.publisher", "logreader_rights", logreader=sql.Identifier("msrepl_logreader_01")
    )
    golden("distribution/logreader_rights.sql", text)


@pytest.mark.parametrize(
    ("name", "article", "condition"),
    [
        ("account", ACCOUNT, "balance > 0"),
        ("line", LINE, "place < 10 and public.wanted(line.*)"),
        ("odd", ODD, "true"),
    ],
)
def test_row_filters(golden: Golden, name: str, article: Article, condition: str) -> None:
    """Image type and function of one article."""
    texts = filter_texts(table_of(article), 7, condition, OWNER)
    golden(f"distribution/row_filter_{name}.sql", whole(texts))
