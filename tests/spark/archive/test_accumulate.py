"""Tests of reading a real topology into an archive by Spark.

Commands are read at once, as a stream, over a change of shape, and compacted.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.testing import assertDataFrameEqual

from tests.fix_server import MakeDatabase
from tests.spark.archive.made import ARTICLE, content, stage
from tests.spark.source.filled import TEXT, filled, made, store
from twopc.publisher.distribution import clean_up
from twopc.sim.report.history import History
from twopc.sim.spark import shapes, source
from twopc.sim.spark.archive import Archive, writer
from twopc.sim.spark.archive.append import write_decoded
from twopc.sim.spark.archive.compact import compact
from twopc.sim.spark.archive.files import written
from twopc.sim.spark.archive.histories import add_history
from twopc.sim.spark.archive.load import LoadRequest, accumulate, follow, opened, progress_line
from twopc.sim.spark.archive.manifest import DECODED, TABLES
from twopc.sim.spark.archive.registration import register, release
from twopc.sim.spark.archive.show import lines
from twopc.sim.spark.decode import decoded
from twopc.sim.spark.errors import ArchiveError, GapError, PipelineError
from twopc.sim.spark.session import translated
from twopc.sim.topology import Topology

MakeTopology = Callable[..., Awaitable[Topology]]

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

_COMMANDS = """
select (xact_seqno - '0/0')::bigint, command_id, article_id, type, originator_id, hashkey, command
from msrepl.msrepl_commands order by 1, 2
"""


def asked(dsn: str, query: str) -> list[tuple[Any, ...]]:
    """Return the rows of a query."""
    with psycopg.connect(dsn) as connection:
        return connection.execute(query.encode()).fetchall()


def kept(archive: Archive) -> list[tuple[Any, ...]]:
    """Return the commands in an archive's files."""
    return [tuple(each.values()) for each in content(archive)["commands"]]


def read_from(frame: DataFrame) -> set[str]:
    """Return the tables of an archive whose files a frame reads."""
    return {each.rpartition("/data/")[2].partition("/")[0] for each in frame.inputFiles()}


def check_decoded(archive: Archive, spark: SparkSession, boundary: int) -> None:
    """Check that commands are decoded when appended, or when read if an earlier version stored them."""
    result = archive.decoded(spark)
    assert read_from(result) == {DECODED}
    assertDataFrameEqual(result, decoded(archive.commands(spark), archive.manifest.articles))
    assert [row["shape"] for row in result.orderBy("seqno").collect()] == [1, 2]
    assert archive.decoded(spark, after=boundary).count() == 1
    # an earlier version has stored only commands
    old, *others = archive.manifest.segments
    old = replace(old, files={table: old.files[table] for table in TABLES})
    expected = result.collect()
    with writer(archive) as held:
        earlier = held.replaced(held.manifest.next(segments=(old, *others)))
    assert read_from(earlier.decoded(spark)) == {DECODED, "commands"}
    assert sorted(earlier.decoded(spark).collect()) == sorted(expected)
    with writer(earlier) as held:
        compacted = compact(held, spark)
    assert read_from(compacted.decoded(spark)) == {DECODED}
    assert compacted.decoded(spark).collect() == expected


async def test_a_topology(make_topology: MakeTopology, spark: SparkSession, tmp_path: Path) -> None:
    """Bases, both kinds of transactions with their ids, and two shapes are in the archive, each once."""
    topology = await make_topology(subscribers=("sub1",))
    publisher = topology.publisher
    await topology.execute(
        publisher, "create table account (id int primary key, ok boolean, balance numeric)"
    )
    await topology.execute(
        publisher, "insert into account values (1, true, 'NaN'), (2, null, 1.50)"
    )
    await topology.publish("account")
    await topology.subscribe("sub1")
    async with topology.transaction("sub1") as tx:
        await tx.execute("update account set balance = 5 where id = 1")
        gid = str(tx.gid)
    await topology.sync()
    dsn = topology.node(topology.distribution).dsn
    wanted = LoadRequest(dsn=dsn, publisher_dsn=topology.node(publisher).dsn, partitions=2)
    said: list[str] = []

    def note(before: Archive, after: Archive, what: str) -> None:
        said.append(progress_line(before, after, what))

    path = tmp_path / "bank [1].archive"  # Spark would interpret brackets as a pattern
    with writer(opened(path, wanted)) as held:
        first = accumulate(held, spark, wanted, note)
    assert [line.partition(" · ")[0].partition(", at ")[0] for line in said] == [
        "pub: base of 1 table, 2 rows",
        "pub: 1 transaction, 1 command",
    ]
    rows = first.base(spark).orderBy("key").collect()
    assert [(row["key"], row["values"][:3], row["shape"]) for row in rows] == [
        (["1"], ["1", "t", "5"], 1),
        (["2"], ["2", None, "1.50"], 1),
    ]
    (transaction,) = first.transactions(spark).collect()
    assert (transaction["gid"], transaction["originator_id"]) == (gid, 1)

    await topology.execute(publisher, "alter table account add column note text default 'ö'")
    await topology.execute("sub1", "alter table account add column note text default 'ö'")
    await topology.regenerate("account")
    await topology.execute(
        publisher, "insert into account (id, ok, balance, note) values (3, false, 0, 'x')"
    )
    await topology.sync()
    with writer(opened(path, wanted)) as held:
        second = accumulate(held, spark, wanted, note)
        assert accumulate(second, spark, wanted, note).manifest == second.manifest
    boundary = first.manifest.position
    assert [(a["shape"], a["columns"][-2:]) for a in second.manifest.articles] == [
        (1, ["balance", "msrepl_tran_version"]),
        (2, ["msrepl_tran_version", "note"]),
    ]
    assert boundary <= second.manifest.articles[1]["first_seqno"] < second.manifest.position
    assert [(each.shape, each.rows) for each in second.manifest.base] == [(1, 2), (2, 3)]
    assert kept(second) == asked(dsn, _COMMANDS)
    assert second.commands(spark, after=boundary).count() == 1
    assert Archive.open(path, verify=True).manifest == second.manifest
    check_decoded(second, spark, boundary)


