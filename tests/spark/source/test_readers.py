"""Tests of the readers' plans and rows, without Spark: they equal the database's own answers."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql.datasource import EqualTo, GreaterThan, In, IsNotNull, LessThanOrEqual, Not
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

from tests.fix_server import MakeDatabase
from tests.spark.source.filled import AGENT, LARGE, LOGREADER, TEXT, filled, made, store
from twopc.sim.report.history import History, read
from twopc.sim.spark.errors import GapError, PipelineError
from twopc.sim.spark.shapes import arrow_schema
from twopc.sim.spark.source import TwopcDataSource
from twopc.sim.spark.source.histories import HistoryReader
from twopc.sim.spark.source.options import PublishedTable, SourceOptions
from twopc.sim.spark.source.reader import (
    PushingLogReader,
    Range,
    RowsReader,
    SmallReader,
    SparkLogReader,
)
from twopc.sim.spark.source.stream import LogStreamReader

Rows = list[dict[str, Any]]


@pytest.fixture
def dsn(make_database: MakeDatabase) -> Iterator[str]:
    """A filled distribution database."""
    with filled(make_database()) as found:
        yield found


def everything(reader: Any) -> Rows:
    """Return the rows of all partitions; check that each batch has the declared schema."""
    schema = arrow_schema(reader.options.columns)
    found: Rows = []
    for part in reader.partitions():
        for batch in reader.read(part):
            assert batch.schema.equals(schema)
            found += batch.to_pylist()
    return found


def options(table: str, dsn: str, **given: object) -> SourceOptions:
    """Return options as Spark passes them."""
    texts = {name: str(value) for name, value in given.items()}
    return SourceOptions.read({"table": table, "dsn": dsn, **texts})


def asked(dsn: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with psycopg.connect(dsn) as connection:
        return connection.execute(query.encode()).fetchall()


def test_commands_and_transactions(dsn: str) -> None:
    """Every row is read, with its text, however the range is divided into partitions."""
    commands = """
        select (xact_seqno - '0/0')::bigint, command_id, article_id, type, originator_id, hashkey, command
        from msrepl.msrepl_commands order by 1, 2
    """
    transactions = """
        select (xact_seqno - '0/0')::bigint, xact_id::text::bigint, entry_time, originator_id, marks,
            commands, bytes, null from msrepl.msrepl_transactions order by 1
    """
    for table, query in (("commands", commands), ("transactions", transactions)):
        for rows in (1, 1000, 10**9):
            found = everything(SparkLogReader(options(table, dsn, partition_rows=rows)))
            found.sort(key=lambda each: (each["seqno"], each.get("command_id", 0)))
            assert [tuple(each.values()) for each in found] == asked(dsn, query)
    assert found[2]["commands"] == LARGE
    assert {each["command"] for each in everything(SparkLogReader(options("commands", dsn)))} == {
        TEXT,
        "()",
    }


def test_partitions_end_where_blocks_do(dsn: str) -> None:
    """Partitions cover exactly the requested range, and divide no transaction, not even one in parts."""
    parts = SparkLogReader(options("commands", dsn, partition_rows=1)).partitions()
    ends = [(each.after, each.upto) for each in parts if isinstance(each, Range)]
    assert ends == [(0, 32), (32, 48), (48, 96)]
    few = SparkLogReader(options("commands", dsn, partition_rows=1, partitions=2)).partitions()
    assert [(each.after, each.upto) for each in few if isinstance(each, Range)] == [
        (0, 48),
        (48, 96),
    ]
    reader = SparkLogReader(options("transactions", dsn, after=16, upto=70, partition_rows=1))
    assert [each["seqno"] for each in everything(reader)] == [32, 48, 64]
    nothing = SparkLogReader(options("commands", dsn, after=96))
    assert len(nothing.partitions()) == 1
    assert everything(nothing) == []


def test_what_the_database_evaluates(dsn: str) -> None:
    """The database evaluates comparisons of integers; other filters are returned unchanged."""
    reader = PushingLogReader(options("commands", dsn))
    hers = Not(EqualTo(("type",), 2))
    text = EqualTo(("command",), "()")
    assert list(
        reader.pushFilters(
            [
                IsNotNull(("seqno",)),
                GreaterThan(("seqno",), 16),
                LessThanOrEqual(("SEQNO",), 80),
                In(("article_id",), (8, None)),
                hers,
                text,
            ]
        )
    ) == [hers, text]
    assert reader.pushed is not None
    assert (reader.pushed.after, reader.pushed.upto) == (16, 80)
    assert reader.pushed.conditions == ("article_id in (8)",)
    assert [each["seqno"] for each in everything(reader)] == [32, 64]


def test_what_was_removed_is_a_gap(dsn: str) -> None:
    """A range that was removed, or was never read, is a gap."""
    asked_for = options("commands", dsn, after=16)
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute("update msrepl.mspublisher_databases set removed_to = '0/20'")
    with pytest.raises(
        GapError, match=r"has removed what follows 0/10: .* begins after 0/20"
    ) as caught:
        SparkLogReader(asked_for).partitions()
    assert (caught.value.after, caught.value.upto) == (16, 32)
    with pytest.raises(GapError, match="has been read to 0/60 only"):
        SparkLogReader(options("commands", dsn, after=48, upto=1000)).partitions()


def test_a_stream(dsn: str) -> None:
    """Batches end at transaction boundaries, and include what is stored later."""
    stream = LogStreamReader(options("commands", dsn, segment=2))
    assert stream.getDefaultReadLimit() == ReadMaxRows(2)
    seen, at = [], stream.initialOffset()
    while (end := stream.latestOffset(at, ReadMaxRows(2))) != at:
        seen.append(
            {
                row["seqno"]
                for part in stream.partitions(at, end)
                for batch in stream.read(part)
                for row in batch.to_pylist()
            }
        )
        at = end
    assert seen == [{16, 32}, {48}, {64, 80, 96}]
    assert all(not list(stream.read(each)) for each in stream.partitions(at, at))
    stream.prepareForTriggerAvailableNow()
    store(dsn, made(1 << 62, (1, 7, 0, TEXT)))
    assert stream.latestOffset(at, ReadAllAvailable()) == at
    again = LogStreamReader(options("commands", dsn))
    assert again.latestOffset(at, again.getDefaultReadLimit()) == {"seqno": 1 << 62}


def test_small_tables(dsn: str) -> None:
    """Small tables are read: articles with shapes, originators, subscriptions, an empty history."""
    articles = everything(SmallReader(options("articles", dsn)))
    assert [(a["article_id"], a["shape"], a["key"], a["version"]) for a in articles] == [
        (7, 1, [0], 2),
        (8, 1, [0], 1),
    ]
    assert articles[0]["columns"] == ["c1", "c2", "msrepl_tran_version"]
    assert (articles[0]["ins"], articles[0]["upd"]) == ("CALL", "SCALL")
    assert [each["srvname"] for each in everything(SmallReader(options("originators", dsn)))] == [
        "north",
        "south",
    ]
    (subscription,) = everything(SmallReader(options("subscriptions", dsn)))
    assert (subscription["subscriber"], subscription["subscription_seqno"]) == ("north", 0)
    assert everything(SmallReader(options("agents", dsn)))[0]["delivered"] == 0
    assert everything(SmallReader(options("agent_history", dsn))) == []
    assert everything(SmallReader(options("prepared", dsn))) == []


def test_rows_of_a_table(make_database: MakeDatabase) -> None:
    """Values have the format of the log, which differs from a cast to text, with NULLs and the row filter."""
    database = make_database()
    with psycopg.connect(database.dsn, autocommit=True) as connection:
        connection.execute(
            """
            create table "T t" (id int, ok bool, "c%" char(3), b bytea, r numeric[]);
            insert into "T t" select g, g = 1, 'a', '\\x00ff', '{1.50,NaN}' from generate_series(1, 400) g;
            update "T t" set ok = null, r = null where id = 400
            """
        )
    article = PublishedTable(
        article_id=3,
        source_schema="public",
        source_object="T t",
        columns=("id", "ok", "c%", "b", "r"),
        key=("id",),
        filter_clause="id in (1, 2, 400)",
    )
    given = options("rows", database.dsn, article=article.text(), partitions=3)
    assert len(RowsReader(given).partitions()) == 3
    assert sorted(everything(RowsReader(given)), key=lambda each: int(each["key"][0])) == [
        {"article_id": 3, "key": ["1"], "values": ["1", "t", "a  ", "\\x00ff", "{1.50,NaN}"]},
        {"article_id": 3, "key": ["2"], "values": ["2", "f", "a  ", "\\x00ff", "{1.50,NaN}"]},
        {"article_id": 3, "key": ["400"], "values": ["400", None, "a  ", "\\x00ff", None]},
    ]


def test_histories(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each record is read once, however ranges are cut; an incomplete last line is ignored."""
    path = tmp_path / "bank" / "one" / "history.jsonl"
    path.parent.mkdir(parents=True)
    with path.open("w", encoding="utf-8") as file:
        history = History(file)
        history.write("header", data={"schema": 1})
        for number in range(50):
            history.write("info", message=f"ö{number}" * number, data={"n": number})
        file.write('{"seq": 51, "t_us": ')
    monkeypatch.setattr("twopc.sim.spark.source.histories.RANGE_BYTES", 512)
    reader = HistoryReader(SourceOptions.read({"table": "history", "path": str(tmp_path)}))
    assert len(reader.partitions()) > 5
    found = everything(reader)
    assert {each["run"] for each in found} == {"bank/one"}
    assert [(e["seq"], e["message"]) for e in found] == [
        (r.seq, r.message or None) for r in read(path)
    ]
    assert found[5]["data"] == '{"n": 4}'
    path.write_text(
        '{"seq": 1, "t_us": 0, "kind": "header", "data": {"schema": 9}}\n', encoding="utf-8"
    )
    with pytest.raises(PipelineError, match="history of schema 9; this program reads 1"):
        reader.partitions()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"table": "commnads"}, "no table 'commnads'; there are agent_history, "),
        ({"table": "commands"}, "'commands' needs the option 'dsn'"),
        ({"table": "rows", "dsn": "x"}, "'rows' needs the option 'article'"),
        ({"table": "commands", "dsn": "x", "upto": "0/17"}, "upto='0/17' is not a number"),
        ({"table": "commands", "dsn": "x", "until": "1"}, "no option 'until'"),
    ],
)
def test_options(given: dict[str, str], message: str) -> None:
    """A missing, unknown or invalid option is refused when the table is opened."""
    with pytest.raises(PipelineError, match=message):
        TwopcDataSource(given).schema()  # type: ignore[arg-type]


