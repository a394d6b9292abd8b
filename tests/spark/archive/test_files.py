"""Tests of an archive's files: damaged ones, files outside the manifest, and killed writers."""

from __future__ import annotations

import dataclasses
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark.archive.made import PUBLISHER, archive, content, facts, stage
from twopc.drivers.points import ARCHIVE_POINTS
from twopc.sim.spark.archive import Archive, writer
from twopc.sim.spark.archive.append import add
from twopc.sim.spark.archive.files import folder_of, locked, sweep
from twopc.sim.spark.archive.manifest import File
from twopc.sim.spark.archive.show import lines
from twopc.sim.spark.errors import ArchiveBusyError, ArchiveError, PipelineError

ROOT = Path(__file__).parents[3]


def files(made: Archive) -> list[Path]:
    """Return the files with commands."""
    return [made.folder / each.path for each in made.manifest.of_table("commands")]


def run(folder: Path, *seqnos: int, arm: str = "") -> int:
    """Append in a separate process; return its exit code."""
    return subprocess.run(
        [sys.executable, "-m", "tests.spark.archive.dying", folder, *map(str, seqnos)],
        cwd=ROOT,
        env={**os.environ, "TWOPC_ARM": arm},
        timeout=120,
    ).returncode


def test_killed_at_any_point(tmp_path: Path) -> None:
    """After a kill at any point the archive is complete, and the next writer repairs it.

    The next writer removes leftover files, and no row is there twice.
    """
    undisturbed = content(archive(tmp_path / "undisturbed", [3, 5], [8, 9, 12]))
    for number, point in enumerate(ARCHIVE_POINTS):
        made = archive(tmp_path / str(number), [3, 5])
        assert run(made.folder, 3, 5, 8, 9, 12, arm=f"{point}=kill") == -signal.SIGKILL
        found = Archive.open(made.folder, verify=True)
        replaced = point == "archive.manifest_replaced"
        assert found.manifest.position == (12 if replaced else 5)
        assert found.manifest.commands == (10 if replaced else 4)
        assert run(made.folder, 3, 5, 8, 9, 12) == 0
        found = Archive.open(made.folder, verify=True)
        assert content(found) == undisturbed, point
        assert not (made.folder / "staging").exists() or not list(
            (made.folder / "staging").iterdir()
        )
        assert not any("not in the manifest" in line for line in lines(found))


def test_one_writer(tmp_path: Path) -> None:
    """A second writer is refused, and gets the first one's process; the lock ends with the process."""
    made = archive(tmp_path / "a", [1])
    by = rf"process {os.getpid()} on "
    with (
        writer(made),
        pytest.raises(ArchiveBusyError, match=by) as caught,
        locked(made.folder),
    ):
        pass
    assert caught.value.pid == os.getpid()
    with writer(made) as held:
        assert held.manifest == made.manifest


def test_what_was_opened_before_somebody_wrote(tmp_path: Path) -> None:
    """Nothing is appended to an outdated revision, because that would lose later segments."""
    old = archive(tmp_path / "a", [1])
    with writer(old) as held:
        new = add(held, stage(held.folder, [4]), upto=4, facts=facts())
    with pytest.raises(
        ArchiveError, match=r"a is at revision 3, and .* made of revision 2: nothing"
    ):
        add(old, stage(old.folder, [4]), upto=4, facts=facts())
    with pytest.raises(ArchiveError, match="use the archive that `writer` hands out"):
        old.replaced(old.manifest.next())
    assert Archive.open(old.folder).manifest == new.manifest


@pytest.mark.parametrize("replaced", [False, True])
def test_the_lock_is_lost_while_writing(tmp_path: Path, replaced: bool) -> None:
    """Nothing becomes part of an archive whose lock another process can take: it removes files as leftovers."""
    made = archive(tmp_path / "a", [1])
    with (
        pytest.raises(ArchiveError, match=r"a: the folder or its writer\.lock was moved, removed"),
        writer(made) as held,
    ):
        staging = stage(held.folder, [4])
        if replaced:
            shutil.copytree(made.folder, tmp_path / "copy")
            made.folder.rename(tmp_path / "moved")
            (tmp_path / "copy").rename(made.folder)
        else:
            (made.folder / "writer.lock").unlink()
        add(held, staging, upto=4, facts=facts())
    assert Archive.open(made.folder).manifest == made.manifest
    with (
        pytest.raises(ArchiveError, match="nothing was added since; leave the folder in place"),
        writer(made) as held,
    ):
        staging = stage(held.folder, [4])
        (made.folder / "writer.lock").unlink()
        with writer(made):  # it removes the staging folder
            assert not staging.exists()
        add(held, staging, upto=4, facts=facts())
    assert Archive.open(made.folder).manifest == made.manifest


def test_a_failed_append_leaves_no_files(tmp_path: Path) -> None:
    """Staged files of an append that has failed are removed at once: the disk may be full."""
    made = archive(tmp_path / "a", [1])
    with pytest.raises(ArchiveError, match="nothing was added"), writer(made) as held:
        add(held, stage(held.folder, [4, 6], said=3), upto=6, facts=facts())
    assert sorted(each.name for each in made.folder.iterdir()) == [
        "data",
        "manifest.json",
        "writer.lock",
    ]


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    """A writer names the folder and the reason, which are not a fault of the program."""
    made = archive(tmp_path / "a", [1])
    (made.folder / "writer.lock").unlink()
    (made.folder / "writer.lock").mkdir()
    with pytest.raises(PipelineError, match="a cannot be written: Is a directory"), writer(made):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="b cannot be written: Not a directory"):
        Archive.create(tmp_path / "file" / "b", PUBLISHER)


