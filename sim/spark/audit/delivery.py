"""Checks of delivery: no command returns to its originator; others get each command once and in order.

The checks rely on a witness: a trigger at the Subscriber that notes what agents actually do there. The distribution
database only shows what they had to do.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from twopc.sim.spark import shapes
from twopc.sim.spark.audit.frames import Frames, Names, came, findings, lsn, newest_articles

_CHANGE = ("subscriber", "article_id", "key", "operation", "version")


def echo(frames: Frames, names: Names) -> DataFrame:
    """Return `FINDINGS` of class ``echo``: an agent repeated at a Subscriber a change that was made there."""
    own = frames.changes.where("origin is not null")
    versions = own.where("new_version is not null").select(
        F.col("origin").alias("subscriber"), "article_id",
        F.col("new_version").alias("version"), "seqno", "gid",
    )  # fmt: skip
    written = witnessed(frames).join(
        versions, on=["subscriber", "article_id", "version"], how="inner"
    )
    # a delete has no new version: it is an echo if no other node has deleted that key
    deletes = frames.changes.where("operation = 'del'").select(
        "article_id", "key", "origin", "seqno", "gid"
    )
    by_key = deletes.groupBy("article_id", "key").agg(
        F.collect_set(F.coalesce("origin", F.lit(""))).alias("origins"),
        F.max("seqno").alias("seqno"),
        F.max_by("gid", "seqno").alias("gid"),
    )
    deleted = (
        witnessed(frames)
        .where("operation = 'del'")
        .join(by_key, on=["article_id", "key"], how="inner")
        .where(F.col("origins") == F.array("subscriber"))
    )
    columns = ("subscriber", "article_id", "article", "key", "operation", "seqno", "gid")
    both = (
        written.where("operation <> 'del'")
        .select(*columns)
        .unionByName(deleted.select(*columns))
        .distinct()
    )
    return findings(
        both, "echo", names, node=F.col("subscriber"), seqno=F.col("seqno"), gid=F.col("gid"),
        detail=F.concat(
            F.lit("what "), F.col("subscriber"), F.lit(" did came back to it: "), _word(F.col("operation")),
            F.lit(", command "), lsn(F.col("seqno")),
        ),
    )  # fmt: skip


def delivered(frames: Frames, names: Names) -> DataFrame:
    """Return `FINDINGS` of class ``delivered``: a command is missing at a Subscriber, came twice, or was not sent."""
    due = _due(frames).groupBy(*_CHANGE).agg(
        F.count("*").alias("due"), F.max("seqno").alias("seqno"), F.max_by("gid", "seqno").alias("gid")
    )  # fmt: skip
    done = witnessed(frames).groupBy(*_CHANGE).agg(F.count("*").alias("done"))
    articles = newest_articles(frames.articles).select("article_id", "article")
    frame = (
        _null_safe(due, done)
        .where(F.coalesce("due", F.lit(0)) != F.coalesce("done", F.lit(0)))
        # a Subscriber's own changes that returned are reported as echoes
        .join(_own(frames), on=["subscriber", "article_id", "version"], how="left_anti")
        .join(F.broadcast(articles), on="article_id", how="left")
    )
    return findings(
        frame, "delivered", names, node=F.col("subscriber"), seqno=F.col("seqno"), gid=F.col("gid"),
        detail=came(_word(F.col("operation"))),
    )  # fmt: skip


def order(frames: Frames, names: Names) -> DataFrame:
    """Return `FINDINGS` of class ``order``: of two commands for one row the later one came first.

    Between different rows, the agent may choose the order within a batch, which is one transaction there.
    """
    # a version that occurs twice is a finding of another class; here it counts for its first command
    sent = (
        _due(frames)
        .where("version is not null")
        .groupBy(*_CHANGE)
        .agg(F.min(F.struct("seqno", "command_id", "gid")).alias("sent"))
    )
    seen = witnessed(frames).select(*_CHANGE, "article", "id")
    joined = seen.join(sent, on=[*_CHANGE], how="inner")
    per_row = Window.partitionBy("subscriber", "article_id", "key").orderBy("id")
    late = joined.withColumn("before", F.lag("sent").over(per_row)).where("before > sent")
    return findings(
        late, "order", names, node=F.col("subscriber"), seqno=F.col("sent.seqno"), gid=F.col("sent.gid"),
        detail=F.concat(
            F.lit("command "), lsn(F.col("sent.seqno")), F.lit(" came after "), lsn(F.col("before.seqno")),
        ),
    )  # fmt: skip


def witnessed(frames: Frames) -> DataFrame:
    """Return what agents did to published rows: `subscriber article_id article key operation version id`.

    A change that moved a row has its new key; the version of a delete is null, as commands do not hold it.
    """
    articles = (
        frames.articles.groupBy("article_id", "source_schema", "source_object")
        .agg(F.max("shape").alias("shape"))
        .select(
            "article_id", "source_schema", "source_object",
            shapes.article_name(),
        )
    )  # fmt: skip
    deed = F.when(F.col("operation") != "del", F.col("version"))
    return (
        frames.witnessed.join(F.broadcast(articles), on=["source_schema", "source_object"], how="inner")
        .select("subscriber", "article_id", "article", "key", "operation", deed.alias("version"), "id")
    )  # fmt: skip


def stretches(frames: Frames) -> DataFrame:
    """Return the range of the log to examine: `subscriber article_id loopback_detection upto after`."""
    return (
        frames.subscriptions.where("status = 2")
        .join(frames.watched, on=["subscriber", "article_id"], how="inner")
        .select(
            "subscriber", "article_id", "loopback_detection", "upto",
            F.greatest("since", F.coalesce("subscription_seqno", F.lit(0)), F.coalesce("copy_seqno", F.lit(0))).alias("after"),
        )
    )  # fmt: skip


def _due(frames: Frames) -> DataFrame:
    """Return the commands due at watched Subscribers: `subscriber article_id key operation version seqno command_id
    gid`.
    """
    is_own = F.col("origin").eqNullSafe(F.col("subscriber")) & F.col("loopback_detection")
    version = F.when(F.col("operation") != "del", F.col("new_version"))
    has_call = F.col("beside") & F.col("subscriber").isin(*frames.takers)
    return (
        frames.changes.join(F.broadcast(stretches(frames)), on="article_id", how="inner")
        .where((F.col("seqno") > F.col("after")) & (F.col("seqno") <= F.col("upto")) & ~is_own & ~has_call)
        .select(
            "subscriber", "article_id", F.col("new_key").alias("key"), "operation",
            version.alias("version"), "seqno", "command_id", "gid",
        )
    )  # fmt: skip


def _own(frames: Frames) -> DataFrame:
    return (
        frames.changes.where("origin is not null and new_version is not null")
        .select(F.col("origin").alias("subscriber"), "article_id", F.col("new_version").alias("version"))
        .distinct()
    )  # fmt: skip


def _null_safe(due: DataFrame, done: DataFrame) -> DataFrame:
    """Join both sides on `_CHANGE`, with null versions equal."""
    left, right = due.alias("l"), done.alias("r")
    on = [F.col(f"l.{name}").eqNullSafe(F.col(f"r.{name}")) for name in _CHANGE]
    joined = left.join(right, on=on, how="full")
    return joined.select(
        *(F.coalesce(f"l.{name}", f"r.{name}").alias(name) for name in _CHANGE),
        "due", "done", "seqno", "gid",
    )  # fmt: skip


def _word(operation: Column) -> Column:
    return (
        F.when(operation == "ins", "insert").when(operation == "upd", "update").otherwise("delete")
    )
