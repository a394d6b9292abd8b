"""The archive: all distributed transactions and commands, as Parquet files and one manifest."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from twopc.sim.spark import shapes
from twopc.sim.spark.archive import files
from twopc.sim.spark.archive.calls import calls
from twopc.sim.spark.archive.manifest import DECODED, File, Manifest
from twopc.sim.spark.decode import decoded
from twopc.sim.spark.errors import ArchiveError, PipelineError
from twopc.sim.spark.source.facts import Publisher

__all__ = ["BASE", "Archive", "now", "writer"]

#: What `Archive.base` returns.
BASE = StructType([*shapes.ROWS.fields, *shapes.shape("shape int, snapshot string, seqno bigint")])


def now() -> str:
    """Return the current time in the format of a manifest."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


@dataclass(frozen=True, slots=True)
class Archive:
    """An archive, with its manifest as of the time when it was opened."""

    folder: Path
    manifest: Manifest

    @classmethod
    def open(cls, path: str | Path, *, verify: bool = False) -> Self:
        """Open the archive in a folder.

        Args:
            verify: read every file and compare its checksum with that in the manifest.

        Raises:
            ArchiveError: the folder has no archive, or its files are not those of its manifest.
            GapError: sequence numbers are missing between two segments.
        """
        folder = files.folder_of(path)
        where = folder / files.MANIFEST
        text = _text(where)
        while True:
            made = cls(folder, Manifest.parse(text, str(where)))
            try:
                for each in made.manifest.files():
                    made.check(each, verify=verify)
            except ArchiveError:
                before, text = text, _text(where)
                if text == before:
                    raise
                continue  # the archive was compacted meanwhile, which removes files
            return made

    @classmethod
    def create(cls, path: str | Path, publisher: Publisher, *, first: int = 0) -> Self:
        """Create an archive whose range begins after `first`; the folder may exist, if it holds nothing but what an
        archive whose creation was interrupted has left.

        Raises:
            ArchiveError: the folder is not empty.
            PipelineError: the folder cannot be written.
        """
        folder = files.folder_of(path)
        known = {
            files.LOCK,
            files.MANIFEST,
            files.FRESH,
            "staging",
            "writer.json",
            "stream",
            "data",
        }
        if folder.exists() and (not folder.is_dir() or {e.name for e in folder.iterdir()} - known):
            raise ArchiveError(f"{folder}: something else is there: choose a new folder")
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise PipelineError(f"{folder} cannot be written: {error.strerror}") from error
        with files.locked(folder):
            if (folder / files.MANIFEST).exists():
                raise ArchiveError(f"{folder}: an archive is there already")
            made = cls(
                folder,
                Manifest(publisher=publisher, first=first, created=now(), id=files.fresh_id()),
            )
            return made.replaced(made.manifest.next())

    @property
    def name(self) -> str:
        """The folder's name."""
        return self.folder.name

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Explain why a read in the block has failed, if it was because the archive was compacted meanwhile.

        Raises:
            ArchiveError: files that the block was to read were removed.
        """
        try:
            yield
        except (PipelineError, FileNotFoundError) as error:
            where = self.folder / files.MANIFEST
            result = Manifest.parse(_text(where), str(where)).revision
            kept = all((self.folder / each.path).exists() for each in self.manifest.files())
            if kept or result == self.manifest.revision:
                raise
            raise ArchiveError(
                f"{self.name} was compacted while it was read: files of its revision {self.manifest.revision} were "
                f"removed, it is at {result} now; run the command again"
            ) from error

    def is_newest(self) -> None:
        """Check that the archive has not changed since it was opened: a writer must know its latest revision.

        Raises:
            ArchiveError: the archive has changed.
        """
        where = self.folder / files.MANIFEST
        result = 0
        if where.exists():
            text = where.read_text(encoding="utf-8")
            result = Manifest.parse(text, str(where)).revision
        if result != self.manifest.revision:
            raise ArchiveError(
                f"{self.name} is at revision {result}, and what is to be written was made of revision "
                f"{self.manifest.revision}: nothing was written; use the archive that `writer` hands out"
            )

    def replaced(self, manifest: Manifest) -> Self:
        """Make another manifest durable and return the archive with it. Only the writer may call this.

        Raises:
            ArchiveError: the archive has changed since it was opened.
        """
        self.is_newest()
        files.replace_manifest(self.folder, manifest.text())
        files.commit_manifest(self.folder)
        return dataclasses.replace(self, manifest=manifest)

    def check(self, file: File, *, verify: bool) -> None:
        """Check that a file is unchanged, by its size or, with `verify`, by its checksum too.

        Raises:
            ArchiveError: the file is missing or has changed.
        """
        path = self.folder / file.path
        try:
            size = path.stat().st_size
            changed = verify and size == file.bytes and files.digest(path) != file.sha256
        except FileNotFoundError as error:
            raise ArchiveError(
                f"{path} is missing: restore it, or {self._rebuild(file)}"
            ) from error
        except OSError as error:
            raise ArchiveError(f"{path} cannot be read: {error.strerror}") from error
        if size != file.bytes:
            raise ArchiveError(
                f"{path} has {size:,} bytes and should have {file.bytes:,}: restore it, or "
                f"{self._rebuild(file)}"
            )
        if changed:
            raise ArchiveError(
                f"{path} is not what was written (sha256): restore it, or {self._rebuild(file)}"
            )

    def _rebuild(self, file: File) -> str:
        for segment in self.manifest.segments:
            if any(file in each for each in segment.files.values()):
                return f"rebuild the segment {segment}"
        return "take it from a copy of the archive"

    # -- frames -----------------------------------------------------------------------------------

    def commands(
        self, spark: SparkSession, *, after: int = -1, upto: int | None = None
    ) -> DataFrame:
        """Return `shapes.COMMANDS` between two positions."""
        of_range = self.manifest.of_table("commands", after=after, upto=upto)
        return self._between(spark, of_range, shapes.COMMANDS, after, upto)

    def decoded(
        self, spark: SparkSession, *, after: int = -1, upto: int | None = None
    ) -> DataFrame:
        """Return `shapes.DECODED` between two positions: as stored with the commands, or else decoded from them."""
        of_range = self.manifest.of_table(DECODED, after=after, upto=upto)
        stored = self._between(spark, of_range, shapes.DECODED, after, upto)
        left = self.manifest.of_table("commands", after=after, upto=upto, lacking=DECODED)
        if not left:
            return stored
        commands = self._between(spark, left, shapes.COMMANDS, after, upto)
        made = decoded(commands, self.manifest.articles)
        return stored.unionByName(made) if of_range else made

    def transactions(
        self, spark: SparkSession, *, after: int = -1, upto: int | None = None
    ) -> DataFrame:
        """Return `shapes.TRANSACTIONS` between two positions."""
        of_range = self.manifest.of_table("transactions", after=after, upto=upto)
        return self._between(spark, of_range, shapes.TRANSACTIONS, after, upto)

    def articles(self, spark: SparkSession) -> DataFrame:
        """Return `shapes.ARTICLES`, all shapes."""
        return self._small(spark, self.manifest.articles, shapes.ARTICLES)

    def originators(self, spark: SparkSession) -> DataFrame:
        """Return `shapes.ORIGINATORS`, dropped ones included."""
        return self._small(spark, self.manifest.originators, shapes.ORIGINATORS)

    def subscriptions(self, spark: SparkSession) -> DataFrame:
        """Return `shapes.SUBSCRIPTIONS` in their last state."""
        return self._small(spark, self.manifest.subscriptions, shapes.SUBSCRIPTIONS)

    def base(self, spark: SparkSession) -> DataFrame:
        """Return `BASE`: `shapes.ROWS` in the base's own shape, with shape, snapshot and position.

        The base of an empty table has no row here; `Manifest.base` shows that it exists.
        """
        return self._read(spark, [f for each in self.manifest.base for f in each.files], BASE)

    def history(self, spark: SparkSession, *, run: str | None = None) -> DataFrame:
        """Return `shapes.HISTORY` of one run, or of all."""
        results = [each for each in self.manifest.histories if run is None or each.run == run]
        if run is not None and not results:
            known = ", ".join(each.run for each in self.manifest.histories) or "none"
            raise ArchiveError(f"{self.name} has no run {run!r}; runs are {known}")
        return self._read(spark, [f for each in results for f in each.files], shapes.HISTORY)

    def calls(self, spark: SparkSession, *, run: str | None = None) -> DataFrame:
        """Return `shapes.CALLS` of the loads and orders of one run, or of all."""
        return calls(self.history(spark, run=run))

    def _between(
        self,
        spark: SparkSession,
        result: Sequence[File],
        shape: StructType,
        after: int,
        upto: int | None,
    ) -> DataFrame:
        frame = self._read(spark, result, shape)
        if any(each.first <= after for each in result):
            frame = frame.where(f"seqno > {after}")
        if upto is not None and any(each.last > upto for each in result):
            frame = frame.where(f"seqno <= {upto}")
        return frame

    def _read(self, spark: SparkSession, result: Sequence[File], shape: StructType) -> DataFrame:
        if not result:
            return shapes.frame(spark, [], shape)
        return files.read(spark, [self.folder / each.path for each in result], shape)

    def _small(self, spark: SparkSession, rows: Sequence[Any], shape: StructType) -> DataFrame:
        return shapes.frame(
            spark, [tuple(each[name] for name in shape.names) for each in rows], shape
        )


def _text(where: Path) -> str:
    """Return the text of a manifest.

    Raises:
        ArchiveError: there is none, or it cannot be read.
    """
    try:
        return where.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        raise ArchiveError(
            f"{where}: not a manifest of an archive: it is not there; twopc accumulate makes one"
        ) from error
    except (OSError, ValueError) as error:
        raise ArchiveError(f"{where}: not a manifest of an archive: {error}") from error


@contextmanager
def writer(archive: Archive) -> Iterator[Archive]:
    """Lock the archive for writing within the block, and yield it in its latest revision.

    Files left behind by terminated writers are removed first.

    Raises:
        ArchiveBusyError: another process is writing the archive.
    """
    with files.locked(archive.folder):
        held = type(archive).open(archive.folder)
        files.sweep(held.folder, {each.path for each in held.manifest.files()})
        yield held
