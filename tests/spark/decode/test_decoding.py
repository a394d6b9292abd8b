"""Tests of decoding: Spark reads commands of every format like the project's own functions."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.testing import assertDataFrameEqual

from twopc.articles import Article, Column
from twopc.names import VERSION_COLUMN
from twopc.propagation import (
    OPERATIONS,
    TYPE_OF,
    Format,
    bitmask,
    parameters,
    record_text,
    record_values,
)
from twopc.sim.spark import shapes
from twopc.sim.spark.decode import decoded, decoded_batches, layouts
from twopc.sim.spark.records import records_of

pytestmark = [pytest.mark.spark, pytest.mark.xdist_group("spark")]

NAMES = ("region", "id", "note", VERSION_COLUMN)
ARTICLE = Article(
    schema="public",
    table="line",
    columns=tuple(Column(name=name, type="text") for name in NAMES),
    key=("id", "region"),
)
OLD = ["north", "7", 'a "b" \\ c', "v1"]
NEW = ["north", "8", None, "v2"]
CHANGED = [False, True, True, True]
#: Formats of insert, update and delete; one article for each, numbered from 1.
FORMS = [("CALL", "CALL", "CALL"), ("CALL", "SCALL sp_mine", "XCALL"), ("CALL", "MCALL", "CALL"),
         ("CALL", "XCALL", "XCALL"), ("SQL", "SQL", "SQL")]  # fmt: skip


def text(values: Sequence[str | None]) -> str:
    return record_text([None if each is None else each.encode() for each in values]).decode()


def command(operation: str, form: Format) -> str:
    """Return a command as the log reader makes it, from its parameters."""
    sparse = form is Format.SCALL
    new = [each if not sparse or at else None for each, at in zip(NEW, CHANGED, strict=True)]
    images = {"new": NEW if operation == "ins" else new, "old": OLD}
    key = [OLD[NAMES.index(each)] for each in ARTICLE.key]
    mask = "\\x" + bitmask([at for at, each in enumerate(CHANGED) if each], len(NAMES)).hex()
    values: list[str | None] = []
    for each in parameters(ARTICLE, operation, form):
        if each.image == "bitmap":
            values.append(mask)
        elif each.image == "key":
            values.append(key[int(each.name[3:]) - 1])
        else:
            values.append(images[each.image][int(each.name.rpartition("c")[2]) - 1])
    return text(values)


def test_records_are_read_as_they_are_written() -> None:
    chance = random.Random(7)
    letters = ['"', "\\", ",", "(", ")", "a", "é", "\n", "😀", " ", "x06"]
    records = [
        [
            None
            if chance.random() < 0.2
            else "".join(chance.choices(letters, k=chance.randrange(9)))
            for _ in range(chance.randrange(1, 6))
        ]
        for _ in range(300)
    ]
    records += [['"' * 100_000], ["x" * 1_000_000, None, ""]]
    texts = [text(each) for each in records]
    assert [
        [None if v is None else v.decode() for v in record_values(each.encode())] for each in texts
    ] == records
    for wrong in (
        "",
        "(",
        ")",
        "()x",
        '("a',
        "select 1",
        '{"v":["1"]}',
        '("a"x)',
        'x("a")',
        "(a,b)",
    ):
        at = chance.randrange(len(texts))  # a malformed record does not affect its neighbours
        texts.insert(at, wrong)
        records.insert(at, [])
    read = records_of(pa.array(["(", *texts])[1:])
    read.values.validate(full=True)
    values = read.values.to_pylist()
    assert [values[i : i + n] for i, n in zip(read.firsts, read.counts, strict=True)] == records
    assert len(records_of(pa.array([], pa.string())).firsts) == 0


def test_reading_records_takes_little_memory() -> None:
    """The memory is a small multiple of the texts' size, since one value may be large."""
    texts = pa.array([text([one, "x" * 100_000]) for one in "abcdefghij"])
    tracemalloc.start()
    try:
        read = records_of(texts)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert read.counts.tolist() == [2] * 10
    assert peak < 8 * texts.nbytes


