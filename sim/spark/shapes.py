"""The tables of the pipeline: names and types of their columns, all nullable.

Sequence numbers are commit LSNs at the Publisher as integers. Values of user data are text, as PostgreSQL
writes them: none of them ever becomes an Arrow or Spark number or time.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
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
    """A table's columns from ``"name type, name type"``; `StructType.fromDDL` needs a session for it."""
    fields = [each.split() for each in text.split(",")]
    return StructType([StructField(name, _TYPES[type_]) for name, type_ in fields])


def arrow_schema(columns: StructType) -> pa.Schema:
    """A table's columns as Arrow has them, times in UTC."""
    return to_arrow_schema(columns, timezone="UTC")


def frame(
    spark: SparkSession, rows: Iterable[Sequence[Any] | Mapping[str, Any]], columns: StructType
) -> DataFrame:
    """A table of rows that the driver has, by place or by name.

    They come as Arrow and so are part of the plan: no Python is begun to read them, and of an empty table Spark plans
    nothing.
    """
    names = columns.names
    by_name = [
        row if isinstance(row, Mapping) else dict(zip(names, row, strict=True)) for row in rows
    ]
    return spark.createDataFrame(
        pa.Table.from_pylist(by_name, schema=arrow_schema(columns)), columns
    )


COMMANDS = shape(
    """
    seqno bigint, command_id int, article_id int, type int, originator_id int, hashkey int,
    command string
    """
)
"""Originator_id null: as the transaction's."""

TRANSACTIONS = shape(
    """
    seqno bigint, xid bigint, entry_time timestamp, originator_id int, marks int, commands
    int, bytes bigint, gid string
    """
)
"""Gid null: plain transaction, or its marker was gone."""

ARTICLES = shape(
    """
    article_id int, shape int, first_seqno bigint, source_schema string, source_object
    string, columns array<string>, types array<string>, key array<int>, version int,
    filter_clause string, ins string, upd string, del string, large array<int>
    """
)
"""Key, version, large: places in columns, from 0; ins/upd/del: "CALL", "SCALL sp_x", … ;
first_seqno: this shape holds for commands with seqno > first_seqno, until the next shape's."""

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
"""The row's last command (seqno -1: untouched since the base); complete false: an update met no row
before it."""

DECODED = shape(
    """
    seqno bigint, command_id int, article_id int, shape int, operation string, originator_id
    int, key array<string>, new_key array<string>, values array<string>, old_values
    array<string>, changed array<boolean>, old_version string, new_version string, problem
    string, beside boolean
    """
)
"""Operation ins upd del; key: before the change (ins: the new one); new_key: after it, null for
del; values: null where unknown; changed: per column, null for ins/del; problem: "" or why it cannot
be read ("sql", "shape", "article", or "call": it is a routine's); beside: a call of a routine stands for it
where calls are taken."""

ROUTINES = shape(
    """
    article_id int, source_schema string, source_object string, identity string, writes array<string>
    """
)
"""Published routines; identity: with its types; writes: tables as messages call them, null: not declared, so any."""

ROUTINE_CALLS = shape(
    "seqno bigint, command_id int, article_id int, command string, has_rows boolean, failed boolean"
)
"""Calls of routines; has_rows: what it changed is stored beside it; failed: at the Publisher, where it changed
nothing."""

HISTORY = shape(
    """
    run string, seq bigint, t_us bigint, kind string, case string, session string, node
    string, step string, gid string, sql string, params string, rows string, rowcount
    bigint, tag string, sqlstate string, number int, message string, conflict string, data
    string
    """
)
"""Params … data: JSON text."""

CALLS = shape(
    """
    run string, case string, session string, node string, tx int, call int, step string,
    t_us bigint, took_us bigint, sql string, params string, outcome string, kind string,
    sqlstate string, number int, rowcount bigint, rows string, gid string, end_seq bigint,
    due_us bigint
    """
)
"""Tx is a transaction's number in its load; outcome: ok rejected error in_doubt, of the attempt that ended with
record `end_seq`; `due_us`: when the transaction was to begin, after its load did; NULL in an order, which has no such time."""

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
"""Branch markers of one node; gid: the branch's."""

PREPARED = shape("xid bigint, gid string, prepared timestamp, owner string")
"""Prepared transactions of one database."""
