"""The recorded statements of clients, from the histories of loads and of orders."""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from twopc.sim.spark import shapes

#: Data of an attempt's record. Objects stay text.
_DATA = (
    "number int, attempt int, due_us bigint, latency_us bigint, took_us bigint, committed boolean,"
    " calls array<struct<sql: string, params: string, rowcount: bigint>>"
)
_ENDS = ("ok", "rejected", "error", "in_doubt")
#: Kinds of a step's end.
_STEP_ENDS = (*_ENDS, "rolled_back", "skipped", "timed_out")


def calls(history: DataFrame) -> DataFrame:
    """Return `shapes.CALLS`: a row for each statement of each attempt of a load's transactions, and for each step
    of an
    order.

    For a load, `tx` is a transaction's number; `end_seq`, the record of an attempt's end, distinguishes attempts.
    `t_us` is the time when the transaction was due, or the start of a later attempt. For an order, transactions are
    numbered in the order of their start; `due_us` is NULL, as no step is due at a time, and `rows` is the result of
    a query.

    Args:
        history: of `shapes.HISTORY`. Records of other kinds, and of histories without recorded statements, are
            ignored.
    """
    return of_loads(history).unionByName(of_orders(history))


def of_loads(history: DataFrame) -> DataFrame:
    """Return `shapes.CALLS` of loads only."""
    text = history.where(F.col("kind").isin(*_ENDS)).select(
        "*", F.from_json("data", _DATA).alias("told")
    )
    since = F.when(F.col("told.attempt") == 1, F.col("told.latency_us")).otherwise(
        F.col("told.took_us")
    )
    result = text.where("told.calls is not null").select(
        "run",
        "case",
        "session",
        "node",
        F.col("told.number").alias("tx"),
        F.posexplode("told.calls").alias("place", "made"),
        "step",
        (F.col("t_us") - since).alias("t_us"),
        F.col("told.took_us").alias("took_us"),
        F.col("kind").alias("outcome"),
        F.get_json_object("conflict", "$.kind").alias("kind"),
        "sqlstate",
        "number",
        "gid",
        F.col("seq").alias("end_seq"),
        F.col("told.due_us").alias("due_us"),
    )
    columns = {
        "call": F.col("place") + 1,
        "sql": F.col("made.sql"),
        "params": F.col("made.params"),
        "rowcount": F.col("made.rowcount"),
        "rows": F.lit(None).cast("string"),
    }
    return result.select(
        *(columns.get(name, F.col(name)).alias(name) for name in shapes.CALLS.names)
    )


def of_orders(history: DataFrame) -> DataFrame:
    """Return `shapes.CALLS` of orders only: the statements of each session, step by step, in transactions."""
    order = ["run", "case"]
    of_session = Window.partitionBy(*order, "session").orderBy("seq")
    text = history.where(
        F.col("kind").isin("invoke", *_STEP_ENDS)
        & F.col("session").isNotNull()
        & F.col("step").isNotNull()
    ).select("*", F.from_json("data", _DATA).alias("told"))
    # a session sends one statement at a time: its next record is the answer
    begun = [
        F.lag(name).over(of_session).alias(f"said_{name}")
        for name in ("kind", "seq", "t_us", "sql", "params")
    ]
    steps = (
        text.where("told.calls is null")
        .select("*", *begun)
        .where("kind <> 'invoke' and said_kind = 'invoke' and said_sql is not null")
    )
    ends = (
        F.coalesce(F.col("told.committed"), F.lit(False))
        | F.col("kind").isin("rolled_back", "in_doubt")
        | F.coalesce(F.col("tag") == "ROLLBACK", F.lit(False))
    )
    before = of_session.rowsBetween(Window.unboundedPreceding, -1)
    ended = F.coalesce(F.sum(ends.cast("int")).over(before), F.lit(0))
    own = Window.partitionBy(*order, "session", "ended")
    first = F.min("said_seq").over(own)
    results = (
        steps.withColumn("ended", ended)
        .withColumn("first", first)
        .withColumn("tx", F.dense_rank().over(Window.partitionBy(*order).orderBy("first")))
        .withColumn("call", F.row_number().over(own.orderBy("seq")))
    )
    columns = {
        "t_us": F.col("said_t_us"),
        "took_us": F.col("t_us") - F.col("said_t_us"),
        "sql": F.col("said_sql"),
        "params": F.col("said_params"),
        "outcome": F.col("kind"),
        "kind": F.get_json_object("conflict", "$.kind"),
        "end_seq": F.col("seq"),
        "due_us": F.lit(None).cast("bigint"),
    }
    return results.select(
        *(columns.get(name, F.col(name)).alias(name) for name in shapes.CALLS.names)
    )
