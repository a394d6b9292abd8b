"""Tests of folds of tables that calls have changed, with and without rows stored beside the calls."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.spark.fold.drawn import article, record
from tests.spark.fold.test_folding import BASE, transactions
from twopc.proc_execution import BESIDE, CALL_TYPE
from twopc.sim.spark import shapes
from twopc.sim.spark.errors import ArchiveError
from twopc.sim.spark.fold import folded
from twopc.sim.spark.routines import written_by

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

STAFF, BONUS, GIVE_RAISE = 1, 2, 3
ARTICLES = [
    (*article(1, 0, ["id", "b", "v"], number=number)[:4], table, *article(1, 0, ["id", "b", "v"])[5:])
    for number, table in ((STAFF, "staff"), (BONUS, "bonus"))
]  # fmt: skip


def routine(writes: list[str] | None) -> dict[str, object]:
    """Return a row of `shapes.ROUTINES`."""
    return {
        "article_id": GIVE_RAISE, "source_schema": "public", "source_object": "give_raise",
        "identity": "public.give_raise(integer)", "writes": writes,
    }  # fmt: skip


def called(seqno: int, at: int, failure: str | None = None) -> tuple[object, ...]:
    """Return a stored call."""
    text = json.dumps({"v": ["7"], "f": failure} if failure else {"v": ["7"]})
    return (seqno, at, GIVE_RAISE, CALL_TYPE, None, 0, text)


ROWS = [
    (4, 1, STAFF, 1, None, 0, record(["1", "a", "v1"])),
    (4, 2, BONUS, 1, None, 0, record(["1", "a", "v1"])),
]
BESIDE_8 = (8, 1, STAFF + BESIDE, 2, None, 0, record([None, "b", "v2", "1", "\\x06"]))


def fold(
    spark: SparkSession, commands: list[tuple[object, ...]], writes: list[str] | None = None,
    base: tuple[tuple[object, ...], ...] = (), left_out: dict[int, str] | None = None, upto: int | None = None,
) -> DataFrame:  # fmt: skip
    return folded(
        shapes.frame(spark, list(base), BASE),
        shapes.frame(spark, [*ROWS, *commands], shapes.COMMANDS),
        shapes.frame(spark, transactions(4, 8, 12), shapes.TRANSACTIONS),
        shapes.frame(spark, ARTICLES, shapes.ARTICLES),
        upto=upto,
        routines=[routine(writes)],
        left_out=left_out,
    )


def told(state: DataFrame) -> list[tuple[int, list[str]]]:
    return sorted((row["article_id"], row["values"]) for row in state.collect())


BOTH = [(STAFF, ["1", "a", "v1"]), (BONUS, ["1", "a", "v1"])]


def test_rows_beside_a_call_are_the_tables(spark: SparkSession) -> None:
    """Rows stored beside a call replace it; a call that failed at the Publisher has no effect."""
    commands = [BESIDE_8, called(8, 2), called(12, 1, failure="23514")]
    assert told(fold(spark, commands)) == [(STAFF, ["1", "b", "v2"]), BOTH[1]]


def test_a_call_without_rows(spark: SparkSession) -> None:
    """A fold past a call without rows fails for the tables that the routine may write.

    Without a declaration those are all tables. Before the call, all tables can be folded.
    """
    commands = [called(8, 1)]
    with pytest.raises(
        ArchiveError, match=r"staff: public\.give_raise\(integer\) was called by transaction 0/8"
    ):
        fold(spark, commands, ["staff"])  # fmt: skip
    left_out: dict[int, str] = {}
    assert told(fold(spark, commands, ["staff"], left_out=left_out)) == [BOTH[1]]
    assert list(left_out) == [STAFF]
    assert told(fold(spark, commands, ["staff"], upto=4)) == BOTH
    everything: dict[int, str] = {}
    assert told(fold(spark, commands, left_out=everything)) == []
    assert sorted(everything) == [STAFF, BONUS]


def test_a_base_behind_the_call(spark: SparkSession) -> None:
    """A base later than the call includes its effect; the fold begins there."""
    base = (STAFF, ["1"], ["1", "z", "v3"], 1, "12:12:", 8)
    later = (12, 1, STAFF + BESIDE, 2, None, 0, record([None, "y", "v4", "1", "\\x06"]))
    commands = [called(8, 1), later, called(12, 2)]
    assert told(fold(spark, commands, ["staff"], base=(base,))) == [
        (STAFF, ["1", "y", "v4"]),
        BOTH[1],
    ]


def test_nobody_knows_the_routine(spark: SparkSession) -> None:
    """A call whose routine is not in the archive cannot be folded, which is an error."""
    made = folded(
        shapes.frame(spark, [], BASE),
        shapes.frame(spark, [*ROWS, called(8, 1)], shapes.COMMANDS),
        shapes.frame(spark, transactions(4, 8), shapes.TRANSACTIONS),
        shapes.frame(spark, ARTICLES, shapes.ARTICLES),
    )
    with pytest.raises(Exception, match=r"routine 3 was called by command 1"):
        made.collect()


def test_two_tables_of_one_name() -> None:
    """A table's name may contain a dot: a routine that declares it may write both tables."""
    both = [
        {"article_id": 1, "source_schema": "public", "source_object": "sales.line"},
        {"article_id": 2, "source_schema": "sales", "source_object": "line"},
        {"article_id": 3, "source_schema": "public", "source_object": "account"},
    ]
    assert written_by(routine(["sales.line"]), both) == {1, 2}
    assert written_by(routine(["elsewhere"]), both) == {1, 2, 3}
