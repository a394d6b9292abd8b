"""How many tasks Spark works on at once."""

from __future__ import annotations

import os
import re

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it


def cores(spark: SparkSession) -> int:
    """Of this machine, or of all executors."""
    local = re.fullmatch(r"local\[(\d+|\*)(?:,\d+)?\]", spark.conf.get("spark.master", "") or "")
    if local is not None:
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1])
    # without an RDD only a frame tells: one that nobody has said a number for has a partition for each core
    parts = spark.range(1 << 10).select(F.spark_partition_id().alias("part"))
    return max(1, parts.distinct().count())