def as_compacted(made: Archive) -> Archive:
    """Replace every file by another with the same content, and remove the old ones, as a compaction does."""

    def renamed(file: File) -> File:
        other = file.path.replace("part-", "compacted-")
        shutil.copy(made.folder / file.path, made.folder / other)
        return dataclasses.replace(file, path=other)

    with writer(made) as held:
        segments = [
            dataclasses.replace(
                each,
                files={table: tuple(map(renamed, found)) for table, found in each.files.items()},
            )
            for each in made.manifest.segments
        ]
        compacted = held.replaced(held.manifest.next(segments=tuple(segments)))
        sweep(made.folder, {each.path for each in compacted.manifest.files()})
    return compacted


def test_compacted_while_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader whose files a compaction removes opens the new revision, or says that the archive is undamaged."""
    made = archive(tmp_path / "a", [1, 2], [7])
    compacted = as_compacted(made)
    text = (
        r"a was compacted while it was read: files of its revision 3 were removed, it is at 4 now"
    )
    with pytest.raises(ArchiveError, match=text), made.reading():
        list(lines(made))
    with pytest.raises(ZeroDivisionError), made.reading():
        raise ZeroDivisionError
    with pytest.raises(ArchiveError, match="of another"), compacted.reading():
        raise ArchiveError("of another")
    check = Archive.check
    again: list[None] = []

    def slow(self: Archive, file: File, *, verify: bool) -> None:
        if not again:
            again.append(None)
            as_compacted(other)
        check(self, file, verify=verify)

    other = archive(tmp_path / "b", [1, 2], [7])
    monkeypatch.setattr(Archive, "check", slow)
    assert Archive.open(other.folder, verify=True).manifest.revision == 4


def test_commands_and_transactions_belong_together(tmp_path: Path) -> None:
    """A segment whose commands do not match its transactions is not appended."""
    made = archive(tmp_path / "a", [1])
    staging = stage(made.folder, [4, 6], said=3)
    with pytest.raises(
        ArchiveError, match=r"0/2 to 0/6 has 4 commands, and its 2 transactions say 6"
    ):
        add(made, staging, upto=6, facts=facts())
    assert Archive.open(made.folder).manifest == made.manifest


def test_spoilt_files(tmp_path: Path) -> None:
    """Truncated, missing or changed files are named, with what to do."""
    made = archive(tmp_path / "a", [1, 2], [7])
    path = files(made)[1]
    whole = path.read_bytes()
    path.write_bytes(whole[:-10])
    size = f"{len(whole) - 10:,} bytes and should have {len(whole):,}"
    with pytest.raises(
        ArchiveError, match=rf"{size}: restore it, or rebuild the segment 0/3 to 0/7"
    ):
        Archive.open(made.folder)
    path.write_bytes(whole[:20] + bytes([whole[20] ^ 1]) + whole[21:])
    assert Archive.open(made.folder).manifest == made.manifest
    with pytest.raises(ArchiveError, match=r"is not what was written \(sha256\)"):
        Archive.open(made.folder, verify=True)
    path.unlink()
    with pytest.raises(ArchiveError, match="is missing: restore it"):
        Archive.open(made.folder)


def test_a_copied_file_does_not_exist(tmp_path: Path) -> None:
    """A file that is not in the manifest is shown, but not read, and the next writer removes it."""
    made = archive(tmp_path / "a", [1, 2])
    copy = files(made)[0].with_name("copy.parquet")
    shutil.copy(files(made)[0], copy)
    found = Archive.open(made.folder)
    assert len(content(found)["commands"]) == 4
    assert any("1 file is not in the manifest and not read: data/" in each for each in lines(found))
    with writer(found):
        assert not copy.exists()


def test_show(tmp_path: Path) -> None:
    """`show` describes the content, by the manifest and the counted columns."""
    made = archive(tmp_path / "a", [1, 2], [7])
    said = "\n".join(lines(made, segments=True))
    assert "archive of pub (pub_db), revision 3" in said
    assert "0/0 → 0/7 without a gap: 3 transactions, 6 commands, 2 segments, 4 files, " in said
    assert "article 1 account   1 shape   columns id balance   key id   no base" in said
    assert "articles: inserts 6, updates 0, deletes 0 · originators: pub 1, north 2" in said
    assert "segment 2: 0/3 to 0/7, 1 transaction, 2 commands, " in said


def test_where_an_archive_can_be(tmp_path: Path) -> None:
    """An archive needs its own folder, in a file system."""
    assert folder_of(f"file://{tmp_path}") == tmp_path
    with pytest.raises(PipelineError, match="s3a cannot put a manifest in place of another"):
        folder_of("s3a://bucket/archive")
    with pytest.raises(ArchiveError, match="it is not there; twopc accumulate makes one"):
        Archive.open(tmp_path)
    (tmp_path / "manifest.json.new").touch()  # left by a killed creator
    Archive.create(tmp_path, PUBLISHER)
    (tmp_path / "thesis.tex").touch()
    with pytest.raises(ArchiveError, match="something else is there"):
        Archive.create(tmp_path, PUBLISHER)
