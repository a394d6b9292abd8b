"""Tests of small tables of the driver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from twopc.sim.spark import shapes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def plan(frame: DataFrame) -> str:
    """Return the first line of the optimised plan."""
    query: Any = frame._jdf.queryExecution()
    return str(query.optimizedPlan().toString()).splitlines()[0]


def test_a_small_table_is_part_of_the_plan(spark: SparkSession) -> None:
    """Spark needs no Python to read a small table, and removes an empty one, with its joins."""
    by_place = shapes.frame(spark, [(1, ["k"], ["k", None])], shapes.ROWS)
    by_name = shapes.frame(
        spark, [{"key": ["k"], "article_id": 1, "values": ["k", None], "of no use": 0}], shapes.ROWS
    )
    assert by_place.schema == shapes.ROWS
    assert by_place.collect() == by_name.collect()
    assert tuple(by_place.collect()[0]) == (1, ["k"], ["k", None])
    assert plan(by_place).startswith("LocalRelation [")
    nothing = shapes.frame(spark, [], shapes.ROWS)
    joined = by_place.join(nothing, on=["article_id", "key"], how="inner")
    assert plan(joined).startswith("LocalRelation <empty>")


def test_a_row_of_another_width(spark: SparkSession) -> None:
    with pytest.raises(ValueError, match="shorter"):
        shapes.frame(spark, [(1, ["k"])], shapes.ROWS)
