"""Damaged and outdated snapshots in files are refused with a remedy, and nothing is lost."""

from __future__ import annotations

import hashlib
import json
import re
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.merge.snapshots import FILES, PART_BYTES, change, one
from twopc.errors import ConfigurationError, MergeError, SubscriptionError
from twopc.sim.merge import MergeTopology


def files_of(folder: Path, pattern: str) -> list[Path]:
    """Return the files below a folder that match a pattern."""
    return [*folder.rglob(pattern)]


def edit(folder: Path, change_it: Callable[[dict[str, Any]], None]) -> None:
    """Change the manifest."""
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text(encoding="utf-8"))
    change_it(manifest)
    path.write_text(json.dumps(manifest), encoding="utf-8")


def cut_short(path: Path) -> None:
    """Leave half of a file."""
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def flip(path: Path) -> None:
    """Change a byte of a file."""
    text = bytearray(path.read_bytes())
    text[len(text) // 2] ^= 1
    path.write_bytes(text)


def inject(folder: Path) -> None:
    """Put SQL into the description of a table, and its digest into the manifest."""
    path = one(folder, "*.sch")
    table = json.loads(path.read_text(encoding="utf-8"))
    table["columns"][1]["type"] = "text); create table public.owned (id int); --"
    path.write_text(json.dumps(table), encoding="utf-8")
    vouch(folder, path)


def forge(folder: Path) -> None:
    """Put other rows into a snapshot, and their digest into the manifest."""
    path = one(folder, "*_0002.bcp")
    path.write_bytes(path.read_bytes().replace(b"\t10\t", b"\t99\t"))
    vouch(folder, path)


def vouch(folder: Path, path: Path) -> None:
    """Put the digest of a file into the manifest."""
    text = path.read_bytes()

    def note(manifest: dict[str, Any]) -> None:
        [file] = [each for each in manifest["files"] if each["name"] == path.name]
        file |= {"size_bytes": len(text), "sha256": hashlib.sha256(text).hexdigest()}

    edit(folder, note)


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "data cut short": (lambda f: cut_short(one(f, "*_0002.bcp")), r"_0002\.bcp was cut short"),
    "data missing": (lambda f: one(f, "*_0002.bcp").unlink(), r"_0002\.bcp is missing: put it back"),
    "a table's description altered": (lambda f: flip(one(f, "*.sch")), r"customer\.sch was altered"),
    "SQL in it": (inject, "table customer was altered since, or taken back, or its file was"),
    "other rows": (forge, "its manifest is none that pub has recorded"),
    "manifest cut short": (lambda f: cut_short(f / "manifest.json"), "manifest.json is not what"),
    "manifest empty": (lambda f: (f / "manifest.json").write_text("{}", encoding="utf-8"), "manifest.json is not what"),
    "no manifest": (lambda f: (f / "manifest.json").unlink(), r"no snapshot in .*20631"),
    "another version": (lambda f: edit(f, lambda m: m.update(format=7)), "is of version 7, and version 1"),
    "another Publisher": (lambda f: edit(f, lambda m: m.update(database="other")), "database 'other'"),
    "a way out": (
        lambda f: edit(f, lambda m: m["files"][0].update(name="../../etc/passwd")),
        "names '../../etc/passwd', which is no file of a snapshot",
    ),
    "not a text": (lambda f: (f / "manifest.json").write_bytes(b"\xff\xfe"), "manifest.json is not what"),
}  # fmt: skip


async def test_folders_that_are_refused(shop: MergeTopology, tmp_path: Path) -> None:
    """Damaged folders are refused before anything is changed.

    An intact copy is used at any place.
    """
    made = Path((await shop.snapshot(tmp_path / "own", part_bytes=PART_BYTES)).location)
    for number, (damage, message) in enumerate(REFUSED.values()):
        carried = tmp_path / str(number)
        shutil.copytree(made, carried)
        damage(carried)
        with pytest.raises(MergeError, match=message) as caught:
            await shop.subscribe("anna", snapshot_location=carried)
        assert str(carried) in str(caught.value)
        assert not await shop.merges("anna"), message
    shutil.copytree(made, tmp_path / "usb")
    shutil.rmtree(tmp_path / "own")
    with pytest.raises(MergeError, match=r"no snapshot in .*20631"):
        await shop.subscribe("anna")
    report = await shop.subscribe("anna", snapshot_location=tmp_path / "usb")
    assert report.files == FILES
    await shop.assert_converged()


async def test_rows_that_were_altered(shop: MergeTopology, tmp_path: Path) -> None:
    """An altered file is detected at its end, and none of its rows remain.

    Once the file is restored, the delivery continues with it.
    """
    folder = Path((await shop.snapshot(tmp_path, part_bytes=PART_BYTES)).location)
    path = one(folder, "*_0002.bcp")
    before = path.read_bytes()
    path.write_bytes(before.replace(b"\t10\t", b"\t99\t"))
    for _ in range(2):
        with pytest.raises(MergeError, match=r"_0002\.bcp was altered: its SHA-256"):
            await shop.subscribe("anna")
    query = "select count(*) from customer where credit = 99"
    assert await shop.execute("anna", query) == [(0,)]
    path.write_bytes(before)
    report = await shop.subscribe("anna")
    assert (report.files, report.kept) == (FILES - 5, 5)
    await shop.assert_converged()


