"""Tests of the commands of changes in every format, with the seed's order of parameters."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.distribution.made import (
    VERSION,
    Values,
    article,
    columns,
    delete,
    insert,
    names_of,
    propagation,
    relation,
    update,
)
from twopc.articles import Column
from twopc.errors import ArticleError
from twopc.propagation import CommandType, bitmask, changed_columns, record_values
from twopc.publisher.commands import CommandBuilder
from twopc.publisher.commands.rows import STREAMS_MAX
from twopc.publisher.pgoutput import UNCHANGED, RowMessage

V1, V2 = b"00000000-0000-0000-0000-000000000001", b"00000000-0000-0000-0000-000000000002"


def only(builder: CommandBuilder, change: RowMessage) -> tuple[int, list[bytes | None], int]:
    """Return type, values and hash key of a change's only command."""
    ((number, kind, hashkey, command),) = builder.commands(change)
    assert number == 7
    return kind, record_values(command), hashkey


def old_row(count: int) -> list[bytes | None]:
    return [b"%d" % n for n in range(1, count)] + [V1]


WIDTHS = [2, 8, 9, 64, 246]


@pytest.mark.parametrize("count", WIDTHS)
def test_inserts_and_deletes_of_any_width(count: int) -> None:
    """A CALL carries all values or the key, an XCALL all old values."""
    made = article(*columns(count), key=("c1",))
    here, row = relation(*names_of(made)), old_row(count)
    builder = CommandBuilder([made])
    assert only(builder, insert(here, row))[:2] == (CommandType.INSERT, row)
    assert only(builder, delete(here, row))[:2] == (CommandType.DELETE, [b"1"])
    images = CommandBuilder([article(*columns(count), how=propagation(dele="XCALL"))])
    assert only(images, delete(here, row))[:2] == (CommandType.DELETE, row)


