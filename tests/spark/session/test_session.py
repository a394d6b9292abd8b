"""The session: what it is set to, and what it says when it cannot be had."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql import SparkSession

from sim.spark.errors import PipelineError
from sim.spark.session import SparkOptions, session

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def _interpreters(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow

    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict({"path": [sys.executable]})


def test_tasks_run_in_this_python_and_in_utc(spark: SparkSession) -> None:
    """Workers have the driver's interpreter; times are UTC; what is set by the caller holds."""
    _interpreters.__module__ = "__main__"  # by value: workers do not know the tests
    answer = spark.range(1, numPartitions=1).mapInArrow(_interpreters, "path string").collect()
    assert [row["path"] for row in answer] == [sys.executable]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.driver.memory") == "1g"


def test_a_second_session_is_the_same_or_refused(spark: SparkSession) -> None:
    """What was made elsewhere is used and not stopped; another master or heap is refused."""
    with session(SparkOptions(master="local[2]")) as again:
        assert again is spark
    assert spark.range(3).count() == 3
    with (
        pytest.raises(PipelineError, match=r"spark.master local\[2\] runs in this process"),
        session(SparkOptions(master="local[1]")),
    ):
        pass
    heap = {"spark.driver.memory": "3g"}
    with (
        pytest.raises(PipelineError, match=r"spark\.driver\.memory 1g runs"),
        session(SparkOptions(master="local[2]", conf=heap)),
    ):
        pass
