"""The statements that recorded clients have sent, from the histories of their loads."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from sim.spark import shapes

#: Of an attempt's record. Objects stay text.
_DATA = (
    "number int, attempt int, due_us bigint, latency_us bigint, took_us bigint,"
    " calls array<struct<sql: string, params: string, rowcount: bigint>>"
)
_ENDS = ("ok", "rejected", "error", "in_doubt")


def calls(history: DataFrame) -> DataFrame:
    """`shapes.CALLS`: a row for each statement of each attempt of a load's transactions.

    `tx` is a transaction's number in its load; its attempts are told from each other by `end_seq`, the record of
    their end. `t_us` is when it was to begin, of a later attempt when that began.

    Args:
        history: of `shapes.HISTORY`. Records of other kinds, and of histories from before statements were
            recorded, are passed over.
    """
    told = history.where(F.col("kind").isin(*_ENDS)).select(
        "*", F.from_json("data", _DATA).alias("told")
    )
    since = F.when(F.col("told.attempt") == 1, F.col("told.latency_us")).otherwise(
        F.col("told.took_us")
    )
    found = told.where("told.calls is not null").select(
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
    return found.select(
        *(columns.get(name, F.col(name)).alias(name) for name in shapes.CALLS.names)
    )
