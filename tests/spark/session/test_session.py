"""Tests of the Spark session: its settings, and errors if it is not available."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from twopc.sim.spark.errors import PipelineError, SparkMissingError
from twopc.sim.spark.session import SparkOptions, _check_reachable, _settings, session

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def _interpreters(batches: Iterator[Any]) -> Iterator[Any]:
    import pyarrow

    for _ in batches:
        yield pyarrow.RecordBatch.from_pydict({"path": [sys.executable]})


def test_tasks_run_in_this_python_and_in_utc(spark: SparkSession) -> None:
    """Workers use the driver's interpreter, times are UTC, and the caller's settings apply."""
    _interpreters.__module__ = "__main__"  # pickled by value: workers do not have the tests
    answer = spark.range(1, numPartitions=1).mapInArrow(_interpreters, "path string").collect()
    assert [row["path"] for row in answer] == [sys.executable]
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2"
    assert spark.conf.get("spark.driver.memory") == "1g"


def test_a_second_session_is_the_same_or_refused(spark: SparkSession) -> None:
    """An existing session is reused and not stopped; another master or heap is refused."""
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


@pytest.mark.parametrize("master", ["spark://127.0.0.1:1", "sc://127.0.0.1:1/;user_id=me"])
def test_nobody_listens(master: str) -> None:
    """A master that is not reachable is an immediate error, with its address."""
    with pytest.raises(SparkMissingError, match=f"the master {master} cannot be reached"):
        _check_reachable(master)


def test_java_options_of_the_caller(tmp_path: Path) -> None:
    """The caller's Java options follow ours, which make the log quiet."""
    given = {"spark.driver.extraJavaOptions": "-Xss8m"}
    made = _settings(SparkOptions(master="local[2]", conf=given), tmp_path)
    ours, theirs = made["spark.driver.extraJavaOptions"].split()
    assert ours.startswith("-Dlog4j2.configurationFile=")
    assert theirs == "-Xss8m"
