"""Check of calls: every Subscriber that receives calls of routines made each call once, and in order.

The witness notes each call that the agent makes. It does not note the changes that a call makes there.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from twopc.sim.spark.audit.delivery import stretches
from twopc.sim.spark.audit.frames import Frames, Names, came, findings, lsn

_CALL = ("subscriber", "article_id", "digest")
#: Name of the function through which an agent makes calls; the number is the routine's.
_TAKER = r"^apply_(\d+)_call$"


def delivered(frames: Frames, names: Names) -> DataFrame:
    """Return `FINDINGS` of class ``delivered``: a call that is missing, was made twice, or was never sent."""
    due = _due(frames).groupBy(*_CALL).agg(F.count("*").alias("due"), F.max("seqno").alias("seqno"))
    done = _done(frames).groupBy(*_CALL).agg(F.count("*").alias("done"))
    frame = due.join(done, on=[*_CALL], how="full").where(
        F.coalesce("due", F.lit(0)) != F.coalesce("done", F.lit(0))
    )
    return findings(
        _named(frames, frame), "delivered", names, node=F.col("subscriber"), seqno=F.col("seqno"),
        detail=came(F.lit("call")),
    )  # fmt: skip


def order(frames: Frames, names: Names) -> DataFrame:
    """Return `FINDINGS` of class ``order``: of two calls, of any routines, the later one was made first."""

    def counted(frame: DataFrame, *by: str) -> DataFrame:
        # among identical calls, the first one made corresponds to the first one sent
        alike = Window.partitionBy(*_CALL).orderBy(*by)
        return frame.withColumn("place", F.row_number().over(alike))

    sent = counted(_due(frames), "seqno", "command_id").select(
        *_CALL, "place", F.struct("seqno", "command_id").alias("sent")
    )
    made = counted(_done(frames), "id").join(sent, on=[*_CALL, "place"], how="inner")
    there = Window.partitionBy("subscriber").orderBy("id")
    late = made.withColumn("before", F.lag("sent").over(there)).where("before > sent")
    return findings(
        _named(frames, late), "order", names, node=F.col("subscriber"), seqno=F.col("sent.seqno"),
        detail=F.concat(
            F.lit("call "), lsn(F.col("sent.seqno")), F.lit(" came after "), lsn(F.col("before.seqno")),
        ),
    )  # fmt: skip


def _due(frames: Frames) -> DataFrame:
    """Return the calls that each watched Subscriber had to make: `subscriber article_id digest seqno command_id`."""
    return (
        frames.called.join(F.broadcast(stretches(frames)), on="article_id", how="inner")
        .where((F.col("seqno") > F.col("after")) & (F.col("seqno") <= F.col("upto")))
        .select("subscriber", "article_id", F.md5("command").alias("digest"), "seqno", "command_id")
    )


def _done(frames: Frames) -> DataFrame:
    """Return the calls that agents made: `subscriber article_id digest id`."""
    return frames.witnessed.where("operation = 'call'").select(
        "subscriber",
        F.regexp_extract("source_object", _TAKER, 1).cast("int").alias("article_id"),
        F.get("key", F.lit(0)).alias("digest"),
        "id",
    )


def _named(frames: Frames, frame: DataFrame) -> DataFrame:
    """Add the routine's name as the article, and a null key, as a call concerns no single row."""
    names = frames.routines.select("article_id", F.col("identity").alias("article"))
    return frame.join(F.broadcast(names), on="article_id", how="left").withColumn(
        "key", F.lit(None).cast("array<string>")
    )
