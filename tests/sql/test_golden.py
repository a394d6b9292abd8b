"""Golden tests of the SQL that is installed for a table: a change is visible before it is committed.

The whole text of three tables is stored; of the others, the differences from the first. Text that is the same for every
table is in the files from which it is installed.

``make golden`` rewrites the files.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from tests.fix_golden import Golden, difference
from tests.sql.articles import ARTICLES, EXPRESSIONS, ODD, WHOLE, table_of
from twopc.articles import Article, Table, UserTrigger
from twopc.publisher import objects as publisher_objects
from twopc.publisher.procedures import ProcedureTexts, drop_texts
from twopc.subscriber import objects as subscriber_objects
from twopc.subscriber import read_only
from twopc.subscriber.tables import create_table_text, foreign_key_text
from twopc.subscriber.triggers import BranchNames, TriggerTexts

OWNER = "msrepl_owner_0123456789ab"
SITES = BranchNames(publisher="pub", subscriber="sub1")
LINK = subscriber_objects.LinkAddress(
    options={"host": "pub.example", "port": "5432", "dbname": "sales"},
    role="msrepl_link_0123456789ab",
    password="not in any text",
)


def whole(texts: Iterable[str]) -> str:
    """Return every statement, each terminated and on lines of its own."""
    return "\n".join(text.strip().rstrip(";") + ";\n" for text in texts)


def test_no_password_is_in_a_text() -> None:
    """No text contains the password of a Subscriber's link."""
    assert LINK.password not in whole(subscriber_objects.install_texts("shop", SITES, LINK))


def test_shared_objects_of_a_subscriber_that_reads(golden: Golden) -> None:
    """The objects that a read-only Subscriber has before its first article."""
    golden("subscriber/read_only.sql", whole(read_only.install_texts("shop", SITES, "sales")))


@pytest.mark.parametrize("name", WHOLE)
def test_article(golden: Golden, name: str) -> None:
    """The types, procedures and triggers of an article, what drops them, and the Subscriber's table."""
    for end, text in (("publisher", published), ("subscriber", subscribed)):
        golden(f"{end}/{name}.sql", text(ARTICLES[name]))


@pytest.mark.parametrize("name", sorted({*ARTICLES} - {*WHOLE}))
def test_what_differs_of_others(golden: Golden, name: str) -> None:
    """The differences of other articles from the first of `WHOLE`."""
    for end, text in (("publisher", published), ("subscriber", subscribed)):
        golden(f"{end}/{name}.diff", difference(text(ARTICLES[name]), text(ARTICLES[WHOLE[0]])))


def test_article_beside_row_triggers_of_the_user(golden: Golden) -> None:
    """If the user has AFTER ROW triggers, ours are AFTER ROW too, and fire first."""
    article = ARTICLES["account"]
    audit = UserTrigger(name="audit", before=False, row=True, insert=True, update=True, delete=True)
    text = subscribed(article, table_of(article, audit))
    golden("subscriber/row_triggers.diff", difference(text, subscribed(article)))


def published(article: Article) -> str:
    """Return all SQL of one article at the Publisher."""
    texts = ProcedureTexts(article, OWNER, path=["sales"] if article.writes_back else [])
    return whole(
        [
            *texts.all(EXPRESSIONS),
            *publisher_objects.trigger_texts(table_of(article), texts.role),
            *drop_texts(article.schema, article.table),
        ]
    )


def subscribed(article: Article, held: Table | None = None) -> str:
    """Return all SQL of one article at a Subscriber."""
    texts = TriggerTexts(article, SITES, OWNER, held)
    return whole(
        [
            *(str(user_type.definition) for user_type in article.types),
            create_table_text(article),
            *(foreign_key_text(key) for key in article.references),
            *subscriber_objects.article_texts(
                texts, created_table=True, added_version=False, added_keys=()
            ),
            *subscriber_objects.drop_article_texts(OWNER, article.schema, article.table),
        ]
    )


def test_texts_are_the_same_every_time() -> None:
    """Texts depend neither on the order of a set, nor on a clock or random values."""
    first = [
        ProcedureTexts(ODD, OWNER).all(EXPRESSIONS),
        TriggerTexts(ODD, SITES, OWNER).functions(),
    ]
    second = [
        ProcedureTexts(ODD, OWNER).all(EXPRESSIONS),
        TriggerTexts(ODD, SITES, OWNER).functions(),
    ]
    assert first == second
