"""Tests of identifiers: they are parsed as they were built, never too long, and unique."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twopc import names
from twopc.names import BranchId, GlobalId

#: As the server stores names: 1 to 63 bytes.
NAME = st.one_of(
    st.text("ab_", min_size=1, max_size=8),
    st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=63),
).map(lambda name: name.encode()[: names.NAME_BYTES_MAX].decode(errors="ignore"))
TABLE = st.tuples(NAME | st.just("public"), NAME)
OBJECTS = (
    lambda schema, table: names.sync_procedure("ins", schema, table),
    lambda schema, table: names.sync_row_type("old", schema, table),
    names.shape_type,
    names.version_trigger,
    names.truncate_trigger,
    lambda schema, table: names.first_trigger(names.sync_trigger_function("upd", schema, table)),
    names.generated_setting,
)


@given(TABLE, TABLE)
def test_two_tables_share_no_object(one: tuple[str, str], other: tuple[str, str]) -> None:
    """Objects of different tables have different names, whatever the schemas and tables are called."""
    for made in OBJECTS:
        assert (made(*one) == made(*other)) == (one == other)


@given(TABLE)
def test_no_name_is_cut_by_the_server(table: tuple[str, str]) -> None:
    """Names have at most 63 bytes; the server would silently truncate longer ones."""
    for made in OBJECTS:
        assert len(made(*table).encode()) <= names.NAME_BYTES_MAX


@pytest.mark.parametrize(
    ("schema", "table", "part"),
    [
        ("public", "orders", "orders"),
        ("public", "a_b", "a_b"),
        ("sales", "orders", "sales__orders"),
        ("a", "b_c", "a__b_c"),
        ("a_b", "c", "a_b__c"),
    ],
)
def test_ordinary_names_stay_readable(schema: str, table: str, part: str) -> None:
    """A hash is added only if a name would be ambiguous."""
    assert names.table_part(schema, table) == part


def test_ambiguous_names_are_told_apart() -> None:
    """Without a hash, each of these would be ``a___b`` or ``a__b``."""
    parts = {
        names.table_part(*table)
        for table in (("a_", "b"), ("a", "_b"), ("public", "a___b"), ("public", "a__b"), ("a", "b"))
    }
    assert len(parts) == 5


PART = st.text("azAZ09_.-", min_size=1, max_size=63)


@given(
    PART.map(lambda part: part[:20]),
    st.integers(0, 2**31 - 1),
    st.integers(0, 2**63 - 1),
    PART,
    PART,
)
def test_a_further_branch_belongs_to_its_node(
    coordinator: str, epoch: int, sequence: int, node: str, of: str
) -> None:
    """A further branch of a node differs from its first one, and from those for other sites."""
    global_id = GlobalId(coordinator=coordinator, epoch=epoch, sequence=sequence)
    made = names.further_branch(node, of)
    first, further = global_id.branch(node), global_id.branch(made)
    assert BranchId.parse(str(further)) == further != first
    assert first.node == further.node == names.node_of(made) == node
    assert names.further_branch(node, of + "x") != made


@given(PART, st.integers(0, 2**31 - 1), st.integers(0, 2**63 - 1), PART)
def test_ids_round_trip(coordinator: str, epoch: int, sequence: int, branch: str) -> None:
    """An id is parsed as it was built, and the longest gid is not too long for PostgreSQL."""
    global_id = GlobalId(coordinator=coordinator, epoch=epoch, sequence=sequence)
    assert GlobalId.parse(str(global_id)) == global_id
    made = global_id.branch(branch)
    assert BranchId.parse(str(made)) == made
    assert len(str(made)) <= names.GID_BYTES_MAX
    assert GlobalId.parse(str(made)) is None
    assert BranchId.parse(str(global_id)) is None


@pytest.mark.parametrize(
    "gid",
    [
        "",
        "twopc",
        "pg_gid_16384_730",
        "twopc:a:b:c:d",
        "twopc:a:1:2:",
        "TWOPC:a:1:2:b",
        "twopc:a:1:2:b\n",
        "twopc:a:1:2:b/",
        "twopc:a:1:2:/b",
        "twopc:a:1:2:b/c/d",
        "twopc:a:01:2:b",
        "twopc:a:1:-2:b",
        "twopc:a:1:\N{ARABIC-INDIC DIGIT THREE}:b",
        "twopc:a:2147483648:2:b",
        "twopc:a:1:9223372036854775808:b",
        f"twopc:a:1:{'9' * 5000}:b",
    ],
)
def test_foreign_gids_are_not_ours(gid: str) -> None:
    """A gid of another form is not parsed, so that its transaction is never touched."""
    assert BranchId.parse(gid) is None


def test_a_gid_too_long_for_the_server_is_refused() -> None:
    """A gid has at most 199 bytes."""
    longest = GlobalId(coordinator="c" * 63, epoch=2**31 - 1, sequence=2**63 - 1)
    with pytest.raises(ValueError, match="longer than 199"):
        longest.branch(names.further_branch("p" * 63, "s" * 63))


@pytest.mark.parametrize("part", ["", "a:b", "a b", "ä", "x" * 64, "a\n"])
def test_parts_that_cannot_be_in_a_gid(part: str) -> None:
    """An invalid part is refused when the id is built."""
    with pytest.raises(ValueError, match="use 1 to 63 of the characters"):
        GlobalId(coordinator=part, epoch=1, sequence=1)
    with pytest.raises(ValueError, match="use 1 to 63 of the characters"):
        GlobalId(coordinator="c", epoch=1, sequence=1).branch(part)


@pytest.mark.parametrize(
    "text",
    [f"twopc:{'c' * 64}:1:1", f"twopc:{'c' * 64}:1:1:pub", f"twopc:c:1:1:{'b' * 64}", f"twopc:c:1:1:pub/{'b' * 64}"],
)  # fmt: skip
def test_a_gid_that_nobody_can_have_made_is_foreign(text: str) -> None:
    """Any client may prepare a transaction with any gid: parsing it raises nothing."""
    assert BranchId.parse(text) is None
    assert GlobalId.parse(text) is None
