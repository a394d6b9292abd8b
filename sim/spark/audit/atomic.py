"""Check of atomicity: every global transaction took effect at all its participants, or at none.

The writes of a Subscriber's transaction are at the Publisher, and so among the commands; they must also be at the
Subscriber, unless the row has been written again since. Conversely, each row version at a Subscriber must be known
at the Publisher.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from twopc.sim.spark.audit.frames import Frames, Names, by_whom, findings
from twopc.sim.spark.audit.rows import ARCHIVE, differences


def check(frames: Frames, names: Names, result: DataFrame | None = None) -> DataFrame:
    """Return `FINDINGS` of class ``atomic``.

    Args:
        result: the result of `rows.differences`; None: it is computed.
    """
    frame = (differences(frames, names) if result is None else result).where(
        (F.col("node") != ARCHIVE) & F.col("version").isNotNull()
    )
    text = frame.withColumn("has", F.get("actual", F.col("version")))
    own = text.where(F.col("last.origin") == F.col("node")).where(
        # the Publisher's row is the one that this transaction made, or missing because the transaction deleted it
        F.when(F.col("last.operation") == "del", F.col("expected").isNull() & F.col("actual").isNotNull())
        .otherwise(
            (F.get("expected", F.col("version")) == F.col("last.new_version"))
            & ~F.col("has").eqNullSafe(F.col("last.new_version"))
        )
    )  # fmt: skip
    at_publisher_only = findings(
        own, "atomic", names, node=F.col("node"), seqno=F.col("last.seqno"), gid=F.col("last.gid"),
        detail=F.concat(
            F.lit("a transaction of "), F.col("node"), F.lit(f" took effect at {names.publisher}, not at "),
            F.col("node"), by_whom("last"),
        ),
    )  # fmt: skip
    strange = text.where("has is not null").join(
        _versions(frames, names), on=["article_id", "has"], how="left_anti"
    )
    at_subscriber_only = findings(
        strange, "atomic", names, node=F.col("node"), seqno=F.col("last.seqno"),
        detail=F.concat(
            F.lit("took effect at "), F.col("node"), F.lit(f", not at {names.publisher}: version "),
            F.col("has"), F.lit(" is nowhere else"),
        ),
    )  # fmt: skip
    return at_publisher_only.unionByName(at_subscriber_only).select(*at_publisher_only.columns)


def _versions(frames: Frames, names: Names) -> DataFrame:
    """Return every known version that a row has had at the Publisher: `article_id has`."""
    of_commands = frames.changes.select(
        "article_id", F.explode(F.array("old_version", "new_version")).alias("has")
    )
    of_bases = frames.known.select("article_id", F.col("version").alias("has"))
    places = (
        frames.articles.where("version is not null")
        .groupBy("article_id")
        .agg(F.max_by("version", "shape").alias("version"))
    )
    live = (
        frames.rows_at.where(F.col("node") == names.publisher)
        .join(F.broadcast(places), on="article_id", how="inner")
        .select("article_id", F.get("values", F.col("version")).alias("has"))
    )
    return of_commands.unionByName(of_bases).unionByName(live).select("article_id", "has")
