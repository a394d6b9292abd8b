"""Archives made without Spark: Parquet files as Spark would have staged them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from twopc.sim.spark import shapes
from twopc.sim.spark.archive import Archive
from twopc.sim.spark.archive.append import add
from twopc.sim.spark.source.facts import Facts, Publisher

PUBLISHER = Publisher(name="pub", database="pub_db", number=1, slot="s", distribution="7/5")
ARTICLE: Mapping[str, Any] = {
    "article_id": 1,
    "shape": 1,
    "first_seqno": 0,
    "source_schema": "public",
    "source_object": "account",
    "columns": ["id", "balance"],
    "types": ["integer", "integer"],
    "key": [0],
    "version": None,
    "filter_clause": None,
    "ins": "CALL",
    "upd": "SCALL",
    "del": "CALL",
    "large": [],
}
TIME = datetime(2026, 1, 1, tzinfo=UTC)


def facts(**changes: Any) -> Facts:
    """Return the facts of a distribution database."""
    said: dict[str, Any] = {
        "publisher": PUBLISHER,
        "read_to": 1 << 40,
        "removed_to": 0,
        "articles": (ARTICLE,),
        "originators": ({"id": 1, "srvname": "north", "dbname": "n"},),
        "subscriptions": (),
    }
    return Facts(**{**said, **changes})


def commands_of(seqnos: Sequence[int], each: int = 2) -> list[dict[str, Any]]:
    """Return `each` inserts for each transaction."""
    return [
        {
            "seqno": seqno,
            "command_id": number,
            "article_id": 1,
            "type": 1,
            "originator_id": None,
            "hashkey": 0,
            "command": f'("{seqno * 10 + number}","1")',
        }
        for seqno in seqnos
        for number in range(1, each + 1)
    ]


def transactions_of(seqnos: Sequence[int], each: int = 2) -> list[dict[str, Any]]:
    """Return the transactions."""
    return [
        {
            "seqno": seqno,
            "xid": seqno,
            "entry_time": TIME,
            "originator_id": 1 if seqno % 2 else None,
            "marks": seqno % 2,
            "commands": each,
            "bytes": 10 * each,
            "gid": None,
        }
        for seqno in seqnos
    ]


def stage(folder: Path, seqnos: Sequence[int], *, each: int = 2, said: int | None = None) -> Path:
    """Write transactions to a staging folder.

    Args:

        said: the number of commands according to each transaction.
    """
    staging = folder / "staging" / f"by-hand-{min(seqnos, default=0)}"
    for table, rows, shape in (
        ("commands", commands_of(seqnos, each), shapes.COMMANDS),
        (
            "transactions",
            transactions_of(seqnos, each if said is None else said),
            shapes.TRANSACTIONS,
        ),
    ):
        (staging / table).mkdir(parents=True)
        read = pa.Table.from_pylist(rows, schema=shapes.arrow_schema(shape))
        pq.write_table(read, staging / table / "part-00000.parquet", compression="zstd")
    return staging


def archive(path: Path, *segments: Sequence[int]) -> Archive:
    """Return an archive with one segment per list of sequence numbers, which ends with its last."""
    made = Archive.create(path, PUBLISHER)
    for seqnos in segments:
        made = add(made, stage(made.folder, seqnos), upto=seqnos[-1], facts=facts())
    return made


def content(made: Archive) -> dict[str, list[dict[str, Any]]]:
    """Return all rows, in order, read without Spark."""
    return {
        table: [
            row
            for file in sorted(made.manifest.of_table(table), key=lambda each: each.first)
            for row in pq.read_table(made.folder / file.path).to_pylist()
        ]
        for table in ("commands", "transactions")
    }
