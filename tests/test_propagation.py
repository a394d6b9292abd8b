"""Tests of call formats: parameters, bitmask, and the text that is stored of a call."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopc.articles import Article, Column
from twopc.errors import ArticleError
from twopc.names import propagation_procedure
from twopc.propagation import (
    Format,
    Method,
    Propagation,
    bitmask,
    bitmask_bytes,
    changed_columns,
    parameters,
    parse_method,
    record_text,
    record_values,
)


def article(columns: int, key: tuple[int, ...] = (1,)) -> Article:
    made = tuple(Column(name=f"col{n}", type="integer") for n in range(1, columns + 1))
    return Article(schema="public", table="t", columns=made, key=tuple(f"col{n}" for n in key))


def names_of(operation: str, form: Format, columns: int = 3, key: tuple[int, ...] = (1,)) -> str:
    return ", ".join(p.name for p in parameters(article(columns, key), operation, form))


@pytest.mark.parametrize(
    ("operation", "form", "expected"),
    [
        ("ins", Format.CALL, "c1, c2, c3"),
        ("upd", Format.CALL, "c1, c2, c3, pkc1, pkc2"),
        ("upd", Format.SCALL, "c1, c2, c3, pkc1, pkc2, bitmap"),
        ("upd", Format.MCALL, "c1, c2, c3, pkc1, pkc2, bitmap"),
        ("upd", Format.XCALL, "old_c1, old_c2, old_c3, c1, c2, c3"),
        ("del", Format.CALL, "pkc1, pkc2"),
        ("del", Format.XCALL, "old_c1, old_c2, old_c3"),
    ],
)
def test_each_format_has_the_parameters_of_the_seed(
    operation: str, form: Format, expected: str
) -> None:
    assert names_of(operation, form, key=(3, 1)) == expected


def test_key_parameters_are_in_the_order_of_the_key() -> None:
    found = parameters(article(3, (3, 1)), "del", Format.CALL)
    assert [p.column.name for p in found if p.column] == ["col3", "col1"]
    assert {p.image for p in found} == {"key"}


@pytest.mark.parametrize(
    ("columns", "width"), [(1, 1), (5, 1), (7, 1), (8, 2), (9, 2), (13, 2), (21, 3), (64, 9), (246, 31)]
)  # fmt: skip
def test_the_bitmask_is_as_wide_as_the_originals(columns: int, width: int) -> None:
    assert bitmask_bytes(columns) == width == len(bitmask([], columns))


def test_the_lowest_bit_is_the_first_column() -> None:
    # the Vendor example: AccountNumber is column 2 and bit 2, ModifiedDate column 8 and bit 128
    assert bitmask([1, 7], 8) == b"\x82\x00"


@given(st.integers(1, 246).flatmap(lambda n: st.tuples(st.just(n), st.sets(st.integers(0, n - 1)))))
def test_a_bitmask_says_what_was_put_in(drawn: tuple[int, set[int]]) -> None:
    columns, changed = drawn
    assert changed_columns(bitmask(changed, columns)) == sorted(changed)


@given(st.lists(st.none() | st.binary(max_size=8), min_size=1))
def test_a_record_says_what_was_put_in(values: list[bytes | None]) -> None:
    assert record_values(record_text(values)) == values


@pytest.mark.parametrize(
    ("operation", "text", "said"),
    [
        ("ins", "SCALL", "SCALL is not for ins"),
        ("del", "MCALL", "MCALL is not for del"),
        ("upd", "VCALL", "is none of CALL, SCALL, MCALL, XCALL, SQL, NONE"),
        ("upd", "", "is none of"),
        ("upd", "SQL sp_mine", "SQL calls no procedure"),
    ],
)
def test_a_method_that_does_not_exist_is_refused(operation: str, text: str, said: str) -> None:
    with pytest.raises(ArticleError, match=said):
        parse_method(operation, text)


def test_a_method_may_name_a_procedure() -> None:
    assert parse_method("upd", "xcall  Audit.upd") == Method(
        format=Format.XCALL, procedure="Audit.upd"
    )


def test_propagation_is_stored_and_read_back() -> None:
    made = Propagation(upd=parse_method("upd", "MCALL sp_mine"), large=("raw",))
    assert Propagation.from_json(made.as_json()) == made
    assert Propagation.from_json(Propagation().as_json()) == Propagation()


@pytest.mark.parametrize(
    ("upd", "dele", "needed"),
    [("CALL", "CALL", False), ("SCALL", "CALL", True), ("MCALL", "CALL", True), ("SQL", "XCALL", True)],
)  # fmt: skip
def test_some_formats_need_the_old_row(upd: str, dele: str, needed: bool) -> None:
    made = Propagation(upd=parse_method("upd", upd), dele=parse_method("del", dele))
    assert made.needs_old_rows is needed


def test_procedures_are_named_as_in_the_seed() -> None:
    assert propagation_procedure("upd", "purchasing", "vendor") == "sp_msupd_purchasingvendor"
    assert propagation_procedure("ins", "public", "orders") == "sp_msins_orders"
    apart = propagation_procedure("ins", "sales", "orders", apart=True)
    assert apart.startswith("sp_msins_salesorders_")