@pytest.mark.parametrize("dies", ["while it is filled", "while it is used"])
def test_a_filled_database_leaves_no_role(
    make_database: MakeDatabase, monkeypatch: pytest.MonkeyPatch, dies: str
) -> None:
    """A filled database leaves no role, which the next one could not create: roles belong to the whole server."""
    database = make_database()

    async def fail(*_: object) -> None:
        raise RuntimeError("dies")

    if dies == "while it is filled":
        monkeypatch.setattr("tests.spark.source.filled.write_blocks", fail)
    with pytest.raises(RuntimeError, match="dies"), filled(database):
        raise RuntimeError("dies")
    roles = (LOGREADER, AGENT)
    assert asked(database.dsn, f"select rolname from pg_roles where rolname in {roles!r}") == []


#: Ends as PySpark's python_streaming_source_runner does.
_ENDED = """
import socket, sys
from pyspark.serializers import write_int
from pyspark.util import handle_worker_exception
from twopc.sim.spark.source.options import SourceOptions
from twopc.sim.spark.source.stream import LogStreamReader
ours, spark = socket.socketpair()
spark.close()
reader = LogStreamReader(SourceOptions.read(dict(table="commands", dsn="host=none", publisher="pub")))
with ours.makefile("rwb", 65536) as file:
    try:
        try:
            if sys.argv[1] == "error":
                raise SystemError("made up")
            write_int(0, file)
            file.flush()
        finally:
            reader.stop()
    except OSError as error:
        handle_worker_exception(error, file)
        file.flush()
"""


@pytest.mark.parametrize("ends_by", ["answer", "error"])
def test_the_process_of_a_stream_that_spark_has_stopped_prints_nothing(ends_by: str) -> None:
    """Its last answer has no receiver; any other error is printed."""
    command = [sys.executable, "-c", _ENDED, ends_by]
    process = subprocess.run(command, capture_output=True, text=True, check=False)
    assert process.returncode == 1
    last = process.stderr.splitlines()[-1:]
    assert last == (["SystemError: made up"] if ends_by == "error" else [])
