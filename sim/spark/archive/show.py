"""Description of an archive, as lines and as a document. Needs no Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow.compute as pc
import pyarrow.parquet as pq

from twopc.lsn import lsn_text
from twopc.propagation import CommandType
from twopc.sim.spark.archive import Archive, files
from twopc.sim.spark.archive.load import count, size

_OPERATIONS = {
    CommandType.INSERT: "inserts",
    CommandType.UPDATE: "updates",
    CommandType.DELETE: "deletes",
}


def lines(archive: Archive, *, segments: bool = False) -> Iterator[str]:
    """Yield the description as lines of text."""
    result = document(archive)
    manifest = archive.manifest
    yield (
        f"archive of {manifest.publisher.name} ({manifest.publisher.database}), revision "
        f"{manifest.revision}, created {manifest.created[:10]}"
    )
    if manifest.publisher.identity:
        yield f"  identity {manifest.publisher.identity}"
    else:
        yield "  no identity: it is of an earlier version; `twopc accumulate` gives it one"
    if manifest.segments:
        yield (
            f"  {lsn_text(manifest.first)} → {lsn_text(manifest.position)} without a gap: "
            f"{count(manifest.transactions, 'transaction')}, {count(manifest.commands, 'command')}, "
            f"{count(len(manifest.segments), 'segment')}, {count(result['files'], 'file')}, "
            f"{size(result['bytes'])}"
        )
    else:
        yield f"  nothing yet after {lsn_text(manifest.first)}"
    for article in result["articles"]:
        yield "  " + _article(article)
    operations = ", ".join(f"{name} {count:,}" for name, count in result["operations"].items())
    origins = ", ".join(f"{name} {count:,}" for name, count in result["originators"].items())
    if manifest.segments:
        yield f"  articles: {operations} · originators: {origins or 'none'}"
    for each in manifest.histories:
        yield f"  history: {each.run} ({count(each.records, 'record')})"
    if segments:
        for number, segment in enumerate(manifest.segments, 1):
            yield (
                f"  segment {number}: {segment}, {count(segment.transactions, 'transaction')}, "
                f"{count(segment.commands, 'command')}, {size(segment.bytes)}, {segment.how} {segment.at}"
            )
    strays = result["strays"]
    if strays:
        text = f"  {count(len(strays), 'file')} {'is' if len(strays) == 1 else 'are'} not in the manifest"
        yield f"{text} and not read: {', '.join(strays[:3])}{' …' if len(strays) > 3 else ''}"
    for note in manifest.notes[-3:]:
        yield f"  {note['at']}: {note['what']}"


def _article(article: dict[str, Any]) -> str:
    based = f"base of {count(article['base_rows'], 'row')} at {article['base_at']}"
    return (
        f"article {article['article_id']} {article['table']}   {count(article['shapes'], 'shape')}   "
        f"columns {' '.join(article['columns'])}   key {' '.join(article['key'])}   "
        f"{based if article['base_at'] else 'no base'}"
    )


def document(archive: Archive) -> dict[str, Any]:
    """Return the description as a document for programs."""
    manifest = archive.manifest
    known = manifest.files()
    return {
        "command": "archive show",
        "archive": str(archive.folder),
        "publisher": manifest.publisher.name,
        "identity": manifest.publisher.identity,
        "range": {"after": manifest.first, "upto": manifest.position},
        "counts": {"transactions": manifest.transactions, "commands": manifest.commands},
        "segments": len(manifest.segments),
        "files": len(known),
        "bytes": sum(each.bytes for each in known),
        "articles": _articles(archive),
        "operations": _operations(archive),
        "originators": _originators(archive),
        "histories": [each.run for each in manifest.histories],
        "strays": [
            path.relative_to(archive.folder).as_posix()
            for path in files.strays(archive.folder, {each.path for each in known})
        ],
    }


def _articles(archive: Archive) -> list[dict[str, Any]]:
    """Return the newest shape of each article."""
    newest = {each["article_id"]: each for each in archive.manifest.articles}
    bases = {each.article_id: each for each in archive.manifest.base}
    results = []
    for number, each in sorted(newest.items()):
        base = bases.get(number)
        results.append(
            {
                "article_id": number,
                "table": each["source_object"],
                "shapes": sum(a["article_id"] == number for a in archive.manifest.articles),
                "columns": each["columns"],
                "key": [each["columns"][place] for place in each["key"]],
                "base_rows": base.rows if base else 0,
                "base_at": lsn_text(base.seqno) if base else "",
            }
        )
    return results


def _tallied(archive: Archive, table: str, column: str) -> dict[Any, int]:
    """Return the number of rows with each value of a column, counted file by file."""
    tally: dict[Any, int] = {}
    for file in archive.manifest.of_table(table):
        read = pq.read_table(archive.folder / file.path, columns=[column])[column]
        for each in pc.value_counts(read).to_pylist():
            tally[each["values"]] = tally.get(each["values"], 0) + each["counts"]
    return tally


def _operations(archive: Archive) -> dict[str, int]:
    tally = _tallied(archive, "commands", "type")
    results = {word: tally.pop(int(kind), 0) for kind, word in _OPERATIONS.items()}
    others = sum(tally.values())
    return {**results, "others": others} if others else results


def _originators(archive: Archive) -> dict[str, int]:
    """Return the number of transactions of each originator."""
    names: dict[Any, str] = {each["id"]: each["srvname"] for each in archive.manifest.originators}
    names[None] = archive.manifest.publisher.name
    tally = _tallied(archive, "transactions", "originator_id")
    return {
        names.get(each, f"originator {each}"): count
        for each, count in sorted(
            tally.items(), key=lambda item: (item[0] is not None, item[0] or 0)
        )
    }
