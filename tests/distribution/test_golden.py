"""Golden tests of the SQL of an article at the Publisher; ``--rewrite-golden`` rewrites it."""

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
    """The privileges of the log reader's role at the Publisher."""
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
    """The image type and the function of an article's row filter."""
    texts = filter_texts(table_of(article), 7, condition, OWNER)
    golden(f"distribution/row_filter_{name}.sql", whole(texts))
