"""The shapes of a fold: the newest ones, the places of columns, and articles that cannot be folded.

Articles are as few as in a catalog; they are processed here, not in a frame.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from twopc.names import article_name
from twopc.sim.spark import shapes
from twopc.sim.spark.archive.manifest import ArticleBase

#: Formats that carry no values: statements, or nothing.
_WITHOUT_VALUES = ("SQL", "NONE")


def newest(articles: Iterable[Row], *, upto: int | None = None) -> dict[int, Row]:
    """Return, by article number, the shape (`shapes.ARTICLES`) that each article had at a sequence number.

    Args:
        upto: the sequence number; None: the newest shape.
    """
    results: dict[int, Row] = {}
    for each in sorted(articles, key=lambda row: int(row["shape"])):
        if upto is None or each["first_seqno"] <= upto:
            results[each["article_id"]] = each
    return results


def unfoldable(articles: Iterable[Row]) -> set[int]:
    """Return the numbers of articles some of whose changes are propagated as statements or not at all."""
    return {
        each["article_id"]
        for each in articles
        for operation in ("ins", "upd", "del")
        if each[operation].split(" ")[0].upper() in _WITHOUT_VALUES
    }


def rekeyed(
    articles: Sequence[Row],
    targets: Mapping[int, Row],
    bases: Iterable[ArticleBase],
    *,
    first: int = 0,
) -> dict[int, str]:
    """Return, by number, why an article cannot be folded whose key consists of other columns than before.

    A change from before has the former key, and one from after it the new one, so neither finds the other's row. A
    base that was taken after the change of the key has no such changes behind it. Nor are there changes of a shape that
    had been replaced before the commands begin.

    Args:
        articles: all shapes (`shapes.ARTICLES`).
        targets: the shape of each article up to which is folded.
        bases: the bases from which is folded.
        first: the sequence number behind which the commands begin.
    """
    of_bases = {each.article_id: each.shape for each in bases}
    results: dict[int, str] = {}
    for each in articles:
        number, target = each["article_id"], targets.get(each["article_id"])
        if target is None or not of_bases.get(number, 0) <= each["shape"] <= target["shape"]:
            continue
        if _is_unused(each, articles, first):
            continue
        before, after = _key(each), _key(target)
        if before != after:
            results[number] = (
                f"{article_name(each['source_schema'], each['source_object'])}: its key was ({', '.join(before)}) and "
                f"is ({', '.join(after)}): choose a point before that, or take a new base of the table"
            )
    return results


def _is_unused(shape: Row, articles: Iterable[Row], first: int) -> bool:
    """Whether no command behind a sequence number has this shape: a later one holds from there on, or from earlier."""
    begin = max(first, shape["first_seqno"])
    return any(
        each["article_id"] == shape["article_id"]
        and each["shape"] > shape["shape"]
        and each["first_seqno"] <= begin
        for each in articles
    )


def _key(article: Row) -> list[str]:
    return [article["columns"][place] for place in article["key"]]


def placed(
    rows: DataFrame, articles: Sequence[Row], targets: dict[int, Row], *columns: str
) -> DataFrame:
    """Reorder arrays from the columns of a row's own shape to those of the target, by name.

    Columns that only the target has are NULL; columns that it no longer has are left out.

    Args:
        rows: with `article_id`, `shape` and the arrays named.
    """
    moves = [
        (each["article_id"], each["shape"], _places(each["columns"], targets[each["article_id"]]))
        for each in articles
        if each["article_id"] in targets
        and each["columns"] != targets[each["article_id"]]["columns"]
    ]
    if not moves:
        return rows.select(*rows.columns)
    frame = shapes.frame(
        rows.sparkSession, moves, shapes.shape("article_id int, shape int, places array<int>")
    )
    joined = rows.join(F.broadcast(frame), on=["article_id", "shape"], how="left")
    for name in columns:
        joined = joined.withColumn(name, _moved(F.col(name)))
    return joined.select(*rows.columns)


def _places(columns: Sequence[str], target: Row) -> list[int]:
    """Return the place of each of the target's columns among `columns`; -1 for a missing one."""
    at = {name: place for place, name in enumerate(columns)}
    return [at.get(name, -1) for name in target["columns"]]


def _moved(values: Column) -> Column:
    taken = F.transform("places", lambda at: F.when(at >= 0, F.get(values, at)))
    return F.when(values.isNull() | F.col("places").isNull(), values).otherwise(taken)


def checked(decoded: DataFrame) -> DataFrame:
    """Return the same commands; evaluation fails at a command that cannot be read instead of leaving it out."""
    unfit = F.format_string(
        "twopc.sim.spark.errors.ArchiveError: article %s: command %s of the transaction with sequence number %s cannot "
        "be read (%s): the archive has no shape of the article there that has so many columns",
        "article_id", "command_id", "seqno", "problem",
    )  # fmt: skip
    call = F.format_string(
        "twopc.sim.spark.errors.ArchiveError: routine %s was called by command %s of the transaction with sequence number "
        "%s, and nothing says which rows that changed: replay up to a point before it",
        "article_id", "command_id", "seqno",
    )  # fmt: skip
    message = F.when(F.col("problem") == "call", call).otherwise(unfit)
    fails = F.raise_error(message).cast("array<string>")
    key = F.when(F.col("problem") == "", F.col("key")).otherwise(fails)
    return decoded.withColumn("key", key).select(*decoded.columns)
