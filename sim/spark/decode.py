"""Decoding of distributed commands into changes of rows.

The meaning of a command's values depends on the format (`twopc.propagation.parameters`) and on the shape that its
article had at that sequence number.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import DataFrame

from twopc.articles import Article, Column
from twopc.proc_execution import BESIDE, CALL_TYPE, DEFINITION_TYPE
from twopc.propagation import CommandType, Format, changed_columns, parameters
from twopc.sim.spark import shapes
from twopc.sim.spark.records import records_of

_READ = ("seqno", "command_id", "article_id", "type", "originator_id", "command")
_SCHEMA = shapes.arrow_schema(shapes.DECODED)
#: The text of a bitmask.
_MASK = r"^\\x([0-9a-f]{2})*$"
#: Size of the texts that are parsed together: intermediate results take several times as much memory, and a batch
#: of 20,000 commands of a wide table has 100 MB of texts.
_PART_BYTES = 4 << 20
#: A number greater than any type of command.
_TYPES_MAX = 100
#: Types of an operation's commands: calls and statements.
_TYPES = {
    "ins": (CommandType.INSERT, CommandType.SQL_INSERT),
    "upd": (CommandType.UPDATE, CommandType.SQL_UPDATE),
    "del": (CommandType.DELETE, CommandType.SQL_DELETE),
}


def decoded(commands: DataFrame, articles: Iterable[Mapping[str, Any]]) -> DataFrame:
    """Return the change of a row that each command makes.

    Args:
        commands: of `shapes.COMMANDS`. Commands for all Subscribers (article 0) and definitions of routines are
            left out. Rows beside a call have their table's number.
        articles: of `shapes.ARTICLES`, all shapes.

    Returns:
        `shapes.DECODED`. A command that cannot be read has a `problem` and no values.
    """
    work = partial(decoded_batches, layouts=layouts(articles))
    return commands.select(*_READ).mapInArrow(work, shapes.DECODED)


@dataclass(frozen=True, slots=True, kw_only=True)
class CommandLayout:
    """The layout of the values of a shape's commands of one type. Places count from 0; an image that the commands
    do not
    have is empty.
    """

    shape: int | None = None
    after: int = 0
    """The sequence number after which the layout is valid."""
    operation: str | None = None
    problem: str = ""
    """Why no command with this layout can be read; empty if they can."""
    count: int = 0
    """Number of values."""
    new: Sequence[int] = ()
    old: Sequence[int] = ()
    key: Sequence[int] = ()
    mask: Sequence[int] = ()
    key_columns: Sequence[int] = ()
    version: int | None = None
    """Place of the version column."""
    large: Sequence[int] = ()
    """Places of large columns, which are always treated as changed without a mask, as XCALL may not contain their
    change.
    """


Layouts = Mapping[tuple[int, int], Sequence[CommandLayout]]


def layouts(articles: Iterable[Mapping[str, Any]]) -> Layouts:
    """Return the layouts by article and type of command, in the order of shapes."""
    results: dict[tuple[int, int], list[CommandLayout]] = {}
    for row in sorted(articles, key=lambda each: int(each["shape"])):
        for operation, (call, statement) in _TYPES.items():
            fields = {"shape": row["shape"], "after": row["first_seqno"], "operation": operation}
            places = _places(row, operation) or {"problem": "shape"}
            for type_, others in ((call, places), (statement, {"problem": "sql"})):
                results.setdefault((row["article_id"], type_), []).append(
                    CommandLayout(**fields, **others)
                )
    return results


def _places(row: Mapping[str, Any], operation: str) -> dict[str, Any]:
    """Return the places of each image among the values; empty if no command of this format can be read."""
    names = row["columns"]
    if not all(0 <= each < len(names) for each in row["key"]):
        return {}
    article = Article(
        schema=row["source_schema"],
        table=row["source_object"],
        columns=tuple(Column(name=each, type="text") for each in names),
        key=tuple(names[each] for each in row["key"]),
    )
    try:
        form = Format(row[operation].split(" ")[0].upper())
        images = [each.image for each in parameters(article, operation, form)]
    except ValueError:  # a format without values
        return {}
    new, old, key, mask = (
        [place for place, each in enumerate(images) if each == image]
        for image in ("new", "old", "key", "bitmap")
    )
    key = key or [(old or new)[each] for each in row["key"]]
    return {
        "count": len(images), "new": new, "old": old, "key": key, "mask": mask, "key_columns": row["key"],
        "version": row["version"], "large": row["large"] or (),
    }  # fmt: skip


# -- on executors ----------------------------------------------------------------------------------


def decoded_batches(
    batches: Iterable[pa.RecordBatch], *, layouts: Layouts
) -> Iterator[pa.RecordBatch]:
    """Yield `shapes.DECODED` for each part of a batch, by article, type and shape."""
    for batch in batches:
        for part in _parts(batch):
            article, type_ = part["article_id"].to_numpy(), part["type"].to_numpy()
            kind = article.astype(np.int64) * _TYPES_MAX + type_
            for each in np.unique(kind[has_row(article, type_)]).tolist():
                yield from _of_kind(part.take(pa.array(np.flatnonzero(kind == each))), layouts)


def has_row(article: NDArray[np.int32], type_: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Return for which commands `decoded` has a row."""
    result: NDArray[np.bool_] = (article != 0) & (type_ != DEFINITION_TYPE)
    return result