async def test_snapshots_that_are_outdated(shop: MergeTopology, tmp_path: Path) -> None:
    """Outdated snapshots are refused (20655).

    A table was altered or published since, or the metadata of later changes was removed.
    """
    location = (await shop.snapshot(tmp_path)).location
    for statements, message in (
        ("alter table customer add column more int", "table customer was altered"),
        ("alter table customer drop column more; create table item (id int primary key)", ""),
    ):
        await shop.execute("pub", statements)
        if message:
            with pytest.raises(MergeError, match=f"{message}.*20655"):
                await shop.subscribe("anna", snapshot_location=location)
    await shop.publish("item")
    with pytest.raises(MergeError, match=r"table item is not among its tables.*20655"):
        await shop.subscribe("anna")
    await shop.unpublish("item")
    await change(shop, 1)
    await shop.snapshot(tmp_path / "later")  # closes a generation
    await shop.age(30)
    await shop.clean_up()
    await shop.execute("pub", "update customer set credit = 1 where id = 100")
    with pytest.raises(MergeError, match=r"has forgotten what was changed after it.*20655"):
        await shop.subscribe("anna", snapshot_location=location)
    assert not await shop.merges("anna")
    await shop.subscribe("anna")
    await shop.settle()
    await shop.assert_converged()


@contextmanager
def small_disk(folder: Path) -> Iterator[tuple[str, Callable[[], object]]]:
    """Yield the message for a folder without room, and a function that makes room.

    The folder is a full disk if this user may mount one; else no file may grow.
    """
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none", str(folder)]
    with ExitStack() as stack:
        if subprocess.run(mount, check=False, capture_output=True).returncode == 0:
            stack.callback(subprocess.run, ["umount", str(folder)], check=True)
            larger = ["mount", "-o", "remount,size=10m", str(folder)]
            yield (
                r"unc/\S+ cannot be written: No space left on device",
                lambda: subprocess.run(larger, check=True),
            )
        else:
            limits = resource.getrlimit(resource.RLIMIT_FSIZE)
            stack.callback(resource.setrlimit, resource.RLIMIT_FSIZE, limits)
            resource.setrlimit(resource.RLIMIT_FSIZE, (4000, limits[1]))
            yield r"_0001\.bcp cannot be written: File too large", stack.pop_all().close


async def test_folders_that_cannot_be_written(shop: MergeTopology, tmp_path: Path) -> None:
    """A folder that cannot be written, or has no room, is named, and no partial file remains.

    The agent continues once there is room.
    """
    disk = tmp_path / "disk"
    (tmp_path / "file").touch()
    with pytest.raises(MergeError, match=r"snapshot folder .*file/unc/.* cannot be written to"):
        await shop.snapshot(tmp_path / "file")
    with pytest.raises(ConfigurationError, match="name the folder"):
        await shop.snapshot()
    with small_disk(disk) as (message, make_room):
        with pytest.raises(MergeError, match=f"{message}: make room"):
            await shop.snapshot(disk, part_bytes=PART_BYTES)
        make_room()
        assert not files_of(disk, "*.tmp") + files_of(disk, "manifest.json")
        report = await shop.snapshot(disk, part_bytes=PART_BYTES)
        assert report.kept >= 10
        await shop.execute("anna", "create table purchase (id int)")
        with pytest.raises(SubscriptionError, match="purchase of the Subscriber is there already"):
            await shop.subscribe("anna")
        await shop.execute("anna", "drop table purchase")
        await shop.subscribe("anna")
    await shop.assert_converged()


async def test_two_agents_at_once(shop: MergeTopology, tmp_path: Path) -> None:
    """A second agent is refused (20630), and so is a second delivery to a Subscriber (21036)."""

    async def again(_: str) -> None:
        with pytest.raises(MergeError, match=re.escape("pub (20630): wait")):
            await shop.snapshot(tmp_path)

    shop.points.arm("merge_snapshot.file_written", again)
    await shop.snapshot(tmp_path)

    async def twice(_: str) -> None:
        async with other(shop) as second:
            with pytest.raises(MergeError, match=r"by another process.*21036"):
                await second.subscribe("anna")

    shop.points.arm("merge_delivery.file_loaded(anna)", twice)
    await shop.subscribe("anna")
    await shop.assert_converged()


def other(topology: MergeTopology) -> MergeTopology:
    """Return the same topology, as another process would see it."""
    dsns = {name: node.dsn for name, node in topology.nodes.items()}
    return MergeTopology(subscribers=topology.subscribers, dsns=dsns, attach=True)
