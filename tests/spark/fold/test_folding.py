"""Tests of folds: the rows at a position equal those computed by a dictionary."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from datetime import UTC, datetime
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql.types import IntegerType, LongType, StringType, StructType

from tests.fix_spark import INTERPRETED
from tests.spark.archive.made import ARTICLE, PUBLISHER, facts, stage
from tests.spark.fold.drawn import ARTICLES, Drawn, article, record
from twopc.sim.spark import shapes
from twopc.sim.spark.archive import Archive
from twopc.sim.spark.archive.append import add
from twopc.sim.spark.errors import ArchiveError
from twopc.sim.spark.fold import folded, seqno_at, state_of
from twopc.sim.spark.session import translated

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

BASE = (
    StructType(list(shapes.ROWS.fields))
    .add("shape", IntegerType())
    .add("snapshot", StringType())
    .add("seqno", LongType())
)


def transactions(*seqnos: int) -> list[tuple[object, ...]]:
    return [(seqno, 10 + n, None, None, 1, 1, 0, None) for n, seqno in enumerate(seqnos)]


def kept(spark: SparkSession) -> int:
    """Return the number of frames that the session caches."""
    state = spark._jsparkSession.sharedState()  # type: ignore[attr-defined]
    return int(state.cacheManager().numCachedEntries())


@contextmanager
def compiled(spark: SparkSession) -> Iterator[None]:
    """Compile expressions and plans during the block, as Spark does by default."""
    for name in INTERPRETED:
        spark.conf.unset(name)
    yield
    for name, value in INTERPRETED.items():
        spark.conf.set(name, value)


def test_time_travel(spark: SparkSession) -> None:
    """A fold is right with updates of keys, NULLs, an added column, and a base among transactions.

    Expressions are interpreted the first time, as in all tests, and compiled the second,
    as elsewhere.
    """
    drawn = Drawn(seed=11)
    frames = (
        shapes.frame(spark, drawn.base, BASE).cache(),
        shapes.frame(spark, drawn.commands, shapes.COMMANDS).cache(),
        shapes.frame(spark, drawn.transactions, shapes.TRANSACTIONS).cache(),
        shapes.frame(spark, ARTICLES, shapes.ARTICLES).cache(),
    )
    for upto, how in ((56, nullcontext()), (796, compiled(spark))):
        before = kept(spark)
        with ExitStack() as until, how:
            rows = folded(*frames, upto=upto, until=until).collect()
            assert kept(spark) == before + 1
        assert kept(spark) == before
        assert {row.key[0]: row["values"] for row in rows} == drawn.states[upto]
        assert all(row.complete for row in rows)
    with pytest.raises(ArchiveError, match="nothing can be told of article 1"):
        folded(*frames, upto=48)
    for frame in frames:
        frame.unpersist()


def test_rows_that_nobody_inserted_and_rows_that_moved(spark: SparkSession) -> None:
    """Without a base, updates of keys are followed, and a row that was never inserted is incomplete.

    1 moves to 2, which moves to 3; 5 is updated without an insert; 6 is inserted and deleted.
    """
    version = "v"
    commands = [
        (4, 1, 1, 1, None, 0, record(["1", "a", version])),
        (4, 2, 1, 1, None, 0, record(["2", "b", version])),
        (4, 3, 1, 1, None, 0, record(["6", "f", version])),
        (8, 1, 1, 2, None, 0, record(["2", None, "w", "1", "\\x05"])),
        (8, 2, 1, 2, None, 0, record(["3", None, "w", "2", "\\x05"])),
        (8, 3, 1, 2, None, 0, record([None, "e", "w", "5", "\\x06"])),
        (8, 4, 1, 3, None, 0, record(["6"])),
        (8, 5, 2, 13, None, 0, "delete from t"),
    ]
    statements = (*article(1, 0, ["id", "b", "v"], number=2)[:10], "SQL", "SQL", "SQL", [])
    made = folded(
        shapes.frame(spark, [], BASE),
        shapes.frame(spark, commands, shapes.COMMANDS),
        shapes.frame(spark, transactions(4, 8), shapes.TRANSACTIONS),
        shapes.frame(spark, [article(1, 0, ["id", "b", "v"]), statements], shapes.ARTICLES),
    )
    assert made.columns == shapes.STATE.names
    assert sorted(tuple(row) for row in made.collect()) == [
        (1, ["2"], ["2", "a", "w"], 8, 1, 2, True),
        (1, ["3"], ["3", "b", "w"], 8, 2, 2, True),
        (1, ["5"], [None, "e", "w"], 8, 3, 1, False),
    ]


def test_what_cannot_be_read_is_not_left_out(spark: SparkSession) -> None:
    commands = [(4, 1, 7, 1, None, 0, record(["1", "a", "v"]))]
    made = folded(
        shapes.frame(spark, [], BASE),
        shapes.frame(spark, commands, shapes.COMMANDS),
        shapes.frame(spark, transactions(4), shapes.TRANSACTIONS),
        shapes.frame(spark, [article(1, 0, ["id", "b", "v"])], shapes.ARTICLES),
    )
    with pytest.raises(ArchiveError, match=r"article 7: command 1 .* cannot be read"), translated():
        made.collect()


def test_moments(spark: SparkSession) -> None:
    """Times do not strictly ascend; the result is the last transaction before the first later one."""

    def at(second: int) -> datetime:
        return datetime(2026, 11, 22, 22, 0, second, tzinfo=UTC)

    rows = [
        (4 * n, 10 + n, at(second), None, 1, 1, 0, None) for n, second in enumerate((1, 5, 3, 9), 1)
    ]
    frame = shapes.frame(spark, rows, shapes.TRANSACTIONS)
    assert seqno_at(frame, at(4)) == 4
    assert seqno_at(frame, at(5)) == 12
    assert seqno_at(frame, at(9)) == 16
    assert seqno_at(frame, at(0)) is None


def test_a_key_of_other_columns(spark: SparkSession) -> None:
    """A fold past a change of the key's columns is refused: rows cannot be found by the new key.

    It is possible up to the change, and from a base after it.
    """
    other = list(article(2, 6, ["id", "b", "v"]))
    other[7] = [1]
    commands = [
        (4, 1, 1, 1, None, 0, record(["1", "a", "v1"])),
        (8, 1, 1, 3, None, 0, record(["a"])),
    ]

    def fold(base: tuple[tuple[object, ...], ...] = (), upto: int | None = None) -> list[list[str]]:
        state = folded(
            shapes.frame(spark, list(base), BASE),
            shapes.frame(spark, commands, shapes.COMMANDS),
            shapes.frame(spark, transactions(4, 8), shapes.TRANSACTIONS),
            shapes.frame(spark, [article(1, 0, ["id", "b", "v"]), tuple(other)], shapes.ARTICLES),
            upto=upto,
        )
        return [row["values"] for row in state.where("complete").collect()]

    assert fold(upto=4) == [["1", "a", "v1"]]
    with pytest.raises(ArchiveError, match=r"t: its key was \(id\) and is \(b\)"):
        fold()
    assert fold(base=((1, ["a"], ["1", "a", "v1"], 2, "11:11:", 4),)) == []


@pytest.mark.parametrize(("first", "after"), [(6, 5), (0, 0)])
def test_a_key_that_was_changed_before_the_commands(
    spark: SparkSession, tmp_path: Path, first: int, after: int
) -> None:
    """A changed key does not matter if no command in the archive uses the former key."""
    made = Archive.create(tmp_path, PUBLISHER, first=first)
    shape = {**ARTICLE, "shape": 2, "first_seqno": after, "key": [1]}
    known = facts(articles=(ARTICLE, shape))
    made = add(made, stage(made.folder, [8], each=1), upto=8, facts=known)
    assert [row["values"] for row in state_of(made, spark).collect()] == [["81", "1"]]
