"""Tests of archives with changed files: a read returns the written values, or an error."""

from __future__ import annotations

import random
from contextlib import suppress
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from tests.spark.archive.made import (
    ARTICLE,
    PUBLISHER,
    archive,
    commands_of,
    facts,
    stage,
    transactions_of,
)
from twopc.sim.spark import shapes
from twopc.sim.spark.archive import Archive, writer
from twopc.sim.spark.archive.append import add, append, write_decoded
from twopc.sim.spark.archive.compact import compact
from twopc.sim.spark.archive.files import written
from twopc.sim.spark.archive.manifest import DECODED
from twopc.sim.spark.errors import ArchiveError, PipelineError
from twopc.sim.spark.session import translated

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]


def appended(path: Path, spark: SparkSession, *segments: list[int]) -> Archive:
    """Return an archive that Spark has written."""
    made = Archive.create(path, PUBLISHER)
    for seqnos in segments:
        made = append(
            made,
            shapes.frame(spark, commands_of(seqnos), shapes.COMMANDS),
            lambda _, seqnos=seqnos: shapes.frame(  # type: ignore[misc]
                spark, transactions_of(seqnos), shapes.TRANSACTIONS
            ),
            facts=facts,
            upto=seqnos[-1],
        )
    return made


def path_of(made: Archive, table: str) -> Path:
    """Return the path of the table's first file."""
    return made.folder / made.manifest.of_table(table)[0].path


def flip(path: Path, whole: bytes, at: int) -> None:
    """Change a bit of a file."""
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 4]) + whole[at + 1 :])


def test_a_changed_bit(spark: SparkSession, tmp_path: Path) -> None:
    """With a changed bit anywhere, Spark returns the written values or reports the damage."""
    made = appended(tmp_path / "a", spark, list(range(1, 1500)))
    expected = sorted(made.decoded(spark).collect())
    path = path_of(made, DECODED)
    whole = path.read_bytes()
    chance = random.Random(3)
    for at in chance.sample(range(4, len(whole) - 8), 12):
        flip(path, whole, at)
        with suppress(ArchiveError), translated():
            assert sorted(made.decoded(spark).collect()) == expected, at


def test_a_full_disk() -> None:
    """That a disk is full is no fault of the program."""
    error = PySparkException("[TASK_WRITE_FAILED] … java.io.IOException: No space left on device")
    with pytest.raises(PipelineError, match="no space is left where Spark writes"), translated():
        raise error


def test_a_file_is_not_passed_over(spark: SparkSession, tmp_path: Path) -> None:
    """A corrupt file is an error, even if Spark is set to ignore corrupt files."""
    made = appended(tmp_path / "a", spark, [1, 2])
    path = path_of(made, DECODED)
    path.write_bytes(b"x" * path.stat().st_size)
    spark.conf.set("spark.sql.files.ignoreCorruptFiles", "true")
    try:
        with pytest.raises(ArchiveError, match="show --verify names it"), translated():
            made.decoded(spark).collect()
    finally:
        spark.conf.unset("spark.sql.files.ignoreCorruptFiles")


def test_compaction_does_not_make_damage_the_truth(spark: SparkSession, tmp_path: Path) -> None:
    """Compaction compares the files that it reads with the manifest, since it writes new checksums."""
    made = appended(tmp_path / "a", spark, [1, 2], [7])
    path = path_of(made, DECODED)
    whole = path.read_bytes()
    flip(path, whole, len(whole) - 20)
    with writer(made) as held, pytest.raises(ArchiveError, match="is not what was written"):
        compact(held, spark)
    path.write_bytes(whole)
    assert Archive.open(made.folder, verify=True).manifest == made.manifest


def test_a_command_that_was_not_decoded(spark: SparkSession, tmp_path: Path) -> None:
    """A segment with commands that were not decoded is not appended."""
    made = archive(tmp_path / "a", [1])
    staging = stage(made.folder, [4, 6])
    write_decoded([ARTICLE], spark, staging)
    (path,) = written(staging / DECODED)
    pq.write_table(pq.read_table(path).slice(1), path)
    with pytest.raises(ArchiveError, match="4 commands were to be decoded, and 3 are: nothing was"):
        add(made, staging, upto=6, facts=facts())
    assert Archive.open(made.folder).manifest == made.manifest