def test_a_wide_table_is_decoded_in_parts() -> None:
    """The memory for decoding is bounded, however many commands and columns a batch has."""
    names = [f"c{n}" for n in range(200)]
    wide = {
        "article_id": 1, "shape": 1, "first_seqno": 0, "source_schema": "public", "source_object": "wide",
        "columns": names, "key": [0], "version": None, "ins": "CALL", "upd": "CALL", "del": "CALL", "large": [],
    }  # fmt: skip
    rows = 10_000
    one = text([f"{n:09}" for n in range(200)])
    batch = pa.RecordBatch.from_pydict({
        "seqno": pa.array(range(1, rows + 1), pa.int64()), "command_id": pa.array([1] * rows, pa.int32()),
        "article_id": pa.array([1] * rows, pa.int32()), "type": pa.array([1] * rows, pa.int32()),
        "originator_id": pa.nulls(rows, pa.int32()), "command": pa.array([one] * rows, pa.large_string()),
    })  # fmt: skip
    before, peak, seqnos = pa.total_allocated_bytes(), 0, 0
    for each in decoded_batches([batch], layouts=layouts([wide])):
        peak = max(peak, pa.total_allocated_bytes() - before)
        seqnos += len(each)
        assert len(each["values"].flatten()) == 200 * len(each)
    assert seqnos == rows
    assert peak < batch.nbytes


def articles() -> list[tuple[object, ...]]:
    made: list[tuple[object, ...]] = [
        (
            n,
            1,
            0,
            "public",
            "line",
            list(NAMES),
            ["text"] * 4,
            [1, 0],
            3,
            None,
            *forms,
            [2] if n == 4 else [],
        )
        for n, forms in enumerate(FORMS, 1)
    ]
    # from 500 on the first article lacks a column
    made.append(
        (1, 2, 500, "public", "line", ["id", "note"], ["text"] * 2, [0], 1, None, *FORMS[0], [])
    )
    return made


def test_every_format_of_every_operation(spark: SparkSession) -> None:
    commands: list[tuple[object, ...]] = []
    expected: list[tuple[object, ...]] = []
    key, new_key = ["7", "north"], ["8", "north"]
    for article, forms in enumerate(FORMS[:4], 1):
        for operation, form in zip(OPERATIONS, forms, strict=True):
            kind = Format(form.split()[0])
            at = (100, len(commands) + 1, article)
            commands.append((*at, TYPE_OF[operation], None, 0, command(operation, kind)))
            x = kind is Format.XCALL
            new: list[str | None] | None = list(NEW) if operation != "del" else None
            changed: list[bool] | None = None
            if operation == "upd":
                changed = [True] * 4 if kind is Format.CALL else list(CHANGED)
                if kind is Format.SCALL:
                    new = [None, *NEW[1:]]
            expected.append((
                *at, 1, operation, None,
                new_key if operation == "ins" else key, None if operation == "del" else new_key,
                new, OLD if x else None, changed,
                "v1" if x else None, "v2" if operation != "del" else None, "", False,
            ))  # fmt: skip
    nothing = (None,) * 7
    for seqno, article, type_, said, shape, operation, problem in [
        (100, 5, 12, "update line set …", 1, "upd", "sql"),
        (100, 9, 1, text(NEW), None, None, "article"),
        (100, 1, 1, text(NEW[:3]), 1, "ins", "shape"),
        (501, 1, 1, text(NEW), 2, "ins", "shape"),
        (100, 2, 2, text([*NEW, *key, None]), 1, "upd", "shape"),
        (100, 3, 2, text([*NEW, *key, r"\x0"]), 1, "upd", "shape"),
    ]:
        at = (seqno, len(commands) + 1, article)
        commands.append((*at, type_, None, 0, said))
        expected.append((*at, shape, operation, None, *nothing, problem, False))
    written = ("ins", 3, ["7"], ["7"], ["7", "n"], None, None, None, "n", "")
    commands.append((501, 99, 1, 1, 3, 0, text(["7", "n"])))
    expected.append((501, 99, 1, 2, *written, False))
    # a row stored beside a call, the call, and a routine's new definition
    commands.append((503, 1, 10_000_001, 1, 3, 0, text(["7", "n"])))
    expected.append((503, 1, 1, 2, *written, True))
    commands.append((503, 2, 4, 30, None, 0, '{"v":["1"]}'))
    expected.append((503, 2, 4, None, None, None, *nothing, "call", False))
    commands.append((503, 3, 10_000_004, 31, None, 0, '{"definition":""}'))
    commands.append((502, 1, 0, 20, None, 0, '{"tracer": 1}'))
    actual = decoded(
        shapes.frame(spark, commands, shapes.COMMANDS),
        [dict(zip(shapes.ARTICLES.names, each, strict=True)) for each in articles()],
    )
    assertDataFrameEqual(actual, shapes.frame(spark, expected, shapes.DECODED))