def _parts(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """Yield a batch in parts whose texts have a bounded size, with 32-bit offsets whatever Spark's are."""
    texts = batch["command"].cast(pa.string())
    batch = batch.set_column(batch.schema.get_field_index("command"), "command", texts)
    lengths = pc.fill_null(pc.binary_length(texts), 0).to_numpy().astype(np.int64)
    ends = np.flatnonzero(np.diff(np.cumsum(lengths) // _PART_BYTES)) + 1
    for begin, end in itertools.pairwise([0, *ends.tolist(), len(batch)]):
        yield batch.slice(begin, end - begin)


def _of_kind(batch: pa.RecordBatch, layouts: Layouts) -> Iterator[pa.RecordBatch]:
    """Yield the decoded commands of one article and type."""
    number, type_ = batch["article_id"][0].as_py(), batch["type"][0].as_py()
    if type_ == CALL_TYPE:
        yield _row_batch(batch, CommandLayout(), "call")
        return
    of_shapes = layouts.get((number % BESIDE, type_), ())
    at = np.searchsorted([each.after for each in of_shapes], batch["seqno"].to_numpy()) - 1
    for place in np.unique(at).tolist():
        rows = batch.take(pa.array(np.flatnonzero(at == place)))
        layout = of_shapes[place] if place >= 0 else CommandLayout(problem="article")
        if layout.problem:
            yield _row_batch(rows, layout, layout.problem)
            continue
        records = records_of(rows["command"])
        is_read = records.counts == layout.count
        if layout.mask:
            last = pa.array(np.where(is_read, records.firsts + layout.count - 1, 0))
            is_mask = pc.match_substring_regex(records.values.take(last), _MASK).fill_null(False)
            is_read &= is_mask.to_numpy(zero_copy_only=False)
        if not is_read.all():
            yield _row_batch(rows.filter(pa.array(~is_read)), layout, "shape")
            rows = rows.filter(pa.array(is_read))
        if len(rows):
            yield _read(rows, layout, records.values, records.firsts[is_read])


def _read(
    rows: pa.RecordBatch, layout: CommandLayout, values: pa.StringArray, firsts: NDArray[np.int64]
) -> pa.RecordBatch:
    """Return the decoded commands of one shape.

    Args:
        firsts: place of the first value of each command.
    """

    def values_at(places: Sequence[int]) -> pa.StringArray:
        return values.take(pa.array((firsts[:, None] + np.array(places, np.int64)).ravel()))

    def list_array(name: str, items: pa.Array, size: int) -> pa.Array:
        offsets = pa.array(np.arange(len(firsts) + 1, dtype=np.int32) * size)
        return pa.ListArray.from_arrays(offsets, items, type=_SCHEMA.field(name).type)

    images = {"key": layout.key, "values": layout.new, "old_values": layout.old}
    columns = {
        name: list_array(name, values_at(places), len(places))
        for name, places in images.items()
        if places
    }
    if layout.operation == "ins":
        columns["new_key"] = columns["key"]
    if layout.operation == "upd":
        changed = _changed(layout, values_at, len(firsts))
        columns["changed"] = list_array("changed", pa.array(changed.ravel()), changed.shape[1])
        set_ = pa.array(changed[:, layout.key_columns].ravel())
        new_key = pc.if_else(
            set_, values_at([layout.new[e] for e in layout.key_columns]), values_at(layout.key)
        )
        columns["new_key"] = list_array("new_key", new_key, len(layout.key))
    if layout.version is not None:
        versions = {"old_version": layout.old, "new_version": layout.new}
        columns |= {
            name: values_at([image[layout.version]]) for name, image in versions.items() if image
        }
    return _row_batch(rows, layout, "", columns)


def _changed(
    layout: CommandLayout, values_at: Callable[[Sequence[int]], pa.StringArray], rows: int
) -> NDArray[np.bool_]:
    """Return for each row and column whether an update sets it."""
    width = len(layout.new)
    if layout.mask:
        masks = values_at(layout.mask).dictionary_encode()
        known = np.zeros((len(masks.dictionary), width), bool)
        for place, text in enumerate(masks.dictionary.to_pylist()):
            bits = changed_columns(bytes.fromhex(text[2:]))
            known[place, [each for each in bits if each < width]] = True
        of_rows: NDArray[np.bool_] = known[masks.indices.to_numpy()]
        return of_rows
    if not layout.old:
        return np.ones((rows, width), bool)
    new, old = values_at(layout.new), values_at(layout.old)
    same = pc.or_(pc.fill_null(pc.equal(new, old), False), pc.and_(new.is_null(), old.is_null()))
    changed: NDArray[np.bool_] = ~same.to_numpy(zero_copy_only=False).reshape(rows, width)
    changed[:, list(layout.large)] = True
    return changed


def _row_batch(
    rows: pa.RecordBatch,
    layout: CommandLayout,
    problem: str,
    columns: Mapping[str, pa.Array] | None = None,
) -> pa.RecordBatch:
    """Return `shapes.DECODED` of rows with one layout; a column that is neither given nor constant is null."""
    number = rows["article_id"][0].as_py()
    constants = {
        "article_id": number % BESIDE, "shape": layout.shape, "operation": layout.operation, "problem": problem,
        "beside": number >= BESIDE,
    }  # fmt: skip
    arrays = {name: rows[name] for name in ("seqno", "command_id", "originator_id")}
    arrays |= columns or {}
    return pa.RecordBatch.from_arrays(
        [
            arrays[field.name] if field.name in arrays
            else pa.repeat(pa.scalar(constants.get(field.name), field.type), len(rows))
            for field in _SCHEMA
        ],
        schema=_SCHEMA,
    )  # fmt: skip
