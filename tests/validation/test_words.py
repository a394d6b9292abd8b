"""Tests of the messages of a verdict, and of the rows that a command touches."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopc.articles import Article, Column
from twopc.distributed_article import DistributedArticle, default_procedures
from twopc.propagation import FORMATS, Format, Method, Propagation
from twopc.publisher.commands import CommandBuilder
from twopc.publisher.pgoutput import RelationColumn, RelationMessage, RowMessage
from twopc.validation import ArticleVerdict, RowDifference, Total, key_text, parse_key, touched_keys

HOSTILE = ('say "when"', "NULL", "it's", "k\\2", "msrepl_tran_version")
COLUMNS = tuple(Column(name=name, type="text") for name in HOSTILE)
FORMS = [
    (operation, form)
    for operation, forms in FORMATS.items()
    for form in forms
    if form is not Format.NONE
]
VALUES = st.text(
    alphabet=st.sampled_from("abN'\"\\(),UL é= ") | st.characters(codec="utf-8", exclude_characters="\0"),
    max_size=8,
)  # fmt: skip


def distributed(operation: str, form: Format) -> DistributedArticle:
    made = {each: Method(format=Format.CALL) for each in ("ins", "upd", "del")}
    made[operation] = Method(format=form)
    return DistributedArticle(
        article_id=7,
        article=Article(schema="public", table="NULL t'", columns=COLUMNS, key=(HOSTILE[3], HOSTILE[0])),
        propagation=Propagation(ins=made["ins"], upd=made["upd"], dele=made["del"]),
        procedures=default_procedures("public", "t"),
    )  # fmt: skip


@pytest.mark.parametrize(("operation", "form"), FORMS)
@given(old=st.lists(VALUES, min_size=5, max_size=5), new=st.lists(VALUES, min_size=5, max_size=5))
def test_a_command_names_the_rows_that_it_touches(
    operation: str, form: Format, old: list[str], new: list[str]
) -> None:
    """A command of any format identifies the rows that it touches, however their values are quoted."""
    article = distributed(operation, form)
    relation = RelationMessage(
        oid=1, schema="public", name="NULL t'", replica_identity="f",
        columns=tuple(RelationColumn(name=n, type_oid=25, typmod=-1, is_key=True) for n in HOSTILE),
    )  # fmt: skip
    change = RowMessage(
        relation=relation,
        operation=operation,
        old=None if operation == "ins" else [v.encode() for v in old],
        new=None if operation == "del" else [v.encode() for v in new],
        old_is_key=False,
    )
    expected = {(row[3], row[0]) for row, there in ((old, change.old), (new, change.new)) if there}
    for _, command_type, _, command in CommandBuilder([article]).commands(change):
        assert touched_keys(article, command_type, command.decode()) == expected


def verdict(
    *differences: RowDifference, expected: Total, actual: Total, more: int = 0
) -> ArticleVerdict:
    return ArticleVerdict(
        subscriber="sub1",
        article="orders",
        expected=expected,
        actual=actual,
        key=("id", "line"),
        differences=differences,
        more=more,
    )


def test_the_words_are_the_originals() -> None:
    """The messages have SQL Server's numbers and texts.

    20527 and 20575 if the validation passed; 20524 for the number of rows, 20525 for their contents, and 20574.
    """
    same = Total(rows=2, checksum=255)
    passed = verdict(expected=same, actual=same)
    assert passed.passed
    assert passed.messages() == (
        (20527, "Table 'orders' passed rowcount (2) and checksum validation."),
        (20575, "Subscriber 'sub1' subscription to article 'orders' passed data validation."),
    )
    changed = RowDifference(key=("1", "2"), expected=1, actual=2)
    assert verdict(changed, expected=same, actual=Total(rows=2, checksum=1)).messages() == (
        (
            20525,
            "Table 'orders' might be out of synchronization. Rowcounts (actual: 2, expected: 2). "
            "Checksum values (actual: 0000000000000001, expected: 00000000000000ff).",
        ),
        (20574, "Subscriber 'sub1' subscription to article 'orders' failed data validation."),
    )
    fewer = verdict(changed, expected=same, actual=Total(rows=1, checksum=1))
    assert fewer.messages()[0] == (
        20524,
        "Table 'orders' may be out of synchronization. Rowcounts (actual: 1, expected: 2).",
    )


def test_rows_are_named() -> None:
    """A difference is described by the row's key and its kind."""
    found = verdict(
        RowDifference(key=("1", "2"), expected=1, actual=2),
        RowDifference(key=("1", "3"), expected=1, actual=None),
        RowDifference(key=("1", "4"), expected=None, actual=2),
        expected=Total(),
        actual=Total(),
        more=7,
    )
    assert found.named() == [
        "changed (id = 1, line = 2)",
        "missing (id = 1, line = 3)",
        "extra (id = 1, line = 4)",
        "and 7 further rows",
    ]
    assert key_text(("id",), parse_key('("a ""b"" \\\\")')) == '(id = a "b" \\)'


@given(st.lists(st.integers(-(2**63), 2**63 - 1)), st.lists(st.integers(-(2**63), 2**63 - 1)))
def test_totals_take_rows_back(kept: list[int], taken: list[int]) -> None:
    """Totals from which rows are removed equal those without them, in any order."""
    one, other = Total(), Total()
    for checksum in kept:
        one.count(checksum)
    for checksum in [*taken, *reversed(kept)]:
        other.count(checksum)
    for checksum in taken:
        other.count(checksum, -1)
    assert one == other
