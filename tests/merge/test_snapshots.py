"""Snapshots in files: agents and deliveries that are interrupted while the Publisher is written."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.fix_merge import converge, cut_off
from tests.merge.snapshots import DATA_FILES, FILES, PART_BYTES, change, kill
from twopc.errors import MergeError
from twopc.merge.ladder import InitialisationMethod
from twopc.sim.merge import MergeTopology

_DELIVERED = "select count(*) from msrepl.mssnapshotdeliveryprogress"


async def test_an_agent_that_is_cut_off_after_every_file(
    shop: MergeTopology, tmp_path: Path
) -> None:
    """An agent continues at the next file if nothing was changed since.

    No file counts before all of them are written.
    """
    for number in range(1, FILES + 1):
        with cut_off(shop, "merge_snapshot.file_written"):
            await shop.snapshot(tmp_path, part_bytes=PART_BYTES)
        [folder] = (tmp_path / "unc").iterdir()
        assert not (folder / "manifest.json").exists(), number
    report = await shop.snapshot(tmp_path, part_bytes=PART_BYTES, jobs=3)
    assert (report.files, report.kept) == (0, FILES)
    assert report.rows == 299 + 50
    assert (await shop.subscribe("anna")).location == str(folder)
    await shop.assert_converged()


async def test_an_agent_that_is_killed_in_every_file(shop: MergeTopology, tmp_path: Path) -> None:
    """An agent killed in any file of rows or metadata writes each file whole in the end.

    A file that was whole is not written again.
    """
    written: dict[str, int] = {}
    for number in range(DATA_FILES):
        kill(shop, "merge_snapshot.file_begun", "snapshot", tmp_path, min(number + 1, 2))
        [folder] = (tmp_path / "unc").iterdir()
        assert len([*folder.glob("*.tmp")]) == 1
        whole = {
            path.name: path.stat().st_ino
            for path in (*folder.glob("*.bcp"), *folder.glob("*.sys"))
            if path.stat().st_size
        }
        assert len(whole) == number
        assert whole.items() >= written.items()
        written = whole
    await shop.snapshot(tmp_path, part_bytes=PART_BYTES)
    assert not [*folder.glob("*.tmp")]
    assert all((folder / name).stat().st_ino == inode for name, inode in written.items())
    await shop.subscribe("anna")
    await shop.assert_converged()


async def test_an_agent_that_was_killed_in_a_file(shop: MergeTopology, tmp_path: Path) -> None:
    """A partial file is discarded; changed and moved rows belong to the next snapshot."""
    kill(shop, "merge_snapshot.file_begun", "snapshot", tmp_path)
    [folder] = (tmp_path / "unc").iterdir()
    [half] = folder.glob("*.tmp")
    first = await shop.snapshot(tmp_path, part_bytes=PART_BYTES)
    assert first.kept >= 10
    assert not half.exists()
    kept = {path.name for path in folder.iterdir()}

    await change(shop, 1)
    with cut_off(shop, "merge_snapshot.file_written", nth=3):
        await shop.snapshot(tmp_path, part_bytes=PART_BYTES)
    await shop.subscribe("ben")  # the earlier manifest is still valid
    await shop.execute("pub", "vacuum full customer")
    second = await shop.snapshot(tmp_path, part_bytes=PART_BYTES)
    assert second.generation == (first.generation or 0) + 1
    assert kept - {path.name for path in folder.iterdir()}
    report = await shop.subscribe("anna")
    assert report.kept == 0
    await converge(shop)


async def test_a_delivery_that_is_cut_off_at_every_file(
    shop: MergeTopology, tmp_path: Path
) -> None:
    """A delivery interrupted in or after any file does not load a whole file again.

    No change made in the meantime is missed.
    """
    await shop.snapshot(tmp_path, part_bytes=PART_BYTES)

    async def end_backend(_: str) -> None:
        pid = (await shop.admin("anna")).info.backend_pid
        await shop.execute("pub", "select pg_terminate_backend(%s)", (pid,))

    ended = 0
    for number in range(FILES):
        await change(shop, number + 1)
        shop.points.arm("merge_delivery.file_begun(anna)", end_backend)
        try:
            with cut_off(shop, "merge_delivery.file_loaded(anna)"):
                await shop.subscribe("anna")
        except MergeError as error:  # during the file
            assert "goes on at the next file" in str(error)
            ended += 1
            assert await shop.execute("anna", _DELIVERED) == [(number,)]
            with cut_off(shop, "merge_delivery.file_loaded(anna)"):
                await shop.subscribe("anna")
        assert await shop.execute("anna", _DELIVERED) == [(number + 1,)]
        if number in range(4, 10):
            for statement in ("delete from customer", "truncate purchase, customer"):
                with pytest.raises(psycopg.Error, match="20092"):
                    await shop.execute("anna", statement)
    assert ended >= 4  # parts of rows, and the metadata of customers
    shop.points.disarm()
    report = await shop.subscribe("anna")
    assert (report.files, report.kept) == (0, FILES)
    await check_goes_on(shop, "anna")


async def check_goes_on(topology: MergeTopology, name: str) -> None:
    """Assert that changes merge as if the Subscriber had been there from the beginning."""
    await topology.execute(name, "update customer set phone = 'new' where id = 3")
    report = await topology.sync(name)
    assert (report.uploaded, report.conflicts) == (1, 0)
    assert report.downloaded == 3 * FILES
    await converge(topology)
    assert await topology.check() == []
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        await topology.execute(name, "insert into purchase values (5000, 5000)")
    with pytest.raises(psycopg.errors.UniqueViolation):
        await topology.execute(name, "insert into customer values (5000, 'new', 1)")
    with pytest.raises(psycopg.errors.CheckViolation):
        await topology.execute(name, "update customer set credit = -1 where id = 3")


async def test_a_delivery_that_was_killed_at_its_end(shop: MergeTopology, tmp_path: Path) -> None:
    """If the Publisher alone knows that a delivery is complete, the next call completes it.

    `unsubscribe` takes it back.
    """
    await shop.snapshot(tmp_path, part_bytes=PART_BYTES)
    for end in ("unsubscribe", "subscribe"):
        kill(shop, "merge_delivery.activated(anna)", "subscribe", "anna")
        assert await shop.subscribed() == ["anna"]
        await change(shop, 1 if end == "subscribe" else 2)
        if end == "unsubscribe":
            await shop.unsubscribe("anna")
            assert await shop.subscribed() == []
            assert not await shop.merges("anna")
            tables = (
                "select relname::text from pg_class where relnamespace = 'public'::regnamespace"
            )
            assert await shop.execute("anna", tables) == []
    report = await shop.subscribe("anna", kind="server", priority=5)
    assert (report.method, report.kept) == (InitialisationMethod.APPLY, FILES)
    assert (await shop.sync("anna")).downloaded == 6
    await shop.assert_converged()


async def test_another_snapshot_begins_anew(shop: MergeTopology, tmp_path: Path) -> None:
    """Rows of an earlier snapshot are removed, also if no other snapshot follows."""
    await shop.snapshot(tmp_path, part_bytes=PART_BYTES)
    with cut_off(shop, "merge_delivery.file_loaded(anna)", nth=9):
        await shop.subscribe("anna")
    await change(shop, 1)
    await shop.snapshot(tmp_path, part_bytes=PART_BYTES)
    with cut_off(shop, "merge_delivery.file_loaded(anna)", nth=12):
        await shop.subscribe("anna")
    await shop.execute("pub", "delete from msrepl.msmerge_dynamic_snapshots")
    report = await shop.subscribe("anna")
    assert (report.method, report.files) == (InitialisationMethod.SELECT, 0)
    await shop.assert_converged()
