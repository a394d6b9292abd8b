"""The text of everything that merge replication creates; read the difference when it changes.

The whole text of three tables is kept; of the others, the difference from one of these, with a
digest of the whole.
"""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

import pytest

from tests.fix_golden import Golden, difference
from tests.sql.articles import LINE, ODD, THING
from tests.sql.test_golden import whole
from twopc.articles import Column
from twopc.merge.articles import MergeArticle
from twopc.sql.merge_session_texts import SessionTexts

OWNER = "msrepl_owner_0123456789ab"
ARTID = UUID("00112233-4455-6677-8899-aabbccddeeff")


def of(schema: str, table: str, columns: Iterable[Column], *, tracking: bool) -> MergeArticle:
    """Return an article of the columns that are merged."""
    return MergeArticle(
        artid=ARTID,
        nickname=7,
        schema=schema,
        table=table,
        rowguid="rowguid",
        columns=tuple(column for column in columns if column.takes_values),
        column_tracking=tracking,
    )


def wide(count: int) -> list[Column]:
    """Return a number of columns, of which the first is the key."""
    return [Column(name=f"c{n}", type="integer", not_null=n == 1) for n in range(1, count + 1)]


ARTICLES = {
    "row_1": of("public", "t", wide(1), tracking=False),
    "row_8": of("public", "t", wide(8), tracking=False),
    "column_1": of("public", "t", wide(1), tracking=True),
    "column_8": of("public", "t", wide(8), tracking=True),
    "column_64": of("public", "t", wide(64), tracking=True),
    "column_246": of("public", "t", wide(246), tracking=True),
    "hostile_names": of(ODD.schema, ODD.table, ODD.columns, tracking=True),
    "composite_key": of(LINE.schema, LINE.table, LINE.columns, tracking=True),
    "generated_values": of(THING.schema, THING.table, THING.columns, tracking=False),
}


#: The text with which each text is compared; the others are kept whole.
BASES = {
    "row_1": "row_8",
    "column_1": "column_8",
    "column_64": "column_8",
    "column_246": "column_8",
    "composite_key": "column_8",
    "generated_values": "row_8",
}


def of_article(name: str) -> str:
    """Return metadata, functions and triggers of an article, and the statements that drop them."""
    texts = SessionTexts(ARTICLES[name], OWNER, "merge")
    parts = (texts.metadata_part(), texts.floor_of_versions(), *texts.functions())
    drops = (*texts.drop(table=True), *texts.drop_session())
    return whole([*parts, *texts.triggers(), *texts.all(), *drops])


@pytest.mark.parametrize("name", ARTICLES)
def test_article(golden: Golden, name: str) -> None:
    """The text of an article is the recorded one, from one column to the highest number."""
    if name in BASES:
        golden(f"merge/{name}.diff", difference(of_article(name), of_article(BASES[name])))
    else:
        golden(f"merge/{name}.sql", of_article(name))
