"""Replay of an archive as rows: the content of its tables at a position, and the comparison with live tables."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias
from pyspark.storagelevel import StorageLevel

from twopc.lsn import lsn_text
from twopc.names import article_name
from twopc.sim.spark import shapes
from twopc.sim.spark.archive import Archive
from twopc.sim.spark.archive.files import spark_path
from twopc.sim.spark.errors import PipelineError
from twopc.sim.spark.fold import newest, state_of, unfoldable
from twopc.sim.spark.replay.report import ReplayReport, counted
from twopc.sim.spark.routines import takers
from twopc.sim.spark.source import live_rows

#: Status of a removed subscription.
_GONE = 0
#: Text for the missing side of a row that only one side has.
NO_ROW = "no row"
NO_BASE = "incomplete: no base"


class NothingError(PipelineError):
    """The archive or the range has nothing that was requested."""


def onto_rows(
    archive: Archive,
    spark: SparkSession,
    *,
    upto: int | None = None,
    articles: Sequence[str] = (),
    against: Mapping[str, str] | None = None,
    out: Path | None = None,
) -> ReplayReport:
    """Fold the commands up to a position, and compare the rows with those of live tables.

    Args:
        upto: None: the archive's end.
        articles: names as ``table`` or ``schema.table``; none: all.
        against: names and connection strings of the Publisher or Subscribers.
        out: a folder in which the rows are written as Parquet, as ``rows``.

    Raises:
        ArchiveError: the archive cannot give the rows at that position.
        NothingError: there is no such article, or node.
    """
    began = time.perf_counter()
    at = archive.manifest.position if upto is None else upto
    known = [Row(**each) for each in archive.manifest.articles]
    chosen = _chosen(newest(known, upto=upto), articles, archive.name, at)
    blind = unfoldable(known) & set(chosen)
    by_calls: dict[int, str] = {}
    with ExitStack() as until:
        state = state_of(archive, spark, upto=upto, until=until, left_out=by_calls)
        seen = {n: each for n, each in chosen.items() if n not in {*blind, *by_calls}}
        ids = [int(each) for each in seen]
        state = state.where(F.col("article_id").isin(ids)).persist(StorageLevel.DISK_ONLY)
        until.callback(state.unpersist)
        if out is not None:
            state.write.mode("overwrite").parquet(spark_path(out.absolute() / "rows"))
        lines = [f"state at {lsn_text(at)}", *_counts(state, seen)]
        shape_of = as_frame(spark, seen.values())
        result = _incomplete(state, shape_of)
        for node, dsn in (against or {}).items():
            there = {number: seen[number] for number in of_node(archive, node) if number in seen}
            if not there:
                raise NothingError(f"{node} has none of the articles chosen")
            is_publisher = node == archive.manifest.publisher.name
            live = live_rows(spark, dsn, there.values(), is_publisher=is_publisher)
            these = F.col("article_id").isin([int(each) for each in there])
            whole = state.where(these & F.col("complete"))
            # calls of routines make separate row versions at each node
            versions = node not in takers(archive.manifest.subscriptions, archive.manifest.routines)
            differ = compare_states(
                whole, live, shape_of.where(these), node=node, versions=versions
            )
            result = result.unionByName(differ)
            lines.append(f"  against {node}: {', '.join(_name(each) for each in there.values())}")
        result = result.persist(StorageLevel.DISK_ONLY)
        classes = counted(result, ["state"])
    return ReplayReport(
        after=archive.manifest.first,
        upto=at,
        counts={"articles": len(seen)},
        classes=classes,
        divergences=result,
        unexamined=[
            f"article {_name(chosen[each])} travels as SQL statements, or not at all: its rows cannot be folded"
            for each in sorted(blind)
        ]
        + [by_calls[each] for each in sorted(by_calls) if each in chosen],
        seconds=time.perf_counter() - began,
        remarks=lines,
    )


def _name(article: Row) -> str:
    return article_name(article["source_schema"], article["source_object"])


def _chosen(
    known: Mapping[int, Row], names: Sequence[str], archive: str, at: int
) -> dict[int, Row]:
    # a table that was published again has two numbers, of which the later counts
    latest = {
        (each["source_schema"], each["source_object"]): n for n, each in sorted(known.items())
    }
    by_name: dict[str, list[int]] = {}  # a table's name may have a dot: two may be called the same
    for number in latest.values():
        by_name.setdefault(_name(known[number]), []).append(number)
    for name in names:
        if name not in by_name:
            raise NothingError(
                f"{archive} has no article {name!r} at {lsn_text(at)}; articles are "
                f"{', '.join(sorted(by_name)) or 'none'}"
            )
    return {number: known[number] for name in names or sorted(by_name) for number in by_name[name]}


def _counts(state: DataFrame, articles: Mapping[int, Row]) -> list[str]:
    results = {
        row["article_id"]: row
        for row in state.groupBy("article_id")
        .agg(F.count("*").alias("rows"), F.sum("commands").alias("commands"))
        .collect()
    }
    return [
        f"  {_name(each)}: {row['rows']:,} rows, last made by {row['commands']:,} commands"
        if (row := results.get(number))
        else f"  {_name(each)}: no rows"
        for number, each in articles.items()
    ]


def _incomplete(state: DataFrame, articles: DataFrame) -> DataFrame:
    """Return divergences for rows whose columns are only partly known, as their first update met no row."""
    partial = state.where(~F.col("complete"))
    nothing = partial.where(F.lit(False)).select("article_id", "key", "values")
    return compare_states(partial, nothing, articles).withColumn(
        "actual", F.lit("updated, and never seen before")
    )


def of_node(archive: Archive, node: str) -> list[int]:
    """Return the numbers of the articles that a recorded node has.

    Raises:
        NothingError: there was no such node.
    """
    manifest = archive.manifest
    if node == manifest.publisher.name:
        return [int(each["article_id"]) for each in manifest.articles]
    results = [
        int(each["article_id"])
        for each in manifest.subscriptions
        if each["subscriber"] == node and each["status"] != _GONE
    ]
    if not results:
        known = sorted({str(each["subscriber"]) for each in manifest.subscriptions})
        raise NothingError(
            f"{archive.name} knows no node {node!r}; there are "
            f"{', '.join([manifest.publisher.name, *known])}"
        )
    return results


def as_frame(spark: SparkSession, articles: Iterable[Row]) -> DataFrame:
    """Return `shapes.ARTICLES` with these articles."""
    names = shapes.ARTICLES.names
    rows = [tuple(each[name] for name in names) for each in articles]
    return shapes.frame(spark, rows, shapes.ARTICLES)


# -- two states of the same tables -------------------------------------------------------------------


def compare_states(
    expected: DataFrame,
    actual: DataFrame,
    articles: DataFrame,
    *,
    node: str = "",
    versions: bool = True,
) -> DataFrame:
    """Return the rows that differ between two states, by key and text.

    Args:
        expected: of `shapes.STATE` or `shapes.ROWS`. An incomplete row, whose content before its first update is
            unknown, is always a divergence.
        actual: of `shapes.STATE` or `shapes.ROWS`.
        articles: of `shapes.ARTICLES`, with the one shape of each article that both states have. Rows of other
            articles are ignored.
        node: node of the actual rows, for the text.
        versions: whether rows that differ only in their version count as different.

    Returns:
        `shapes.DIVERGENCES` of class ``state``.
    """
    named = articles.select(
        "article_id", shapes.article_name(), F.col("columns").alias("names"), "version"
    )
    one = _side(expected).withColumnRenamed("values", "expected_values")
    other = _side(actual).select("article_id", "key", F.col("values").alias("actual_values"))
    same_row = ["article_id", "key"]
    joined = one.join(other, on=same_row, how="full_outer").join(
        F.broadcast(named), on="article_id", how="inner"
    )
    if not versions:
        for side in ("expected_values", "actual_values"):
            joined = joined.withColumn(side, _without(side, "version"))
    incomplete = F.coalesce(~F.col("complete"), F.lit(False))
    differs = incomplete | ~F.col("expected_values").eqNullSafe(F.col("actual_values"))
    at = F.lit(f" at {node}" if node else "")
    return joined.where(differs).select(
        F.lit("state").alias("class"),
        "article",
        "key",
        F.col("seqno"),
        F.lit(None).cast("string").alias("gid"),
        F.lit(None).cast("string").alias("session"),
        F.lit(None).cast("string").alias("call"),
        F.when(incomplete, NO_BASE)
        .otherwise(_text_of(F.col("expected_values"), F.col("actual_values")))
        .alias("expected"),
        F.concat(_text_of(F.col("actual_values"), F.col("expected_values")), at).alias("actual"),
    ).select(*shapes.DIVERGENCES.names)  # fmt: skip


def _without(values: str, place: str) -> Column:
    """Return the values with NULL at one place."""
    return F.transform(values, lambda value, at: F.when(at != F.col(place), value))


def _side(state: DataFrame) -> DataFrame:
    complete = F.col("complete") if "complete" in state.columns else F.lit(True)
    seqno = F.col("seqno") if "seqno" in state.columns else F.lit(None).cast("bigint")
    return state.select(
        "article_id", "key", "values", seqno.alias("seqno"), complete.alias("complete")
    )


def _text_of(values: Column, others: Column) -> Column:
    """Return ``balance '90', note NULL``: the columns that differ, or all columns of a row that only one side has."""

    def literal(value: Column) -> Column:
        return F.coalesce(F.concat(F.lit("'"), value, F.lit("'")), F.lit("NULL"))

    def named(name: Column, at: Column) -> Column:
        value = F.get(values, at)
        differs = others.isNull() | ~value.eqNullSafe(F.get(others, at))
        return F.when(differs, F.concat(name, F.lit(" "), literal(value)))

    text = F.array_join(F.transform("names", named), ", ")
    return F.when(values.isNull(), NO_ROW).otherwise(text)
