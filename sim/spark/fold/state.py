"""The fold: the last insert, or the base, and the values that were set after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it
from pyspark.storagelevel import StorageLevel

from twopc.lsn import lsn_text
from twopc.sim.spark import shapes
from twopc.sim.spark.archive.manifest import ArticleBase
from twopc.sim.spark.decode import decoded
from twopc.sim.spark.errors import ArchiveError
from twopc.sim.spark.fold.bases import bases_of, chosen, ends_of, remaining, rows_of
from twopc.sim.spark.fold.called_tables import called
from twopc.sim.spark.fold.key_order import fold_in_order
from twopc.sim.spark.fold.shape_plan import checked, newest, placed, rekeyed, unfoldable
from twopc.sim.spark.routines import without_calls

if TYPE_CHECKING:
    from twopc.sim.spark.archive import Archive

#: Sequence number of the rows of a base, before that of every command.
_BEFORE = -1


def folded(
    base: DataFrame,
    commands: DataFrame,
    transactions: DataFrame,
    articles: DataFrame,
    *,
    upto: int | None = None,
    until: ExitStack | None = None,
    routines: Sequence[Mapping[str, Any]] = (),
    left_out: dict[int, str] | None = None,
) -> DataFrame:
    """Return the rows at a point in the sequence, in the newest shape that their article had there.

    Articles whose changes are propagated as statements, or not at all, are left out (`unfoldable`). The call itself
    reads `articles`, the list of bases, and the places among the transactions at which the bases begin.

    Args:
        base: of `shapes.ROWS`, with `shape`, `snapshot` and `seqno`. A row without a key represents a base
            that may have no rows.
        commands: of `shapes.COMMANDS`.
        transactions: of `shapes.TRANSACTIONS`, those of the commands.
        articles: of `shapes.ARTICLES`, all shapes.
        upto: the point; None: the end.
        until: results that are used several times are kept on executors' disks until it is closed; None:
            nothing is kept, and keys that changed are searched twice.
        routines: of `shapes.ROUTINES`. Without any, a call is a command that cannot be read.
        left_out: receives, by number, why tables are left out: calls changed them and their rows are not among
            the commands, or their key consists of other columns than before. None: such a table is an error.

    Returns:
        `shapes.STATE`.

    Raises:
        ArchiveError: all bases of an article are later than the point; or see `left_out`.
    """
    known = articles.collect()
    given = _FoldInput(
        base, bases_of(base), commands, decoded(commands, [each.asDict() for each in known]), transactions, known,
        routines,
    )  # fmt: skip
    return _folded(given, upto, until, left_out)


def state_of(
    archive: Archive,
    spark: SparkSession,
    *,
    upto: int | None = None,
    until: ExitStack | None = None,
    left_out: dict[int, str] | None = None,
) -> DataFrame:
    """Return the rows of an archive at a point in its sequence (`shapes.STATE`).

    Args:
        upto: the point; None: the archive's end.
        until, left_out: see `folded`.

    Raises:
        ArchiveError: the point is outside the archive's range, or every base of an article is later; or see
            `left_out`.
    """
    manifest = archive.manifest
    if upto is not None and not manifest.first <= upto <= manifest.position:
        raise ArchiveError(
            f"the archive has {lsn_text(manifest.first)} to {lsn_text(manifest.position)}, and {lsn_text(upto)} "
            "was asked for"
        )
    # later transactions too: they show which bases contain later changes
    given = _FoldInput(
        archive.base(spark), manifest.base, archive.commands(spark, upto=upto), archive.decoded(spark, upto=upto),
        archive.transactions(spark), archive.articles(spark).collect(), manifest.routines, manifest.first,
    )  # fmt: skip
    return _folded(given, upto, until, left_out)


@dataclass(frozen=True, slots=True)
class _FoldInput:
    """The input of a fold."""

    base: DataFrame
    bases: Sequence[ArticleBase]
    commands: DataFrame
    """The commands, of which only calls are read."""
    decoded: DataFrame
    transactions: DataFrame
    articles: Sequence[Row]
    routines: Sequence[Mapping[str, Any]]
    first: int = 0
    """The sequence number behind which the commands begin."""


def _folded(
    given: _FoldInput, upto: int | None, until: ExitStack | None, left_out: dict[int, str] | None
) -> DataFrame:
    commands, report, transactions = given.commands, given.decoded, given.transactions
    known = given.articles
    targets = newest(known, upto=upto)
    blind = unfoldable(known)
    ends = ends_of(transactions, given.bases)
    of_these = [each for each in given.bases if each.article_id in targets]
    bases = chosen(of_these, ends, upto=upto)
    if upto is not None:
        commands, report = (each.where(F.col("seqno") <= upto) for each in (commands, report))
    why = rekeyed(known, targets, bases, first=given.first)
    if given.routines:
        why |= called(commands, transactions, bases, list(targets.values()), given.routines)
        report = without_calls(report)
    why = {number: text for number, text in why.items() if number not in blind}
    if why and left_out is None:
        raise ArchiveError(next(iter(why.values())))
    (left_out if left_out is not None else {}).update(why)
    blind |= set(why)
    bases = [each for each in bases if each.article_id not in why]
    if blind:
        report = report.where(~F.col("article_id").isin(*blind))
    left = remaining(report, transactions, bases, ends)
    changes = checked(left).select(
        "article_id", "shape", "seqno", "command_id", "operation", "key", "new_key", "values", "changed"
    )  # fmt: skip
    rows = rows_of(given.base, bases).select(
        "article_id",
        "shape",
        F.lit(_BEFORE).cast("bigint").alias("seqno"),
        F.lit(0).alias("command_id"),
        F.lit("base").alias("operation"),
        "key",
        F.col("key").alias("new_key"),
        "values",
        F.lit(None).cast("array<boolean>").alias("changed"),
    )
    events = placed(changes.unionByName(rows), known, targets, "values", "changed")
    widths = {article: len(each["columns"]) for article, each in targets.items()}
    by_key = _by_key(events, widths)
    if until is not None:
        by_key = by_key.persist(StorageLevel.DISK_ONLY)
        until.callback(by_key.unpersist)
    stay = by_key.where("not moved and exists")
    followed = _followed(events, by_key.where("moved"))
    names = shapes.STATE.names
    return stay.select(*names).unionByName(followed.select(*names)).select(*names)


def _by_key(events: DataFrame, widths: Mapping[int, int]) -> DataFrame:
    """Return `shapes.STATE` by key as if no key ever changed, with `exists`, and `moved` if a key changed.

    Args:
        widths: number of columns of each article's newest shape.
    """
    moves = (F.col("operation") == "upd") & ~F.col("key").eqNullSafe(F.col("new_key"))
    both = F.when(moves, F.array("key", "new_key")).otherwise(F.array("key"))
    touches = events.select(
        "article_id",
        F.explode(both).alias("key"),
        "values",
        "changed",
        "operation",
        moves.alias("moves"),
        (F.col("operation") != "upd").alias("whole"),
        F.struct("seqno", "command_id").alias("order"),
    )
    width = max(widths.values(), default=0)
    begins = F.when(F.col("whole"), F.col("order"))
    # Spark sorts by these columns: one number distinguishes most rows, while texts are compared one by one
    by = (F.xxhash64("article_id", "key").alias("hash"), "article_id", "key")
    grouped = touches.groupBy(*by).agg(
        F.max_by("operation", begins).alias("begun"),
        F.max(begins).alias("begins"),
        F.max("order").alias("last"),
        F.count(F.when(F.col("operation") != "base", 1)).alias("commands"),
        F.max("moves").alias("moved"),
        *(_set_last(at).alias(f"value_{at}") for at in range(width)),
    )
    values = F.array(*(f"value_{at}" for at in range(width))) if width else F.array()
    of_article = F.create_map(*(F.lit(each) for pair in widths.items() for each in pair))
    complete = F.coalesce(F.col("begun") != "del", F.lit(False))
    return grouped.select(
        "article_id",
        "key",
        F.slice(values, F.lit(1), F.try_element_at(of_article, F.col("article_id"))).alias(
            "values"
        ),
        F.col("last.seqno").alias("seqno"),
        F.col("last.command_id").alias("command_id"),
        "commands",
        complete.alias("complete"),
        (complete | F.coalesce(F.col("last") > F.col("begins"), F.lit(True))).alias("exists"),
        "moved",
    )


def _set_last(place: int) -> Column:
    """Return the value to which a column was set last."""
    sets = F.col("whole") | F.get("changed", F.lit(place))
    return F.max_by(F.get("values", F.lit(place)), F.when(sets, F.col("order")))


def _followed(events: DataFrame, moved: DataFrame) -> DataFrame:
    """Return `shapes.STATE` of the rows that had a key from or to which some row moved.

    One task follows an article's rows in order and keeps only their last state.
    """
    keys = moved.select("article_id", "key")
    return (
        events.join(F.broadcast(keys), on=["article_id", "key"], how="left_semi")
        .select(
            "article_id", "seqno", "command_id", "operation", "key", "new_key", "values", "changed"
        )
        .repartition("article_id")
        .sortWithinPartitions("article_id", "seqno", "command_id")
        .mapInArrow(fold_in_order, shapes.STATE)
    )


def seqno_at(transactions: DataFrame, at: datetime) -> int | None:
    """Return the sequence number for a point in time: everything up to it was committed by then.

    Commit times do not strictly ascend with the sequence; the result is therefore the last transaction before the
    first one that was committed later.

    Args:
        at: the time, with its time zone.

    Returns:
        None if nothing was committed by then.
    """
    moment = F.lit(at.isoformat()).cast("timestamp")
    first = F.min(F.when(F.col("entry_time") > moment, F.col("seqno")))
    later = transactions.agg(first.alias("later")).first()
    assert later is not None
    before = (
        transactions
        if later["later"] is None
        else transactions.where(F.col("seqno") < later["later"])
    )
    result = before.agg(F.max("seqno").alias("seqno")).first()
    assert result is not None
    return None if result["seqno"] is None else int(result["seqno"])
