"""The SQL of propagation, whole; see `test_golden`."""

from __future__ import annotations

import dataclasses

import pytest

from tests.fix_golden import Golden
from tests.propagation.here import propagation
from tests.propagation.vendor import PLACE, VENDOR
from tests.sql.articles import ARTICLES, table_of
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


@pytest.mark.parametrize("name", ARTICLES)
def test_article(golden: Golden, name: str) -> None:
    """Types, procedures, what applies commands to them, and what drops it all."""
    article, methods = ARTICLES[name], FORMATS.get(name, {})
    place = dataclasses.replace(PLACE, held=table_of(article))
    if "audit.kept" in str(methods):
        place = dataclasses.replace(place, routines={"del": CUSTOM})
    golden(
        f"subscriber/propagation/{name}.sql",
        whole([*article_texts(article, 7, propagation(**methods), place), *drop_texts(7, [])]),
    )


def test_more_values_than_arguments(golden: Golden) -> None:
    """Each image is one argument."""
    columns = tuple(Column(name=f"col{n}", type="integer") for n in range(1, 101))
    article = Article(schema="public", table="wide", columns=columns, key=("col1",))
    golden(
        "subscriber/propagation/wide.sql",
        whole(article_texts(article, 7, propagation(), PLACE)),
    )


def test_vendor(golden: Golden) -> None:
    """The seed's example, as `sp_scriptinsproc` and its like show it."""
    scripts = ("sp_scriptinsproc", "sp_scriptsupdproc", "sp_scriptdelproc")
    golden(
        "subscriber/propagation/vendor.sql",
        "\n".join(script_procedure(script, VENDOR, 1, PLACE) for script in scripts),
    )
