"""Calls of published routines among the commands: of which the rows are there, and which tables the others change.

A call stands for what a routine changed. Where a Subscriber needs the rows, they are stored beside it, under their
table's number and 10,000,000; then all calls of that transaction have theirs (`twopc.publisher.log_reader.brackets`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from twopc.lsn import lsn_text
from twopc.names import article_name
from twopc.proc_execution import BESIDE, CALL_TYPE, DEFINITION_TYPE
from twopc.sim.spark import shapes
from twopc.sim.spark.errors import PipelineError

if TYPE_CHECKING:
    from twopc.sim.spark.archive import Archive


def routine_calls(commands: DataFrame) -> DataFrame:
    """`shapes.ROUTINE_CALLS` of `shapes.COMMANDS`, whole transactions."""
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
    """`shapes.DECODED` without calls: whoever takes it has seen to those whose rows are not there."""
    return decoded.where(F.col("problem") != "call").select(*decoded.columns)


def silent(calls: DataFrame) -> DataFrame:
    """The calls that may have changed rows of which nothing is stored."""
    return calls.where("not has_rows and not failed").select(*calls.columns)


def carried_out_as_rows(archive: Archive, spark: SparkSession, *, after: int, upto: int) -> None:
    """Nothing, if all that calls between two positions have changed is among the commands.

    Raises:
        PipelineError: it is not; names the routines.
    """
    if not archive.manifest.routines:
        return  # a call would be a command that cannot be read
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
    """The Subscribers that take calls."""
    numbers = {each["article_id"] for each in routines}
    return frozenset(
        str(each["subscriber"])
        for each in subscriptions
        if each["status"] and each["article_id"] in numbers
    )


def written_by(
    routine: Mapping[str, Any] | None, articles: Iterable[Mapping[str, Any]]
) -> frozenset[int]:
    """The articles of tables that a routine may write, by number.

    Args:
        routine: of `shapes.ROUTINES`; None: nobody knows it.
        articles: of `shapes.ARTICLES`.
    """
    by_name = {
        article_name(each["source_schema"], each["source_object"]): int(each["article_id"])
        for each in articles
    }
    writes: Sequence[str] | None = None if routine is None else routine["writes"]
    # what is declared counts if it means tables that are there, as for the log reader
    if writes is None or not set(writes) <= set(by_name):
        return frozenset(by_name.values())
    return frozenset(by_name[each] for each in writes)


def routine_name(routine: Mapping[str, Any] | None, number: int) -> str:
    """As messages call it."""
    return f"routine {number}" if routine is None else str(routine["identity"])