@pytest.mark.parametrize("count", WIDTHS)
def test_updates_of_any_width(count: int) -> None:
    """Each format has its values in the seed's order, whichever column changes."""
    here = relation(*names_of(article(*columns(count))))
    old = old_row(count)
    for changed in {1, count // 2, count - 2, count - 1} - {0}:
        new = [*old]
        new[changed] = b"other"
        new[-1] = V2
        places = sorted({changed, count - 1})
        mask = b"\\x" + bitmask(places, count).hex().encode()
        sparse = [value if place in places else None for place, value in enumerate(new)]
        expected = {
            "CALL": [*new, b"1"],
            "SCALL": [*sparse, b"1", mask],
            "MCALL": [*new, b"1", mask],
            "XCALL": [*old, *new],
        }
        for form, values in expected.items():
            builder = CommandBuilder([article(*columns(count), how=propagation(upd=form))])
            assert only(builder, update(here, old, new))[:2] == (CommandType.UPDATE, values)


def test_a_table_of_one_column() -> None:
    """Commands of a table whose only column is the row version, which is the key, are correct."""
    made = article(VERSION, key=(VERSION.name,))
    here, builder = relation(VERSION.name), CommandBuilder([made])
    assert only(builder, insert(here, [V1]))[1] == [V1]
    assert only(builder, delete(here, [V1]))[1] == [V1]
    assert only(builder, update(here, [V1], [V2]))[1] == [V2, V1, b"\\x01"]
    assert only(builder, update(here, [V1], [V1]))[1] == [None, V1, b"\\x00"]


def test_the_bitmask_tells_null_from_unchanged() -> None:
    """The bitmask distinguishes NULL from unchanged columns, for both of which SCALL passes NULL."""
    made = article(*columns(4))
    here, builder = relation(*names_of(made)), CommandBuilder([made])
    _, values, _ = only(builder, update(here, [b"1", b"2", b"3", V1], [b"1", None, b"3", V2]))
    assert values[:5] == [None, None, None, V2, b"1"]
    assert changed_columns(bytes.fromhex(values[5][2:].decode())) == [1, 3]  # type: ignore[index]


@pytest.mark.parametrize("form", ["CALL", "SCALL", "MCALL"])
def test_key_changes_travel_as_the_update_they_are(form: str) -> None:
    """A key change is an update with new values and the original key, in the original key's stream."""
    made = article(*columns(4), key=("c2", "c1"), how=propagation(upd=form))
    here, builder = relation(*names_of(made)), CommandBuilder([made])
    old, new = [b"1", b"2", b"3", V1], [b"10", b"2", b"3", V2]
    _, values, hashkey = only(builder, update(here, old, new))
    assert values[0] == b"10"
    assert values[4:6] == [b"2", b"1"]
    assert hashkey == only(builder, delete(here, old))[2]
    # if the log has only keys, it has the old key if the key changed, and otherwise no old row
    if form == "CALL":
        keys = [b"1", b"2", None, None]
        assert only(builder, update(here, keys, new, key_only=True))[1:] == (values, hashkey)
        _, values, _ = only(builder, update(here, None, old))
        assert values == [*old, b"2", b"1"]


def test_hashkeys() -> None:
    """Hash keys are 1 to 63 by key, and 0 for statements and if equal keys may have different texts."""
    made = article(*columns(3))
    here, builder = relation(*names_of(made)), CommandBuilder([made])
    seen = {only(builder, insert(here, [b"%d" % n, b"", V1]))[2] for n in range(2000)}
    assert seen == set(range(1, STREAMS_MAX))
    for kind in (
        Column(name="c1", type="public.citext", equality="operator(public.=)"),
        Column(name="c1", type="numeric"),
        Column(name="c1", type="double precision"),
        Column(name="c1", type="interval"),
        Column(name="c1", type="text", collation='"public"."ignore_case"'),
        Column(name="c1", type="public.domain_of_mine"),
    ):
        alone = CommandBuilder([article(kind, VERSION)])
        assert only(alone, insert(relation("c1", VERSION.name), [b"1", V1]))[2] == 0
    fixed = CommandBuilder([article(Column(name="c1", type="numeric(12,2)"), VERSION)])
    assert only(fixed, insert(relation("c1", VERSION.name), [b"1.00", V1]))[2] > 0
    ((_, kind_of, hashkey, _),) = CommandBuilder(
        [article(*columns(3), how=propagation(ins="SQL"))]
    ).commands(insert(here, [b"1", b"2", V1]))
    assert (kind_of, hashkey) == (CommandType.SQL_INSERT, 0)


# -- large values ---------------------------------------------------------------------------------

LARGE = (
    Column(name="c1", type="bytea"),
    Column(name="b", type="bytea"),
    Column(name="x", type="xml"),
    Column(name="t", type="text"),
    VERSION,
)


def test_large_columns_have_no_before_image() -> None:
    """XCALL passes NULL for old values of unbounded types, or of the article's large columns, except keys."""
    here = relation(*(column.name for column in LARGE))
    old, new = [b"\\x01", b"\\x02", b"<a/>", b"t", V1], [b"\\x01", b"\\x03", b"<b/>", b"u", V2]
    seed = CommandBuilder([article(*LARGE, how=propagation(upd="XCALL", dele="XCALL"))])
    assert only(seed, update(here, old, new))[1] == [b"\\x01", None, None, None, V1, *new]
    assert only(seed, delete(here, old))[1] == [b"\\x01", None, None, None, V1]
    chosen = CommandBuilder(
        [article(*LARGE, how=propagation(upd="XCALL", dele="XCALL", large=("t", "c1")))]
    )
    assert only(chosen, delete(here, old))[1] == [b"\\x01", b"\\x02", b"<a/>", None, V1]


def test_large_values_that_the_log_lacks() -> None:
    """Without the old row, SCALL and statements omit unchanged large values; CALL and MCALL fail."""
    made = (Column(name="c1", type="integer"), Column(name="t", type="text"), VERSION)
    here = relation("c1", "t", VERSION.name, identity="d")
    change = update(here, None, [b"1", UNCHANGED, V2])
    _, values, _ = only(CommandBuilder([article(*made)]), change)
    assert values == [b"1", None, V2, b"1", b"\\x05"]
    ((_, _, _, text),) = CommandBuilder([article(*made, how=propagation(upd="SQL"))]).commands(
        change
    )
    assert b'"t"' not in text.split(b"SET")[1]
    for form in ("CALL", "MCALL"):
        with pytest.raises(
            ArticleError, match=r"article t: the log lacks a large value that did not"
        ):
            CommandBuilder([article(*made, how=propagation(upd=form))]).commands(change)
    # a value equal to the marker of unchanged values is a value
    same = bytes(bytearray(UNCHANGED))
    _, values, _ = only(
        CommandBuilder([article(*made, how=propagation(upd="CALL"))]),
        update(here, None, [b"1", same, V2]),
    )
    assert values == [b"1", same, V2, b"1"]


def test_old_rows_that_the_log_lacks() -> None:
    """Without the old row, XCALL fails with a remedy; SCALL and MCALL mark every column as changed."""
    made = columns(3)
    here = relation(*(column.name for column in made))
    new: Values = [b"1", b"5", V2]
    lacking = (
        update(here, None, new),
        update(here, [b"1", None, None], new, key_only=True),
        update(here, [b"1", None, None], new),  # of a partition with another replica identity
    )
    for change in lacking:
        assert only(CommandBuilder([article(*made)]), change)[1] == [*new, b"1", b"\\x07"]
        masked = CommandBuilder([article(*made, how=propagation(upd="MCALL"))])
        assert only(masked, change)[1] == [*new, b"1", b"\\x07"]
        images = CommandBuilder([article(*made, how=propagation(upd="XCALL"))])
        with pytest.raises(ArticleError, match=r"lost REPLICA IDENTITY FULL: `twopc regenerate`"):
            images.commands(change)
    images = CommandBuilder([article(*made, how=propagation(dele="XCALL"))])
    with pytest.raises(ArticleError, match=r"the log lacks the old row"):
        images.commands(delete(here, [b"1", None, None], key_only=True))


# -- articles and tables --------------------------------------------------------------------------


def test_several_articles_on_one_table() -> None:
    """Each article of a table has its own command, in order of its number; NONE has none."""
    three = [
        article(*columns(3), number=9, how=propagation(ins="NONE")),
        article(*columns(3), number=7, how=propagation(upd="NONE", dele="NONE")),
        article(*columns(3), number=8),
    ]
    builder = CommandBuilder(three)
    here = relation(*names_of(three[0]))
    old, new = [b"1", b"2", V1], [b"1", b"3", V2]
    assert [c[0] for c in builder.commands(insert(here, old))] == [7, 8]
    assert [c[0] for c in builder.commands(update(here, old, new))] == [8, 9]
    assert [c[0] for c in builder.commands(delete(here, old))] == [8, 9]
    other = relation("c1", table="another")
    assert list(builder.commands(insert(other, [b"1"]))) == []


def test_column_filters() -> None:
    """Only published columns are sent, at any position in the table."""
    made = article(
        Column(name="c3", type="integer"),
        Column(name="c1", type="integer"),
        VERSION,
        key=("c1",),
        left_out=("secret",),
        generated=("twice",),
    )
    here = relation("secret", "c1", "twice", VERSION.name, "c3")
    builder = CommandBuilder([made])
    assert only(builder, insert(here, [b"s", b"1", b"2", V1, b"3"]))[1] == [b"3", b"1", V1]
    _, values, _ = only(
        builder, update(here, [b"s", b"1", b"2", V1, b"3"], [b"t", b"1", b"2", V2, b"3"])
    )
    assert values == [None, None, V2, b"1", b"\\x04"]


def test_an_article_that_does_not_fit_its_table() -> None:
    """A column that was added, dropped or changed in type is named in the error, with the remedy."""
    made = article(*columns(3), types=(23, 23, 2950), left_out=("x",))
    builder = CommandBuilder([made])

    def refused(*names: str, oid: int = 0) -> str:
        with pytest.raises(ArticleError) as caught:
            builder.commands(insert(relation(*names, oid=oid), [b"1"] * len(names)))
        assert "`twopc regenerate`" in str(caught.value)
        return str(caught.value)

    assert "column 'fresh' was not there" in refused("c1", "c2", VERSION.name, "x", "fresh", oid=23)
    assert "column 'c2' is not in them" in refused("c1", VERSION.name, "x")
    assert "column 'x' is not in them" in refused("c1", "c2", VERSION.name)
    assert "column 'c1' had another type" in refused("c1", "c2", VERSION.name, "x", oid=20)


def test_a_relation_that_is_announced_again() -> None:
    """After another announcement of a relation, columns are read in the announced order."""
    builder = CommandBuilder([article(*columns(3))])
    for order in (("c1", "c2", VERSION.name), ("c2", VERSION.name, "c1")) * 3:
        here = relation(*order)
        row = {"c1": b"1", "c2": b"2", VERSION.name: V1}
        assert only(builder, insert(here, [row[name] for name in order]))[1] == [b"1", b"2", V1]
        assert len(builder._plans) == 1  # the log may announce a relation often


@pytest.mark.parametrize(
    ("old", "new", "kinds"),
    [
        (
            True,
            True,
            {"ins": CommandType.INSERT, "upd": CommandType.UPDATE, "del": CommandType.DELETE},
        ),
        (False, True, {"ins": CommandType.INSERT, "upd": CommandType.INSERT}),
        (True, False, {"upd": CommandType.DELETE, "del": CommandType.DELETE}),
        (False, False, {}),
    ],
)
def test_filtered_articles(old: bool, new: bool, kinds: dict[str, int]) -> None:
    """An update that moves a row out of a partition is a delete, and into it an insert."""
    made = article(*columns(3), row_filter="c2 > 1", how=propagation(upd="MCALL", dele="XCALL"))
    plain = article(*columns(3), number=6)
    builder, here = CommandBuilder([made, plain]), relation(*names_of(made))
    assert builder.has_filters
    assert builder.filtered(here) == (made,)
    first, second = [b"1", b"2", V1], [b"10", b"0", V2]
    for change in (insert(here, second), update(here, first, second), delete(here, first)):
        found = builder.commands(change, [(old, new)])
        assert [c[0] for c in found][:1] == [6]
        assert [c[1] for c in found if c[0] == 7] == (
            [kinds[change.operation]] if change.operation in kinds else []
        )
    if "upd" in kinds and kinds["upd"] != CommandType.UPDATE:
        command = builder.commands(update(here, first, second), [(old, new)])[1][3]
        assert record_values(command) == (second if new else first)


# -- texts ----------------------------------------------------------------------------------------

_VALUE = (
    st.none()
    | st.binary(max_size=6)
    | st.sampled_from([b'"', b"\\", b'a"b', b"", b",", b")", b"'"])
)


@given(st.lists(_VALUE, min_size=5, max_size=5), st.lists(_VALUE, min_size=5, max_size=5))
def test_any_bytes_are_told_apart(old: list[bytes | None], new: list[bytes | None]) -> None:
    """The fast functions that write a row agree with the function that parses it."""
    old, new = [b"k", *old, V1], [b"k", *new, V2]
    made = article(*columns(7))
    here = relation(*names_of(made))
    assert only(CommandBuilder([made]), insert(here, new))[1] == new
    changed = [place for place in range(7) if old[place] != new[place]]
    sparse = [value if place in changed else None for place, value in enumerate(new)]
    mask = b"\\x" + bitmask(changed, 7).hex().encode()
    for form, values in (
        ("SCALL", [*sparse, b"k", mask]),
        ("MCALL", [*new, b"k", mask]),
        ("XCALL", [*old, *new]),
        ("CALL", [*new, b"k"]),
    ):
        builder = CommandBuilder([article(*columns(7), how=propagation(upd=form))])
        for _ in range(2):  # the second time from the cache
            assert only(builder, update(here, old, new))[1] == values


def test_statements() -> None:
    """Literals have their types, for any value."""
    made = article(
        Column(name="c1", type="integer", identity="a"),
        Column(name='we"ird', type='sales."mood"'),
        Column(name="b", type="bytea"),
        VERSION,
        schema="sales",
        table="o'brien",
        how=propagation("SQL", "SQL", "SQL"),
    )
    builder = CommandBuilder([made])
    here = relation(*names_of(made), schema="sales", table="o'brien")

    def text(change: RowMessage) -> str:
        ((_, _, _, command),) = builder.commands(change)
        return command.decode()

    row: Values = [b"1", b"it's", b"\\x00", V1]
    version = f'"{VERSION.name}"'
    assert text(insert(here, row)) == (
        f'INSERT INTO "sales"."o\'brien" ("c1", "we""ird", "b", {version}) OVERRIDING SYSTEM VALUE VALUES '
        f"('1'::integer, 'it''s'::sales.\"mood\", E'\\\\x00'::bytea, '{V1.decode()}'::uuid)"
    )
    assert text(update(here, None, [b"1", None, b"x", V2])) == (
        f'UPDATE "sales"."o\'brien" SET "we""ird" = NULL, "b" = \'x\'::bytea, '
        f"{version} = '{V2.decode()}'::uuid WHERE \"c1\" = '1'::integer"
    )
    assert text(delete(here, [b"1", None, None, None], key_only=True)) == (
        'DELETE FROM "sales"."o\'brien" WHERE "c1" = \'1\'::integer'
    )
    keyed = CommandBuilder([article(*columns(4), key=("c2", "c1"), how=propagation(upd="SQL"))])
    moved = update(
        relation(*names_of(article(*columns(4)))),
        [b"1", b"2", None, None],
        [b"9", b"2", b"3", V2],
        key_only=True,
    )
    ((_, _, _, command),) = keyed.commands(moved)
    assert command.decode().startswith(
        'UPDATE "public"."t" SET "c1" = \'9\'::integer, "c2" = \'2\''
    )
    assert command.decode().endswith("WHERE \"c2\" = '2'::integer AND \"c1\" = '1'::integer")
