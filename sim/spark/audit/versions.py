"""Check of row versions: the versions of a row form a chain, in which each occurs once and follows its predecessor.

This is the only check with a window over a key. All changes of a hot key would be in one task, so keys are cut into
buckets of the sequence; the first change in a bucket is joined to the last one of an earlier bucket.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from twopc.sim.spark.audit.frames import Frames, Names, findings, lsn, newest_articles

#: Size of a bucket of the sequence: 64 MiB of WAL.
BUCKET = 1 << 26
_KEY = ("article_id", "key")


def check(frames: Frames, names: Names, *, bucket: int = BUCKET) -> DataFrame:
    """Return `FINDINGS` of class ``versions``.

    Args:
        bucket: the range of the sequence that one task processes of a hot key.
    """
    changes = frames.changes
    if frames.untold:  # between two commands for a row, a call may have changed its version
        changes = changes.where(~F.col("article_id").isin(*frames.untold))
    articles = F.broadcast(newest_articles(frames.articles).select("article_id", "article"))
    twice = (
        changes.where("new_version is not null")
        .groupBy("article_id", F.col("new_key").alias("key"), "new_version")
        .agg(
            F.count("*").alias("times"),
            F.min("seqno").alias("first"),
            F.max(F.struct("seqno", "gid")).alias("last"),
        )
        .where("times > 1")
        .join(articles, on="article_id", how="left")
    )
    repeated = findings(
        twice, "versions", names, node=F.lit(names.publisher), seqno=F.col("last.seqno"), gid=F.col("last.gid"),
        detail=F.concat(
            F.lit("version "), F.col("new_version"), F.lit(" was given "), F.col("times"), F.lit(" times, first by "),
            lsn(F.col("first")), F.lit(", last by "), lsn(F.col("last.seqno")),
        ),
    )  # fmt: skip
    # in most call formats, commands do not hold the version that they replace
    numbers = changes.where("old_version is not null").select("article_id").distinct()
    broken = (
        chained(changes.join(F.broadcast(numbers), on="article_id", how="left_semi"), bucket=bucket)
        .where(
            "old_version is not null and previous is not null and previous.new_version is not null"
        )
        .where("old_version <> previous.new_version")
        .join(articles, on="article_id", how="left")
    )
    not_followed = findings(
        broken, "versions", names, node=F.lit(names.publisher), seqno=F.col("seqno"), gid=F.col("gid"),
        detail=F.concat(
            F.lit("it replaces version "), F.col("old_version"), F.lit(", but the change before it, "),
            lsn(F.col("previous.seqno")), F.lit(", had made "), F.col("previous.new_version"),
        ),
    )  # fmt: skip
    return repeated.unionByName(not_followed).select(*repeated.columns)


def chained(changes: DataFrame, *, bucket: int) -> DataFrame:
    """Return each change of a row with its predecessor: `article_id key seqno command_id old_version gid previous`.

    A change of the key ends a chain under the old key and begins one under the new key.
    """
    made = F.struct("seqno", "command_id", "operation", "new_version")
    moved = ~F.col("key").eqNullSafe(F.col("new_key")) & (F.col("operation") == "upd")
    left = changes.where(moved).select(
        "article_id", "key", "seqno", "command_id", "old_version", "gid",
        F.lit(None).cast("string").alias("new_version"), F.lit("del").alias("operation"),
    )  # fmt: skip
    stay = changes.select(
        "article_id", F.col("new_key").alias("key"), "seqno", "command_id",
        F.when(~moved, F.col("old_version")).alias("old_version"), "gid", "new_version", "operation",
    )  # fmt: skip
    cut = (
        stay.unionByName(left)
        .withColumn("made", made)
        .withColumn("bucket", F.floor(F.col("seqno") / bucket))
    )
    within = Window.partitionBy(*_KEY, "bucket").orderBy("seqno", "command_id")
    # the last change of each bucket, and that of the row's previous bucket
    ends = cut.groupBy(*_KEY, "bucket").agg(F.max("made").alias("end"))
    across = Window.partitionBy(*_KEY).orderBy("bucket")
    before = ends.select(*_KEY, "bucket", F.lag("end").over(across).alias("end_before"))
    return (
        cut.withColumn("lagged", F.lag("made").over(within))
        .join(before, on=[*_KEY, "bucket"], how="left")
        .select(
            *_KEY, "seqno", "command_id", "old_version", "gid",
            F.coalesce("lagged", "end_before").alias("previous"),
        )
    )  # fmt: skip
