"""The tables of the pipeline: names and types of their columns, all nullable.

Sequence numbers are commit LSNs at the Publisher as integers. Values of user data are text, as PostgreSQL
writes them: none of them ever becomes an Arrow or Spark number or time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual alias
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import (
    ArrayType,
    BooleanType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

_TYPES: dict[str, DataType] = {
    "bigint": LongType(),
    "boolean": BooleanType(),
    "double": DoubleType(),
    "int": IntegerType(),
    "string": StringType(),
    "timestamp": TimestampType(),
    "array<boolean>": ArrayType(BooleanType()),
    "array<int>": ArrayType(IntegerType()),
    "array<string>": ArrayType(StringType()),
}


def shape(text: str) -> StructType:
    """Parse a table's columns from ``"name type, name type"``; unlike `StructType.fromDDL` it needs no session."""
    fields = [each.split() for each in text.split(",")]
    return StructType([StructField(name, _TYPES[type_]) for name, type_ in fields])


def arrow_schema(columns: StructType) -> pa.Schema:
    """Return the Arrow schema of a table's columns, with times in UTC."""
    return to_arrow_schema(columns, timezone="UTC")


def frame(
    spark: SparkSession, rows: Iterable[Sequence[Any] | Mapping[str, Any]], columns: StructType
) -> DataFrame:
    """Return a DataFrame of rows that the driver holds, each given as a sequence or a mapping.

    The rows are passed as Arrow and so are part of the plan: no Python worker is started to read them, and Spark
    plans nothing for an empty table.
    """
    names = columns.names
    by_name = [
        row if isinstance(row, Mapping) else dict(zip(names, row, strict=True)) for row in rows
    ]
    return spark.createDataFrame(
        pa.Table.from_pylist(by_name, schema=arrow_schema(columns)), columns
    )


def article_name() -> Column:
    """Return `article`, an article's name as messages write it: without ``public.``."""
    name = F.when(F.col("source_schema") == "public", F.col("source_object"))
    return name.otherwise(F.concat_ws(".", "source_schema", "source_object")).alias("article")


COMMANDS = shape(
    """
    seqno bigint, command_id int, article_id int, type int, originator_id int, hashkey int,
    command string
    """
)
"""originator_id null: that of the transaction."""

TRANSACTIONS = shape(
    """
    seqno bigint, xid bigint, entry_time timestamp, originator_id int, marks int, commands
    int, bytes bigint, gid string
    """
)
"""gid null: a plain transaction, or one whose branch marker had been removed."""

ARTICLES = shape(
    """
    article_id int, shape int, first_seqno bigint, source_schema string, source_object
    string, columns array<string>, types array<string>, key array<int>, version int,
    filter_clause string, ins string, upd string, del string, large array<int>
    """
)
"""key, version, large: places in columns, from 0; ins/upd/del: "CALL", "SCALL sp_x", …;
first_seqno: the shape holds for commands with seqno > first_seqno, until that of the next shape.
"""

ORIGINATORS = shape("id int, srvname string, dbname string")

SUBSCRIPTIONS = shape(
    """
    article_id int, subscriber string, originator_id int, status int, loopback_detection
    boolean, subscription_seqno bigint, copy_seqno bigint, copy_snapshot string
    """
)

AGENTS = shape("subscriber string, delivered bigint, runstatus string, last_error string")

AGENT_HISTORY = shape(
    """
    id bigint, subscriber string, event string, at timestamp, transactions bigint, commands
    bigint, seqno bigint, error string, message string
    """
)

ROWS = shape("article_id int, key array<string>, values array<string>")
"""In the newest shape's order."""

STATE = shape(
    """
    article_id int, key array<string>, values array<string>, seqno bigint, command_id int,
    commands bigint, complete boolean
    """
)
"""seqno, command_id: the row's last command (seqno -1: none since the base); complete false: no row before an
update.
"""

DECODED = shape(
    """
    seqno bigint, command_id int, article_id int, shape int, operation string, originator_id
    int, key array<string>, new_key array<string>, values array<string>, old_values
    array<string>, changed array<boolean>, old_version string, new_version string, problem
    string, beside boolean
    """
)
"""operation: ins, upd, or del; key: before the change (ins: the new key); new_key: after the change, null for
del; values: null where unknown; changed: per column, null for ins/del; problem: "", or why the command cannot
be read ("sql", "shape", "article", or "call": a routine's command); beside: where calls are delivered, a call of a
routine replaces this command.
"""

ROUTINES = shape(
    """
    article_id int, source_schema string, source_object string, identity string, writes array<string>
    """
)
"""Published routines; identity: name with argument types; writes: table names as in messages, null: any."""

ROUTINE_CALLS = shape(
    "seqno bigint, command_id int, article_id int, command string, has_rows boolean, failed boolean"
)
"""Calls of routines; has_rows: the changed rows are stored too; failed: at the Publisher, so nothing was changed."""

HISTORY = shape(
    """
    run string, seq bigint, t_us bigint, kind string, case string, session string, node
    string, step string, gid string, sql string, params string, rows string, rowcount
    bigint, tag string, sqlstate string, number int, message string, conflict string, data
    string
    """
)
"""Columns params to data hold JSON text."""

CALLS = shape(
    """
    run string, case string, session string, node string, tx int, call int, step string,
    t_us bigint, took_us bigint, sql string, params string, outcome string, kind string,
    sqlstate string, number int, rowcount bigint, rows string, gid string, end_seq bigint,
    due_us bigint
    """
)
"""tx: a transaction's number in its load; outcome: ok, rejected, error or in_doubt, of the attempt that ended with
record `end_seq`; due_us: planned start of the transaction, from the start of its load; NULL in an order.
"""

WITNESSED = shape(
    """
    subscriber string, id bigint, xid bigint, source_schema string, source_object string,
    operation string, key array<string>, version string, at timestamp
    """
)

DIVERGENCES = shape(
    """
    class string, article string, key array<string>, seqno bigint, gid string, session
    string, call string, expected string, actual string
    """
)

FINDINGS = shape(
    """
    class string, article string, key array<string>, seqno bigint, gid string, node string,
    detail string, repro string
    """
)

TRIALS = shape(
    """
    point int, parameters string, seed bigint, verdict string, kind string, committed
    bigint, rejected bigint, errors bigint, in_doubt bigint, attempts bigint, conflict_rate
    double, virtual_s double, wall_s double, commit_hdr string, in_doubt_hdr string,
    conflict_hdr string, failure string, repro string, history_sha256 string
    """
)

MARKERS = shape(
    "xid bigint, gid string, participants array<string>, originator string, fence boolean"
)
"""Branch markers of one node; gid: that of the branch."""

PREPARED = shape("xid bigint, gid string, prepared timestamp, owner string")
"""Prepared transactions of one database."""