def test_files_are_decoded_side_by_side(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each file is decoded by its own task into its own file, with the same range.

    If there are very many, neighbours are decoded together.
    """
    staging = stage(tmp_path, [1, 2])
    for number in (1, 2):
        later = stage(tmp_path, [10 * number, 10 * number + 1]) / "commands" / "part-00000.parquet"
        later.rename(staging / "commands" / f"part-0000{number}.parquet")
    write_decoded([ARTICLE], spark, staging)
    of_files = [pq.read_table(each)["seqno"].to_pylist() for each in written(staging / DECODED)]
    assert of_files == [[1, 1, 2, 2], [10, 10, 11, 11], [20, 20, 21, 21]]
    shutil.rmtree(staging / DECODED)
    monkeypatch.setattr("twopc.sim.spark.archive.append._READS_MAX", 2)
    write_decoded([ARTICLE], spark, staging)
    together = [
        n for e in written(staging / DECODED) for n in pq.read_table(e)["seqno"].to_pylist()
    ]
    assert sorted(together) == [number for each in of_files for number in each]


def test_clean_up_waits_for_it(
    make_database: MakeDatabase, spark: SparkSession, tmp_path: Path
) -> None:
    """Clean-up keeps what the archive lacks, until it is appended, or the archive is released."""

    async def clean(dsn: str) -> None:
        async with await psycopg.AsyncConnection.connect(dsn, autocommit=True) as connection:
            await clean_up(connection)

    with filled(make_database()) as dsn:
        first, rest = (
            LoadRequest(dsn=dsn, partitions=2, upto=32),
            LoadRequest(dsn=dsn, partitions=2),
        )
        stored = asked(dsn, _COMMANDS)
        made_of_it = opened(tmp_path / "a", first)
        asyncio.run(clean(dsn))  # before anything is appended
        with writer(made_of_it) as held:
            held = accumulate(held, spark, first, lambda *_: None)
        asyncio.run(clean(dsn))
        with writer(opened(held.folder, rest)) as held:
            held = accumulate(held, spark, rest, lambda *_: None)
        assert kept(held) == stored
        asyncio.run(clean(dsn))
        assert asked(dsn, _COMMANDS) == []
        store(dsn, made(held.manifest.position + 100, (1, 7, 0, TEXT)))
        asyncio.run(clean(dsn))
        assert len(asked(dsn, _COMMANDS)) == 1
        _say(dsn, "alter table msrepl.msrepl_archives rename to kept_from_it")
        read_only = f"{dsn} options='-c default_transaction_read_only=on'"
        register(held, read_only)  # the role may not register, which must not prevent an append
        _say(dsn, "alter table msrepl.kept_from_it rename to msrepl_archives")
        late = opened(tmp_path / "b", rest)
        assert release(held, dsn)
        assert release(late, dsn)
        asyncio.run(clean(dsn))
        assert asked(dsn, _COMMANDS) == []
        # it contains nothing yet, so nothing is missing
        assert opened(late.folder, rest).manifest.first > late.manifest.first


def test_as_it_comes(make_database: MakeDatabase, spark: SparkSession, tmp_path: Path) -> None:
    """The stream delivers stored transactions and later ones; segments end at transaction boundaries."""
    with filled(make_database()) as dsn:
        wanted = LoadRequest(dsn=dsn, segment=2, partitions=2, upto=496)

        def note(_: Archive, after: Archive, __: str) -> None:
            position = after.manifest.position
            if 96 <= position < 400:  # each delivery stores the next transaction
                store(dsn, made(position + 100, (1, 7, 0, TEXT), (2, 8, 1, "()")))

        with writer(opened(tmp_path / "a", wanted)) as held:
            held = follow(held, spark, wanted, note, every_s=0.1)
        assert kept(held) == asked(dsn, _COMMANDS)
        assert held.manifest.position == 496
        assert [each.last for each in held.manifest.segments][:2] == [32, 48]
        with writer(held) as held:
            held = compact(held, spark)
        assert len(held.manifest.segments) == 1
        assert kept(Archive.open(held.folder, verify=True)) == asked(dsn, _COMMANDS)
        assert not any("not in the manifest" in line for line in lines(held))


def test_a_follower_that_fails(
    make_database: MakeDatabase,
    spark: SparkSession,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The error of a segment is raised as it is; it does not pass through Java, which would print tracebacks."""

    def note(_: Archive, after: Archive, __: str) -> None:
        raise ArchiveError(f"after {after.manifest.position}")

    with filled(make_database()) as dsn:
        wanted = LoadRequest(dsn=dsn, segment=2, partitions=2)
        with (
            pytest.raises(ArchiveError, match="after 32"),
            writer(opened(tmp_path / "a", wanted)) as held,
        ):
            follow(held, spark, wanted, note, every_s=0.1)
        assert [each.name for each in caplog.records] == []
        assert Archive.open(held.folder, verify=True).manifest.position == 32


def test_a_gap_and_another_database(
    make_database: MakeDatabase, spark: SparkSession, tmp_path: Path
) -> None:
    """Nothing is written if there is a gap, or if the database belongs to another archive."""
    with filled(make_database()) as dsn:
        wanted = LoadRequest(dsn=dsn, partitions=2, upto=32)
        with writer(opened(tmp_path / "a", wanted)) as held:
            held = accumulate(held, spark, wanted, lambda *_: None)
        everything = LoadRequest(dsn=dsn)
        _say(dsn, "update msrepl.mspublisher_databases set removed_to = '0/30'")
        with pytest.raises(GapError, match="has removed what follows 0/20"):
            opened(held.folder, everything)
        with pytest.raises(PipelineError, match="has removed what follows 0/20"), translated():
            source.read(spark, "commands", dsn=dsn, after="32").count()
        _say(dsn, "update msrepl.mspublisher_databases set removed_to = '0/0', slot = 'other'")
        with pytest.raises(
            ArchiveError, match=r"a is of pub \(slot s\); this is pub \(slot other\)"
        ):
            opened(held.folder, everything)
        assert Archive.open(held.folder).manifest == held.manifest


def _say(dsn: str, statement: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        connection.execute(statement.encode())


def test_frames_and_histories(
    make_database: MakeDatabase, spark: SparkSession, tmp_path: Path
) -> None:
    """Frames cover the given positions, and have all columns even without rows; a run is added once."""
    with filled(make_database()) as dsn:
        wanted = LoadRequest(dsn=dsn, partitions=2)
        path = tmp_path / "bank" / "one" / "history.jsonl"
        path.parent.mkdir(parents=True)
        with path.open("w", encoding="utf-8") as file:
            history = History(file)
            history.write("header", data={"schema": 1})
            history.write("info", message="ö")
        with writer(opened(tmp_path / "a", wanted)) as held:
            held = accumulate(held, spark, wanted, lambda *_: None)
            (added,) = add_history(held, spark, path)
            (again,) = add_history(added.archive, spark, path)
            read = source.read(spark, "commands", dsn=dsn, upto="96", partition_rows="1")
            assert read.where("seqno > 16 and article_id in (8) and type <> 3").count() == 2
        assert added.text == "history bank/one: 2 records"
        assert again.archive is added.archive
    archive = added.archive
    found = archive.commands(spark, after=16, upto=64).where("article_id = 8")
    wanted_rows = [(32, 2, 8, 3, None, 5, "()"), (64, 1, 8, 1, None, 0, TEXT)]
    assertDataFrameEqual(found, shapes.frame(spark, wanted_rows, shapes.COMMANDS))
    none = archive.transactions(spark, after=96)
    assertDataFrameEqual(none, shapes.frame(spark, [], shapes.TRANSACTIONS))
    assert [row["message"] for row in archive.history(spark, run="bank/one").collect()] == [
        None,
        "ö",
    ]
    with pytest.raises(ArchiveError, match="has no run 'two'; runs are bank/one"):
        archive.history(spark, run="two")
    assert archive.base(spark).columns == [*shapes.ROWS.names, "shape", "snapshot", "seqno"]
