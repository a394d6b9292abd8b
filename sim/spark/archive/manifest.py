"""The manifest of an archive: its files and their content. Pure.

The manifest is authoritative: a file that it does not name is not part of the archive. A reader ignores unknown
fields in a manifest of its own version.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Self

from twopc.lsn import lsn_text
from twopc.propagation import OPERATIONS
from twopc.sim.spark.errors import ArchiveError, GapError
from twopc.sim.spark.source.facts import Facts, Publisher

#: Changes when a reader of the previous version could misread a manifest.
VERSION = 1
#: Tables of every segment.
TABLES = ("commands", "transactions")
#: The decoded commands, a table that segments of earlier versions lack. The number in its name increases when
#: `decode.decoded` returns another result for the same commands; files of the old name are then no longer read.
DECODED = "decoded_1"


@dataclass(frozen=True, slots=True, kw_only=True)
class File:
    """A Parquet file."""

    path: str
    """Path relative to the archive's folder."""
    rows: int
    bytes: int
    sha256: str
    first: int = 0
    """Lowest sequence number; 0 if rows have none."""
    last: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Segment:
    """The result of one append: all transactions of a range, which may be empty."""

    first: int
    """The sequence number after the end of the previous segment."""
    last: int
    transactions: int
    commands: int
    at: str
    how: str
    """``append`` or ``compact``."""
    files: Mapping[str, tuple[File, ...]]
    """The files, by table."""
    decoded: int = 0
    """Number of rows of the table `DECODED`, if the segment has that table."""

    @property
    def bytes(self) -> int:
        """Total size of its files."""
        return sum(each.bytes for files in self.files.values() for each in files)

    def __str__(self) -> str:
        return f"{lsn_text(self.first)} to {lsn_text(self.last)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ArticleBase:
    """The base of one article, without its rows."""

    article_id: int
    shape: int
    snapshot: str
    """The snapshot at the Publisher as ``xmin:xmax:xip,…``: the base contains the transactions visible in it."""
    seqno: int
    """Position up to which the log had been written before the snapshot was taken."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BaseTable(ArticleBase):
    """The rows of a table as of one snapshot."""

    rows: int
    files: tuple[File, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedHistory:
    """The history of one run."""

    run: str
    files: tuple[File, ...]
    records: int
    sha256: str
    """Checksum of the history file from which it was made."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The content of an archive."""

    publisher: Publisher
    first: int
    """Position after which the archive's range begins."""
    created: str
    id: str = ""
    """Identifier under which clean-up waits for the archive; copies of the folder share it. Empty in archives made
    before
    identifiers were introduced.
    """
    revision: int = 0
    """Number of the manifest's revision."""
    writer: str = ""
    articles: tuple[Mapping[str, Any], ...] = ()
    """`shapes.ARTICLES`: every shape that ever existed; none is removed."""
    originators: tuple[Mapping[str, Any], ...] = ()
    """`shapes.ORIGINATORS`; none is removed."""
    subscriptions: tuple[Mapping[str, Any], ...] = ()
    """`shapes.SUBSCRIPTIONS` in their last state; a dropped subscription has status 0."""
    routines: tuple[Mapping[str, Any], ...] = ()
    """`shapes.ROUTINES`; none is removed, and `writes` contains all tables that were ever declared."""
    base: tuple[BaseTable, ...] = ()
    segments: tuple[Segment, ...] = ()
    histories: tuple[RecordedHistory, ...] = ()
    notes: tuple[Mapping[str, str], ...] = field(default=())

    @property
    def position(self) -> int:
        """Last sequence number in the archive."""
        return self.segments[-1].last if self.segments else self.first

    @property
    def transactions(self) -> int:
        """Number of transactions in all segments."""
        return sum(each.transactions for each in self.segments)

    @property
    def commands(self) -> int:
        """Number of commands in all segments."""
        return sum(each.commands for each in self.segments)

    def files(self) -> list[File]:
        """Return all files of the archive."""
        results = [
            file for each in self.segments for files in each.files.values() for file in files
        ]
        results += [file for each in self.base for file in each.files]
        return results + [file for each in self.histories for file in each.files]

    def of_table(
        self, table: str, *, after: int = -1, upto: int | None = None, lacking: str = ""
    ) -> list[File]:
        """Return a table's files that may contain rows between two positions.

        Args:
            lacking: only files of segments without this table.
        """
        return [
            file
            for segment in self.segments
            if segment.last > after and (upto is None or segment.first <= upto)
            if lacking not in segment.files
            for file in segment.files.get(table, ())
            if file.last > after and (upto is None or file.first <= upto)
        ]

    def knows(self, facts: Facts) -> Self:
        """Return the manifest with a distribution database's current articles, routines, originators and
        subscriptions.
        """
        routines = {each["article_id"]: each for each in self.routines}
        declared = [_ever(routines.get(each["article_id"]), each) for each in facts.routines]
        old = [{**each, "status": 0} for each in self.subscriptions]
        return dataclasses.replace(
            self,
            articles=_latest("article_id", "shape", of=(*self.articles, *facts.articles)),
            originators=_latest("id", of=(*self.originators, *facts.originators)),
            subscriptions=_latest("article_id", "subscriber", of=(*old, *facts.subscriptions)),
            routines=_latest("article_id", of=(*self.routines, *declared)),
        )

    def next(self, **changes: Any) -> Self:
        """Return the next revision of the manifest, with changes."""
        made_by = f"twopc {version('twopc')}"
        return dataclasses.replace(self, revision=self.revision + 1, writer=made_by, **changes)

    # -- JSON -------------------------------------------------------------------------------------

    def text(self) -> str:
        """Return the manifest as text for `parse`."""
        results = {
            "twopc_archive": VERSION,
            "id": self.id,
            "revision": self.revision,
            "writer": self.writer,
            "publisher": dataclasses.asdict(self.publisher),
            "first": self.first,
            "position": self.position,
            "position_text": lsn_text(self.position),
            "created": self.created,
            "counts": {"transactions": self.transactions, "commands": self.commands},
            "articles": [dict(each) for each in self.articles],
            "originators": [dict(each) for each in self.originators],
            "subscriptions": [dict(each) for each in self.subscriptions],
            "routines": [dict(each) for each in self.routines],
            "base": [dataclasses.asdict(each) for each in self.base],
            "segments": [dataclasses.asdict(each) for each in self.segments],
            "histories": [dataclasses.asdict(each) for each in self.histories],
            "notes": [dict(each) for each in self.notes],
        }
        return json.dumps(results, ensure_ascii=False, indent=1) + "\n"

    @classmethod
    def parse(cls, text: str, where: str) -> Self:
        """Return the manifest in a text, after a check of its consistency.

        Args:
            where: its path, for messages.

        Raises:
            ArchiveError: the text is no manifest, is of another version, or contradicts itself.
            GapError: sequence numbers are missing between two segments.
        """
        try:
            result = json.loads(text)
            if not isinstance(result, dict) or not isinstance(result.get("twopc_archive"), int):
                raise ValueError("it has no field twopc_archive")
            if result["twopc_archive"] != VERSION:
                raise ArchiveError(
                    f"{where}: version {result['twopc_archive']}; this program reads {VERSION}"
                )
            made = cls(
                publisher=_made(Publisher, result["publisher"]),
                first=int(result["first"]),
                created=str(result["created"]),
                id=str(result.get("id", "")),
                revision=int(result["revision"]),
                writer=str(result.get("writer", "")),
                articles=tuple(_article(each) for each in result["articles"]),
                originators=tuple(result.get("originators", ())),
                subscriptions=tuple(result.get("subscriptions", ())),
                routines=tuple(result.get("routines", ())),
                base=tuple(_with_files(BaseTable, each) for each in result["base"]),
                segments=tuple(_segment(each) for each in result["segments"]),
                histories=tuple(_with_files(RecordedHistory, each) for each in result["histories"]),
                notes=tuple(result.get("notes", ())),
            )
            counts, position = result["counts"], int(result["position"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            reason = f"no field {error}" if isinstance(error, KeyError) else str(error)
            raise ArchiveError(f"{where}: not a manifest of an archive: {reason}") from error
        made._check(where, counts, position)
        return made

    def _check(self, where: str, counts: Mapping[str, int], position: int) -> None:
        """Raise an error if the manifest contradicts itself."""
        end = self.first
        for number, segment in enumerate(self.segments, 1):
            if segment.first > end + 1:
                between = (
                    f"between segments {number - 1} and {number}"
                    if number > 1
                    else "before segment 1"
                )
                raise GapError(
                    f"{where}: sequence numbers {lsn_text(end + 1)} to {lsn_text(segment.first - 1)} are "
                    f"missing {between}: the manifest was edited, or is of another archive",
                    after=end,
                    upto=segment.first,
                    where=where,
                )
            if segment.first <= end or segment.last < segment.first:
                raise ArchiveError(
                    f"{where}: segment {number} ({segment}) does not follow {lsn_text(end)}: the manifest "
                    "was edited"
                )
            end = segment.last
            _agree(where, number, segment)
        _apart(where, self.segments)
        results = {"transactions": self.transactions, "commands": self.commands}
        if position != end or any(counts.get(name) != count for name, count in results.items()):
            raise ArchiveError(
                f"{where}: position and counts are not those of its segments, which have "
                f"{self.transactions} transactions, {self.commands} commands up to {lsn_text(end)}: the "
                "manifest was edited"
            )


def _latest(*key: str, of: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Return the last row of each key, in the order of keys."""
    rows = {tuple(each[name] for name in key): each for each in of}
    return tuple(rows[key] for key in sorted(rows))


def _ever(known: Mapping[str, Any] | None, now: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return a routine with all tables that its earlier definitions declared."""
    if known is None or known["writes"] == now["writes"]:
        return now
    if known["writes"] is None or now["writes"] is None:
        return {**now, "writes": None}
    return {**now, "writes": sorted({*known["writes"], *now["writes"]})}


def _made(kind: Any, result: Mapping[str, Any]) -> Any:
    """Return a dataclass made from the fields that it knows."""
    known = {each.name for each in dataclasses.fields(kind)}
    return kind(**{name: value for name, value in result.items() if name in known})


def _article(result: Mapping[str, Any]) -> Mapping[str, Any]:
    """Check that commands can be read by a shape, and return the shape."""
    name = f"shape {result['shape']} of article {result['article_id']}"
    for operation in OPERATIONS:
        if not isinstance(result[operation], str):
            raise ValueError(f"{name} has no format of {operation}")
    columns = result["columns"]
    if len(set(columns)) < len(columns) or not all(0 <= e < len(columns) for e in result["key"]):
        raise ValueError(f"{name} has a column twice, or a key that is none of its columns")
    return result


def _files(result: Iterable[Mapping[str, Any]]) -> tuple[File, ...]:
    return tuple(_made(File, each) for each in result)


def _with_files(kind: Any, result: Mapping[str, Any]) -> Any:
    return _made(kind, {**result, "files": _files(result["files"])})


def _segment(result: Mapping[str, Any]) -> Segment:
    files = {table: _files(each) for table, each in result["files"].items()}
    # a program that does not know the table keeps its files but omits the count
    decoded = sum(each.rows for each in files.get(DECODED, ()))
    made: Segment = _made(Segment, {"decoded": decoded, **result, "files": files})
    return made


def _agree(where: str, number: int, segment: Segment) -> None:
    """Check that a segment's files have the number of rows that the segment states, within its range."""
    counts = {"commands": segment.commands, "transactions": segment.transactions}
    if DECODED in segment.files:
        counts[DECODED] = segment.decoded
    for table, count in counts.items():
        files = segment.files.get(table, ())
        if sum(each.rows for each in files) != count:
            raise ArchiveError(
                f"{where}: segment {number} ({segment}) has {count} {table}, and its files "
                f"{sum(each.rows for each in files)}: the manifest was edited"
            )
    for each in itertools.chain.from_iterable(segment.files.values()):
        if not segment.first <= each.first <= each.last <= segment.last:
            raise ArchiveError(
                f"{where}: {each.path} has {lsn_text(each.first)} to {lsn_text(each.last)}, outside of "
                f"its segment {segment}"
            )


def _apart(where: str, segments: Iterable[Segment]) -> None:
    """Check that no sequence number is in two files of a table, and that no file is named twice."""
    for table in (*TABLES, DECODED):
        files = [file for each in segments for file in each.files.get(table, ())]
        files.sort(key=lambda each: (each.first, each.last))
        for one, other in itertools.pairwise(files):
            if other.first <= one.last:
                raise ArchiveError(
                    f"{where}: {lsn_text(other.first)} to {lsn_text(min(one.last, other.last))} is in two "
                    f"files: {one.path} and {other.path}"
                )
