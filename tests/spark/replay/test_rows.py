"""Tests of an archive's rows against those of a real topology, at the end and before."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.spark.archive.made import ARTICLE, archive, facts, stage
from tests.spark.replay.recorded import RecordedBank
from twopc.sim.spark.archive.append import add
from twopc.sim.spark.replay import onto_rows
from twopc.sim.spark.replay.rows import NothingError

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def test_time_travel(recorded_bank: RecordedBank, spark: SparkSession, tmp_path: Path) -> None:
    """At a position between transactions the rows are those of that moment."""
    bank = recorded_bank
    assert bank.archive.manifest.base
    report = onto_rows(bank.archive, spark, upto=bank.middle, articles=["account"], out=tmp_path)
    assert report.total == 0
    read = spark.read.parquet(str(tmp_path / "rows")).collect()
    assert {tuple(row.key): row["values"] for row in read} == {
        (str(row[0]),): [None if each is None else str(each) for each in row]
        for row in bank.accounts
    }


def test_against_real_tables(recorded_bank: RecordedBank, spark: SparkSession) -> None:
    """A changed value and a missing row without a command are named, with the node."""
    bank = recorded_bank
    ((version,),) = bank.rows("south", "select msrepl_tran_version from note where id = 2")
    bank.as_agent(
        "south",
        "update account set amount = 7 where id = 11",
        "delete from note where id = 2",
    )
    try:
        report = onto_rows(bank.archive, spark, against=bank.nodes)
    finally:
        bank.as_agent(
            "south",
            "update account set amount = 12.10 where id = 11",
            f"insert into note values (2, null, '{version}')",
        )
    first, second = report.shown(10)
    assert (first["article"], first["key"]) == ("account", ["11"])
    assert (first["expected"], first["actual"]) == ("amount '12.10'", "amount '7.00' at south")
    assert (second["article"], second["key"], second["actual"]) == (
        "note",
        ["2"],
        "no row at south",
    )
    assert second["expected"].startswith("id '2', said NULL, msrepl_tran_version '")
    assert report.classes == {"state": 2}


def test_what_there_is_not(recorded_bank: RecordedBank, spark: SparkSession) -> None:
    archive = recorded_bank.archive
    with pytest.raises(NothingError, match="no article 'acount'"):
        onto_rows(archive, spark, articles=["acount"])
    with pytest.raises(NothingError, match="no node 'west'"):
        onto_rows(archive, spark, against={"west": recorded_bank.nodes["south"]})


def test_two_tables_of_one_name(spark: SparkSession, tmp_path: Path) -> None:
    """A table's name may contain a dot: both tables are included.

    The later article of a table that was published again counts.
    """
    names = [
        ("public", "sales.line"),
        ("sales", "line"),
        ("public", "account"),
        ("public", "account"),
    ]
    articles = tuple(
        {**ARTICLE, "article_id": number, "source_schema": schema, "source_object": table}
        for number, (schema, table) in enumerate(names, 1)
    )
    made = archive(tmp_path / "a")
    made = add(made, stage(made.folder, [4]), upto=4, facts=facts(articles=articles))
    report = onto_rows(made, spark)
    assert (report.counts["articles"], report.total) == (3, 0)
    report = onto_rows(made, spark, articles=["sales.line"])
    assert report.counts["articles"] == 2
