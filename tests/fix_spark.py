"""One Spark session for every test that needs one.

Each module that uses it has ``pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]``, so that
there is one JVM, however many workers pytest has.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sim.spark.session import SparkOptions, session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SPARK_OPTIONS = SparkOptions(
    master="local[2]",
    conf={"spark.driver.memory": "1g", "spark.sql.shuffle.partitions": "2"},
)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on two cores of this machine."""
    with session(SPARK_OPTIONS) as made:
        yield made
