"""What the checks of an audit look at, and the words in which they tell what they have found.

A check is a function of these tables alone: it reads no database. All user data is text.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from twopc.names import article_name as name_of
from twopc.sim.spark import shapes
from twopc.sim.spark.fold import newest

#: A Subscriber's deliveries can be examined from here on, and up to there.
WATCHED = shapes.shape("subscriber string, article_id int, since bigint, upto bigint")
#: `ROWS` of a node.
ROWS_AT = shapes.shape("node string, article_id int, key array<string>, values array<string>")
#: Rows that somebody has changed behind the archive's end.
KEYS = shapes.shape("article_id int, key array<string>")
#: Versions that rows of a base have had.
VERSIONS = shapes.shape("article_id int, version string")
#: The last shape of each article; article: as messages call it.
NEWEST = shapes.shape(
    "article_id int, shape int, article string, columns array<string>, version int"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """The tables of one audit."""

    changes: DataFrame
    """See `changes`: all commands that could be read, each with who made it."""
    state: DataFrame
    """`STATE`: the fold at the archive's end."""
    articles: DataFrame
    """`ARTICLES`, all shapes."""
    subscriptions: DataFrame
    """`SUBSCRIPTIONS`."""
    later: DataFrame
    """`KEYS`."""
    known: DataFrame
    """`VERSIONS`, besides those of `changes`."""
    rows_at: DataFrame
    """`ROWS_AT`: of the Publisher, filtered, and of each Subscriber that is there."""
    witnessed: DataFrame
    """`WITNESSED`: what agents really did."""
    watched: DataFrame
    """`WATCHED`: of which subscriptions there is a witness."""
    read: tuple[str, ...]
    """The Subscribers whose rows are in `rows_at`, as many as they may have."""
    folded: tuple[int, ...]
    """Articles of which `state` has all rows: the archive has a base of them."""
    called: DataFrame
    """`ROUTINE_CALLS`."""
    routines: DataFrame
    """`ROUTINES`."""
    takers: frozenset[str] = frozenset()
    """Subscribers that take calls, and no rows that are stored beside them."""
    own_versions: frozenset[tuple[str, int]] = frozenset()
    """Subscriber and article whose rows have versions of its own: calls make them there."""
    untold: frozenset[int] = frozenset()
    """Articles that calls have changed without their rows being stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """What the tables do not say."""

    publisher: str
    """The Publisher's node."""
    repro: str = ""
    """The command that audits again, without ``--only``."""


def changes(decoded: DataFrame, transactions: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Commands, with who made each, and in which global transaction.

    Args:
        decoded: `DECODED`.
        transactions: `TRANSACTIONS`, those of the commands.
        subscriptions: `SUBSCRIPTIONS`: an originator is a Subscriber.

    Returns:
        `seqno command_id article_id operation key new_key old_version new_version origin gid problem beside`;
        origin: the Subscriber's node, null for the Publisher; problem, beside: as in `DECODED`.
    """
    origins = subscriptions.where("originator_id is not null").select(
        F.col("originator_id").alias("of_origin"), F.col("subscriber").alias("origin")
    )
    # the others have nothing to say of their commands
    text = transactions.where("originator_id is not null or gid is not null").select(
        "seqno", F.col("originator_id").alias("of_transaction"), "gid"
    )
    return (
        decoded.join(text, on="seqno", how="left")
        # what the Publisher itself wrote within a Subscriber's transaction has an originator of its own
        .withColumn("of_origin", F.coalesce("originator_id", "of_transaction"))
        .join(F.broadcast(origins.distinct()), on="of_origin", how="left")
        .select(
            "seqno", "command_id", "article_id", "operation", "key",
            F.coalesce("new_key", "key").alias("new_key"), "old_version", "new_version", "origin", "gid", "problem",
            "beside",
        )
    )  # fmt: skip


def last_changes(report: DataFrame) -> DataFrame:
    """Of each row its last change: `article_id key last`. It is combined before anything is shuffled."""
    order = F.struct("seqno", "command_id")
    fields = F.struct("seqno", "operation", "new_version", "origin", "gid")
    return (
        report.groupBy("article_id", F.col("new_key").alias("key"))
        .agg(F.max_by(fields, order).alias("last"))
        .select("article_id", "key", "last")
    )


def newest_articles(articles: DataFrame) -> DataFrame:
    """`NEWEST`; they are looked at here, as they are no more than a catalog has."""
    return shapes.frame(
        articles.sparkSession,
        [
            {
                **each.asDict(),
                "article": name_of(each["source_schema"], each["source_object"]),
            }
            for each in newest(articles.collect()).values()
        ],
        NEWEST,
    )


def article_name(schema: Column, table: Column) -> Column:
    """As messages call it: without ``public.``."""
    return (
        F.when(schema == "public", table).otherwise(F.concat_ws(".", schema, table))
    ).alias("article")  # fmt: skip


def lsn(seqno: Column) -> Column:
    """A sequence number as PostgreSQL writes it."""
    return F.concat(
        F.hex(F.shiftrightunsigned(seqno, 32)), F.lit("/"), F.hex(seqno.bitwiseAND(0xFFFFFFFF))
    )


def by_whom(last: str) -> Column:
    """``last command 0/1A001F8 of north``; empty if nobody has changed it."""
    return F.when(
        F.col(last).isNotNull(),
        F.concat(
            F.lit(" (last command "), lsn(F.col(f"{last}.seqno")),
            F.lit(" of "), F.coalesce(F.col(f"{last}.origin"), F.lit("the Publisher")), F.lit(")"),
        ),
    ).otherwise("")  # fmt: skip


def findings(
    frame: DataFrame, kind: str, names: Names, *, detail: Column, node: Column,
    seqno: Column | None = None, gid: Column | None = None,
) -> DataFrame:  # fmt: skip
    """`FINDINGS`, of a frame with `article` and `key`."""
    repro = f"{names.repro} --only {kind}" if names.repro else ""
    nothing = F.lit(None)
    return frame.select(
        F.lit(kind).alias("class"),
        "article",
        "key",
        (nothing if seqno is None else seqno).cast("bigint").alias("seqno"),
        (nothing if gid is None else gid).cast("string").alias("gid"),
        node.cast("string").alias("node"),
        detail.alias("detail"),
        F.lit(repro).alias("repro"),
    )
