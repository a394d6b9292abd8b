"""Tables that the checks of an audit examine, and helpers for the texts of their findings.

A check is a function of these tables alone: it reads no database. All user data is text.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from twopc.names import article_name as name_of
from twopc.sim.spark import shapes
from twopc.sim.spark.fold import newest

#: Range of the log in which a Subscriber's deliveries can be examined.
WATCHED = shapes.shape("subscriber string, article_id int, since bigint, upto bigint")
#: `ROWS` of a node.
ROWS_AT = shapes.shape("node string, article_id int, key array<string>, values array<string>")
#: Rows that were changed after the archive's end.
KEYS = shapes.shape("article_id int, key array<string>")
#: Versions that rows of a base have had.
VERSIONS = shapes.shape("article_id int, version string")
#: The last shape of each article; article: its name in messages.
NEWEST = shapes.shape(
    "article_id int, shape int, article string, columns array<string>, version int"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Frames:
    """The tables of one audit."""

    changes: DataFrame
    """See `changes`: all readable commands, each with its originator."""
    state: DataFrame
    """`STATE`: the fold at the archive's end."""
    articles: DataFrame
    """`ARTICLES`, all shapes."""
    subscriptions: DataFrame
    """`SUBSCRIPTIONS`."""
    later: DataFrame
    """`KEYS`."""
    known: DataFrame
    """`VERSIONS`, in addition to those of `changes`."""
    rows_at: DataFrame
    """`ROWS_AT` of the Publisher, filtered, and of each available Subscriber."""
    witnessed: DataFrame
    """`WITNESSED`: what agents actually did."""
    watched: DataFrame
    """`WATCHED`: the subscriptions that have a witness."""
    read: tuple[str, ...]
    """The Subscribers whose rows are in `rows_at`."""
    folded: tuple[int, ...]
    """Articles all of whose rows are in `state`: the archive has a base of them."""
    called: DataFrame
    """`ROUTINE_CALLS`."""
    routines: DataFrame
    """`ROUTINES`."""
    takers: frozenset[str] = frozenset()
    """Subscribers that receive calls instead of the rows stored beside them."""
    own_versions: frozenset[tuple[str, int]] = frozenset()
    """Subscriber and article whose row versions are the Subscriber's own, as calls make them there."""
    untold: frozenset[int] = frozenset()
    """Articles that calls have changed although the changed rows are not stored."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """Names that the tables do not hold."""

    publisher: str
    """The Publisher's node."""
    repro: str = ""
    """The command that repeats the audit, without ``--only``."""


def changes(decoded: DataFrame, transactions: DataFrame, subscriptions: DataFrame) -> DataFrame:
    """Return commands with the originator and the global transaction of each.

    Args:
        decoded: `DECODED`.
        transactions: `TRANSACTIONS`, those of the commands.
        subscriptions: `SUBSCRIPTIONS`, which map originators to Subscribers.

    Returns:
        `seqno command_id article_id operation key new_key old_version new_version origin gid problem beside`;
        origin: the Subscriber's node, null for the Publisher; problem, beside: as in `DECODED`.
    """
    origins = subscriptions.where("originator_id is not null").select(
        F.col("originator_id").alias("of_origin"), F.col("subscriber").alias("origin")
    )
    # other transactions add no information to their commands
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
    """Return the last change of each row: `article_id key last`. Changes are combined before the shuffle."""
    order = F.struct("seqno", "command_id")
    fields = F.struct("seqno", "operation", "new_version", "origin", "gid")
    return (
        report.groupBy("article_id", F.col("new_key").alias("key"))
        .agg(F.max_by(fields, order).alias("last"))
        .select("article_id", "key", "last")
    )


def newest_articles(articles: DataFrame) -> DataFrame:
    """Return `NEWEST`; the articles are collected by the driver, as there are only as many as in a catalog."""
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


def lsn(seqno: Column) -> Column:
    """Return a sequence number as PostgreSQL writes an LSN."""
    return F.concat(
        F.hex(F.shiftrightunsigned(seqno, 32)), F.lit("/"), F.hex(seqno.bitwiseAND(0xFFFFFFFF))
    )


def by_whom(last: str) -> Column:
    """Return ``last command 0/1A001F8 of north``; empty if no command has changed the row."""
    return F.when(
        F.col(last).isNotNull(),
        F.concat(
            F.lit(" (last command "), lsn(F.col(f"{last}.seqno")),
            F.lit(" of "), F.coalesce(F.col(f"{last}.origin"), F.lit("the Publisher")), F.lit(")"),
        ),
    ).otherwise("")  # fmt: skip


def came(what: Column) -> Column:
    """Return ``missing: insert``, ``strange: …`` or ``insert came 2 times, …``, from `due`, `done` and `seqno`."""
    lines = (
        F.when(F.col("done").isNull(), F.concat(F.lit("missing: "), what))
        .when(F.col("due").isNull(), F.concat(F.lit("strange: "), what))
        .otherwise(
            F.concat(
                what, F.lit(" came "), F.col("done"), F.lit(" times, and was sent "), F.col("due"), F.lit(" times"),
            )
        )
    )  # fmt: skip
    at = F.concat(F.lit(", command "), lsn(F.col("seqno")))
    return F.concat(lines, F.when(F.col("seqno").isNotNull(), at).otherwise(""))


def findings(
    frame: DataFrame, kind: str, names: Names, *, detail: Column, node: Column,
    seqno: Column | None = None, gid: Column | None = None,
) -> DataFrame:  # fmt: skip
    """Return `FINDINGS` of a frame with `article` and `key`."""
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
