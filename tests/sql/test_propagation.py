"""Golden tests of the SQL of propagation; see `test_golden`."""

from __future__ import annotations

import dataclasses

import pytest

from tests.fix_golden import Golden, difference
from tests.propagation.here import propagation
from tests.propagation.vendor import PLACE, VENDOR
from tests.sql.articles import ARTICLES, WHOLE, table_of
from tests.sql.test_golden import OWNER, whole
from twopc.articles import Article, Column
from twopc.subscriber.propagation import CustomRoutine, article_texts, drop_texts, script_procedure
from twopc.subscriber.propagation.install import install_texts

CUSTOM = CustomRoutine(
    schema="audit", name="audit.kept", signature="audit.kept(bigint)", is_procedure=True
)
FORMATS = {
    "account": {},
    "composite_key": {"upd": "XCALL", "dele": "XCALL"},
    "filters": {"upd": "MCALL", "dele": "CALL audit.kept"},
    "generated_values": {"upd": "CALL"},
    "hostile_names": {"upd": "MCALL"},
    "shared": {"ins": "SQL", "upd": "SQL", "dele": "NONE"},
}


def test_what_a_subscriber_has_before_its_first_article(golden: Golden) -> None:
    golden("subscriber/propagation/first.sql", whole(install_texts(OWNER, PLACE.agent)))


def of_article(name: str) -> str:
    """Return an article's types and procedures, what applies its commands, and what drops them."""
    article, methods = ARTICLES[name], FORMATS.get(name, {})
    place = dataclasses.replace(PLACE, held=table_of(article))
    if "audit.kept" in str(methods):
        place = dataclasses.replace(place, routines={"del": CUSTOM})
    return whole([*article_texts(article, 7, propagation(**methods), place), *drop_texts(7, [])])


@pytest.mark.parametrize("name", WHOLE)
def test_article(golden: Golden, name: str) -> None:
    golden(f"subscriber/propagation/{name}.sql", of_article(name))


@pytest.mark.parametrize("name", sorted({*ARTICLES} - {*WHOLE}))
def test_what_differs_of_others(golden: Golden, name: str) -> None:
    golden(
        f"subscriber/propagation/{name}.diff", difference(of_article(name), of_article(WHOLE[0]))
    )


def test_more_values_than_arguments(golden: Golden) -> None:
    """Each row image is one argument if a table has too many columns."""

    def of(count: int) -> str:
        columns = tuple(Column(name=f"col{n}", type="integer") for n in range(1, count + 1))
        article = Article(schema="public", table="wide", columns=columns, key=("col1",))
        return whole(article_texts(article, 7, propagation(), PLACE))

    golden("subscriber/propagation/wide.diff", difference(of(100), of(40)))


def test_vendor(golden: Golden) -> None:
    """The default procedures of AdventureWorks' Vendor, as `sp_scriptinsproc` etc. print them."""
    scripts = ("sp_scriptinsproc", "sp_scriptsupdproc", "sp_scriptdelproc")
    golden(
        "subscriber/propagation/vendor.sql",
        "\n".join(script_procedure(script, VENDOR, 1, PLACE) for script in scripts),
    )
