"""Number of tasks that Spark runs at once."""

from __future__ import annotations

import os
import re

from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias


def cores(spark: SparkSession) -> int:
    """Return the number of cores: of this machine if the master is local, else of all executors."""
    local = re.fullmatch(r"local\[(\d+|\*)(?:,\d+)?\]", spark.conf.get("spark.master", "") or "")
    if local is not None:
        return (os.cpu_count() or 1) if local[1] == "*" else int(local[1])
    # without RDDs the default parallelism shows only in a DataFrame without an explicit number of partitions
    parts = spark.range(1 << 10).select(F.spark_partition_id().alias("part"))
    return max(1, parts.distinct().count())
