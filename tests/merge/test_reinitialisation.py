"""Reinitialisation from a snapshot in files: interrupted anywhere, it keeps views and triggers."""

from __future__ import annotations

from pathlib import Path

import psycopg
import pytest

from tests.fix_merge import converge, cut_off
from tests.merge.snapshots import FILES, PART_BYTES, change, kill, one
from twopc.errors import MergeError, SubscriptionError
from twopc.merge.ladder import InitialisationMethod
from twopc.sim.merge import MergeTopology

_OWN = (
    "create view rich as select id from customer where credit > 9;"
    " create table fired (what text); grant insert on fired to public;"
    " create function fire() returns trigger language plpgsql as"
    " $$ begin insert into public.fired values (tg_op); return null; end $$;"
    " create trigger emptied after truncate on customer for each statement execute function fire();"
    " create trigger filled after insert on customer for each statement execute function fire();"
    " alter table customer enable always trigger filled, enable replica trigger emptied"
)
_DELIVERED = "select count(*) from msrepl.mssnapshotdeliveryprogress"
_MODES = (
    "select tgname::text, tgenabled::text from pg_trigger"
    " where tgrelid = 'customer'::regclass and tgname in ('emptied', 'filled') order by 1"
)


async def test_beginning_anew_cut_off_at_every_file(shop: MergeTopology, tmp_path: Path) -> None:
    """A reinitialisation continues at the next file.

    Views and triggers on the tables are kept, and no trigger of the user's fires.
    """
    await shop.snapshot(tmp_path, part_bytes=PART_BYTES)
    await shop.subscribe("anna", kind="server", priority=75)
    await shop.subscribe("ben")
    await shop.execute("anna", _OWN)
    await shop.execute("anna", "update customer set phone = 'kept' where id = 1")
    with cut_off(shop, "merge_delivery.begun(anna)"):
        await shop.reinitialise("anna", upload_first=True)
    with pytest.raises(psycopg.Error, match="20092"):
        await shop.execute("anna", "insert into customer values (7, 'x', 1)")
    with pytest.raises(MergeError, match=r"anna is being initialised: .*`reinitialise` goes on"):
        await shop.sync("anna")
    assert (await shop.sync("ben")).downloaded == 1
    for number in range(1, FILES + 1):
        await change(shop, number)
        with cut_off(shop, "merge_delivery.file_loaded(anna)"):
            await shop.reinitialise("anna", upload_first=True)
        assert await shop.execute("anna", _DELIVERED) == [(number,)]
    kill(shop, "merge_delivery.activated(anna)", "reinitialise", "anna")
    result = await shop.reinitialise("anna")
    report = result.initialised["anna"]
    assert (report.method, report.files, report.kept) == (InitialisationMethod.APPLY, 0, FILES)
    assert await shop.execute("anna", _MODES) == [("emptied", "R"), ("filled", "A")]
    assert await shop.execute("anna", "select what from fired") == []
    await check_goes_on(shop)


async def check_goes_on(topology: MergeTopology) -> None:
    """Assert that the earlier upload is kept, the subscription is of its kind, and keys hold."""
    report = await topology.sync("anna")
    assert (report.uploaded, report.conflicts) == (0, 0)
    assert await topology.execute("anna", "select phone from customer where id = 1") == [("kept",)]
    neighbours = (await topology.status())["pub"].neighbours
    [above] = [each for each in neighbours if each.neighbour == "anna"]
    assert above.priority == 75
    assert await topology.execute("anna", "select count(*) from rich where id > 200") == [(99,)]
    await converge(topology)
    assert await topology.check() == []
    for statement in (
        "insert into purchase values (5000, 5000)",
        "insert into customer values (5000, 'kept', 1)",
    ):
        with pytest.raises(psycopg.errors.IntegrityError):
            await topology.execute("anna", statement)


async def test_changes_that_are_lost_are_counted(shop: MergeTopology, tmp_path: Path) -> None:
    """Changes that are lost are counted, and a dropped table is created again with its keys.

    The snapshot is used from any location.
    """
    await shop.subscribe("anna")
    location = (await shop.snapshot(tmp_path, part_bytes=PART_BYTES)).location
    await shop.execute("anna", "update customer set phone = 'lost' || id where id < 4")
    await shop.execute("anna", "drop table purchase")
    result = await shop.reinitialise("anna", snapshot_location=location)
    assert result.lost == {"anna": {"customer": 3}}
    assert result.initialised["anna"].location == location
    await converge(shop)
    with pytest.raises(psycopg.errors.ForeignKeyViolation):
        await shop.execute("anna", "insert into purchase values (5000, 5000)")


async def test_what_is_refused_empties_no_table(shop: MergeTopology, tmp_path: Path) -> None:
    """No table is emptied if the snapshot or a table is altered, or another table refers to it."""
    await shop.snapshot(tmp_path, part_bytes=PART_BYTES)
    await shop.subscribe("anna")
    part = one(tmp_path, "*_0002.bcp")
    text = part.read_bytes()
    part.unlink()
    with pytest.raises(MergeError, match="is missing: put it back"):
        await shop.reinitialise("anna")
    part.write_bytes(text)
    await shop.execute("anna", "create table note (customer int references customer)")
    with pytest.raises(SubscriptionError, match="refers to one that is filled anew"):
        await shop.reinitialise("anna")
    await shop.execute("anna", "drop table note")
    await shop.execute("anna", "alter table purchase alter note type varchar(99)")
    with pytest.raises(SubscriptionError, match=r"purchase .* column 'note' \(text\) has type"):
        await shop.reinitialise("anna")
    assert await shop.execute("anna", "select count(*) from customer") == [(299,)]
    await shop.execute("anna", "alter table purchase alter note type text")
    assert (await shop.sync("anna")).uploaded == 0


async def test_a_snapshot_that_is_gone_meanwhile(shop: MergeTopology, tmp_path: Path) -> None:
    """If the snapshot is gone, tables are filled from the Publisher's tables.

    After unsubscribing instead, they are ordinary tables with the rows that have arrived.
    """
    await shop.snapshot(tmp_path, part_bytes=PART_BYTES)
    await shop.subscribe("anna")
    for end in ("reinitialise", "unsubscribe"):
        with cut_off(shop, "merge_delivery.file_loaded(anna)", nth=4):
            await shop.reinitialise("anna")
        if end == "reinitialise":
            await shop.execute("pub", "delete from msrepl.msmerge_dynamic_snapshots")
        result = await getattr(shop, end)("anna")
        if end == "reinitialise":
            assert result.initialised["anna"].method is InitialisationMethod.SELECT
            await shop.assert_converged()
            await shop.snapshot(tmp_path, part_bytes=PART_BYTES)
    assert not await shop.merges("anna")
    await shop.execute("anna", "insert into customer values (5000, 'own', 1)")
    assert await shop.subscribed() == []
