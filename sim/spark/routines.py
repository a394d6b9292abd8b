"""Calls of published routines among the commands: which have stored rows, and which tables the others change.

A call represents the changes of a routine. Where a Subscriber needs the rows, they are stored beside the call,
under the number of their table plus 10,000,000; then the rows of all calls of that transaction are stored
(`twopc.publisher.log_reader.brackets`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias

from twopc.lsn import lsn_text
from twopc.names import article_name
from twopc.proc_execution import BESIDE, CALL_TYPE, DEFINITION_TYPE
from twopc.sim.spark import shapes
from twopc.sim.spark.errors import PipelineError

if TYPE_CHECKING:
    from twopc.sim.spark.archive import Archive


def routine_calls(commands: DataFrame) -> DataFrame:
    """Return the `shapes.ROUTINE_CALLS` of `shapes.COMMANDS` that consist of whole transactions."""
    is_beside = (F.col("article_id") >= BESIDE) & (F.col("type") != DEFINITION_TYPE)
    beside = commands.where(is_beside).select("seqno").distinct()
    return (
        commands.where(F.col("type") == CALL_TYPE)
        .join(beside.withColumn("has_rows", F.lit(True)), on="seqno", how="left")
        .withColumn("has_rows", F.coalesce("has_rows", F.lit(False)))
        .withColumn("failed", F.get_json_object("command", "$.f").isNotNull())
        .select(*shapes.ROUTINE_CALLS.names)
    )


def without_calls(decoded: DataFrame) -> DataFrame:
    """Return `shapes.DECODED` without calls; the caller must have handled the calls whose rows are not stored."""
    return decoded.where(F.col("problem") != "call").select(*decoded.columns)


def silent(calls: DataFrame) -> DataFrame:
    """Return the calls that may have changed rows of which nothing is stored."""
    return calls.where("not has_rows and not failed").select(*calls.columns)


def carried_out_as_rows(archive: Archive, spark: SparkSession, *, after: int, upto: int) -> None:
    """Check that the commands between two positions include all rows that calls have changed.

    Raises:
        PipelineError: rows are missing; the message names the routines.
    """
    if not archive.manifest.routines:
        return  # decoding reports any call as unreadable
    calls = silent(routine_calls(archive.commands(spark, after=after, upto=upto)))
    known = {int(each["article_id"]): each for each in archive.manifest.routines}
    result = calls.groupBy("article_id").agg(
        F.min("seqno").alias("first"), F.count("*").alias("times")
    )
    lines = [
        f"{routine_name(known.get(row['article_id']), row['article_id'])} ({row['times']} times, first by "
        f"{lsn_text(row['first'])})"
        for row in result.orderBy("first").collect()
    ]
    if lines:
        raise PipelineError(
            f"transactions call {', '.join(lines)}, and what that changed is not among the commands: they cannot be "
            "replayed. Choose a range without them: --after, --upto"
        )


def takers(
    subscriptions: Iterable[Mapping[str, Any]], routines: Iterable[Mapping[str, Any]]
) -> frozenset[str]:
    """Return the Subscribers that receive calls."""
    numbers = {each["article_id"] for each in routines}
    return frozenset(
        str(each["subscriber"])
        for each in subscriptions
        if each["status"] and each["article_id"] in numbers
    )


def written_by(
    routine: Mapping[str, Any] | None, articles: Iterable[Mapping[str, Any]]
) -> frozenset[int]:
    """Return the numbers of the articles whose tables a routine may write.

    Args:
        routine: a row of `shapes.ROUTINES`; None: an unknown routine.
        articles: rows of `shapes.ARTICLES`.
    """
    numbers = [
        (article_name(each["source_schema"], each["source_object"]), int(each["article_id"]))
        for each in articles
    ]
    writes: Sequence[str] | None = None if routine is None else routine["writes"]
    # as in the log reader, a declaration counts only if all of its tables are published
    if writes is None or not set(writes) <= {name for name, _ in numbers}:
        return frozenset(number for _, number in numbers)
    return frozenset(number for name, number in numbers if name in writes)


def routine_name(routine: Mapping[str, Any] | None, number: int) -> str:
    """Return a routine's name for messages."""
    return f"routine {number}" if routine is None else str(routine["identity"])
