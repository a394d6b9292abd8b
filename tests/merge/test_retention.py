"""Retention on servers: removed metadata, expired subscriptions and reinitialised Subscribers."""

from __future__ import annotations

import psycopg
import pytest

from tests.fix_merge import converge, customer
from twopc.errors import ConfigurationError, MergeError, SubscriptionError
from twopc.sim.merge import MergeTopology

METADATA = "select count(*) from msrepl.msmerge_metadata"


async def counts(topology: MergeTopology) -> dict[str, int]:
    """Return the number of rows with metadata at each node."""
    return {name: (await topology.execute(name, METADATA))[0][0] for name in ("pub", "anna", "ben")}


async def changed_and_aged(topology: MergeTopology, *away: str) -> None:
    """Change two rows, delete one, merge without some Subscribers, and let sixteen days pass."""
    await topology.execute("anna", "update customer set credit = credit + 1")
    await topology.execute("ben", "update customer set phone = phone || phone")
    await topology.execute("ben", "delete from purchase")
    for name in ("anna", "ben", "anna"):
        if name not in away:
            await topology.sync(name)
    await topology.age(8)
    for name in ("anna", "ben", "anna", "ben"):
        if name not in away:
            await topology.sync(name)
    await topology.age(8)


async def test_what_nobody_needs_is_forgotten(merge_shop: MergeTopology) -> None:
    """The Publisher removes metadata that is not needed, then each Subscriber at its next session.

    Rows stay, and their later versions are higher than the removed ones.
    """
    await changed_and_aged(merge_shop)
    assert set((await counts(merge_shop)).values()) == {3}
    await merge_shop.sync("anna")
    assert await counts(merge_shop) == {"pub": 0, "anna": 0, "ben": 3}
    await merge_shop.sync("ben")
    assert await counts(merge_shop) == {"pub": 0, "anna": 0, "ben": 0}
    assert await merge_shop.execute(
        "pub", "select count(*) from msrepl.msmerge_genhistory where generation > 0"
    ) == [(1,)]
    for name in ("anna", "pub"):
        await merge_shop.execute(name, "update customer set credit = 50 where id = 1")
    await merge_shop.execute("ben", "update customer set phone = '9' where id = 1")
    [(versions,)] = await merge_shop.execute(
        "pub", "select array[own, top] from msrepl.msmerge_metadata"
    )
    assert min(versions) > 1
    assert (await merge_shop.sync("anna")).conflicts == 1
    assert (await merge_shop.sync("ben")).conflicts == 0
    await converge(merge_shop)
    assert await customer(merge_shop, "anna") == ("9", 50)


async def test_a_publisher_that_has_forgotten_is_not_in_conflict(merge_shop: MergeTopology) -> None:
    """A Publisher's change replaces a row whose history only the Subscriber still has."""
    await changed_and_aged(merge_shop)
    assert sum((await merge_shop.clean_up()).values()) == 3
    await merge_shop.execute("pub", "update customer set phone = 'new' where id = 1")
    report = await merge_shop.sync("ben")
    assert (report.downloaded, report.deferred, report.conflicts) == (1, 0, 0)
    assert (await customer(merge_shop, "ben"))[0] == "new"
    await merge_shop.execute("ben", "update customer set phone = 'newer' where id = 1")
    await converge(merge_shop)
    assert await merge_shop.conflicts() == []
    assert (await customer(merge_shop, "anna"))[0] == "newer"


async def test_other_columns_after_a_clean_up(merge_shop: MergeTopology) -> None:
    """Metadata of others' changes that only the Subscriber still has causes no conflict."""
    await changed_and_aged(merge_shop)
    assert sum((await merge_shop.clean_up()).values()) == 3
    await merge_shop.execute("pub", "update customer set credit = 20 where id = 1")
    await merge_shop.execute("ben", "update customer set phone = '9' where id = 1")
    assert (await merge_shop.sync("ben")).conflicts == 0
    assert [await customer(merge_shop, node) for node in ("pub", "ben")] == [("9", 20)] * 2
    await converge(merge_shop)


async def test_an_expired_subscription_is_refused(merge_shop: MergeTopology) -> None:
    """An expired subscription delays no removal, and has to be reinitialised.

    Deleted rows do not come back by it.
    """
    await merge_shop.sync("anna")
    await changed_and_aged(merge_shop, "anna")
    await merge_shop.execute("anna", "update purchase set code = 'stale'")
    await merge_shop.sync("ben")
    assert (await counts(merge_shop))["pub"] == 0
    for options in ({}, {"upload_first": True}):
        with pytest.raises(MergeError, match=r"expired.*21072"):
            await (
                merge_shop.reinitialise("anna", **options) if options else merge_shop.sync("anna")
            )
    with pytest.raises(ConfigurationError, match="what anna would need was removed"):
        await merge_shop.set_retention(60)
    outcome = await merge_shop.reinitialise("anna")
    assert outcome.lost == {"anna": {"customer": 2, "purchase": 1}}
    await merge_shop.execute("anna", "update customer set credit = 60 where id = 2")
    [(version,)] = await merge_shop.execute(
        "anna",
        "select m.own from msrepl.msmerge_metadata as m join customer as c using (rowguid) where c.id = 2",
    )
    assert version > 1  # a lower version might have been given before
    await converge(merge_shop)
    assert await merge_shop.execute("pub", "select count(*) from purchase") == [(0,)]
    assert (await customer(merge_shop, "ben", 2))[1] == 60


async def test_nothing_expires_while_nothing_changes(merge_shop: MergeTopology) -> None:
    """A Subscriber continues after a month without changes.

    One that has missed changes for twice the retention is dropped.
    """
    await merge_shop.age(40)
    await merge_shop.execute("anna", "update customer set phone = 'x' where id = 1")
    assert (await merge_shop.sync("anna")).uploaded == 1
    await merge_shop.sync("anna")
    assert await merge_shop.subscribed() == ["anna"]
    with pytest.raises(MergeError, match="works for no subscription"):
        await merge_shop.sync("ben")
    await merge_shop.reinitialise("ben")
    await converge(merge_shop)


async def test_a_row_that_was_left_is_not_forgotten(merge_shop: MergeTopology) -> None:
    """A Subscriber that has not received a deferred row expires.

    Otherwise its own change would overwrite the Publisher's without a conflict.
    """

    async def change(_: str) -> None:
        await merge_shop.execute("anna", "update customer set phone = 'late' where id = 1")

    await merge_shop.execute("pub", "update customer set phone = 'pub' where id = 1")
    await merge_shop.sync("ben")
    merge_shop.points.arm("merge.download_read(anna)", change)
    assert (await merge_shop.sync("anna")).deferred == 1
    for _ in range(2):
        await merge_shop.age(8)
        await merge_shop.sync("ben")
    with pytest.raises(MergeError, match=r"expired.*21072"):
        await merge_shop.sync("anna")
    assert (await merge_shop.reinitialise("anna")).lost == {"anna": {"customer": 1}}
    assert await customer(merge_shop, "anna") == ("pub", 10)


async def test_a_row_that_waits_for_weeks_is_not_forgotten(merge_shop: MergeTopology) -> None:
    """A row that is deferred for weeks, by a change that cannot be uploaded, keeps its metadata.

    As soon as the change can be uploaded, both changes are kept.
    """
    await merge_shop.execute("pub", "alter table customer add constraint c check (phone <> 'bad')")
    await merge_shop.execute("pub", "update customer set credit = 20 where id = 1")
    await merge_shop.execute("anna", "update customer set phone = 'bad' where id = 1")
    for days in (8, 8, 0):
        assert (await merge_shop.sync("anna")).retried == 1
        await merge_shop.age(days)
    await merge_shop.execute("pub", "alter table customer drop constraint c")
    assert (await merge_shop.sync("anna")).conflicts == 0
    for node in ("pub", "anna"):
        assert await customer(merge_shop, node) == ("bad", 20)


async def test_retention_for_ever(merge_shop: MergeTopology) -> None:
    """With unlimited retention no metadata is removed, none expires, and a warning is returned."""
    assert "for ever" in str(await merge_shop.set_retention(0))
    await changed_and_aged(merge_shop, "anna")
    await merge_shop.sync("ben")
    assert (await merge_shop.sync("anna")).downloaded == 3
    assert (await counts(merge_shop))["pub"] == 3
    assert await merge_shop.set_retention(3) is None
    with pytest.raises(ConfigurationError, match="retention of -1"):
        await merge_shop.set_retention(-1)


async def test_nobody_waits_for_a_clean_up(merge_shop: MergeTopology) -> None:
    """A running statement or a locked row postpones the clean-up, which waits for neither.

    No version is given twice.
    """
    await changed_and_aged(merge_shop)
    node = merge_shop.node("pub")
    async with await psycopg.AsyncConnection.connect(node.dsn) as application:
        await application.execute("set transaction isolation level repeatable read")
        await application.execute("select from customer")
        await application.execute("update customer set phone = 'mine' where id = 1")
        assert (await merge_shop.clean_up())["pub"] == 0
        assert (await merge_shop.clean_up())["pub"] == 0
        await application.commit()
    assert (await merge_shop.clean_up())["pub"] == 2
    async with await psycopg.AsyncConnection.connect(node.dsn) as application:
        await application.execute("set transaction isolation level repeatable read")
        await application.execute("select from customer")
        await merge_shop.sync("anna")
        await application.execute("update customer set phone = 'late' where id = 2")
        await application.commit()
    [(top,)] = await merge_shop.execute(
        "pub",
        "select m.top from msrepl.msmerge_metadata as m join customer as c using (rowguid) where c.id = 2",
    )
    assert top > 1


async def test_reinitialising_with_an_upload(merge_shop: MergeTopology) -> None:
    """The Subscriber's changes are uploaded first, and its tables and their views are kept."""
    await merge_shop.execute("anna", "update customer set phone = 'sent' where id = 1")
    await merge_shop.execute("anna", "create view phones as select phone from customer")
    outcome = await merge_shop.reinitialise("anna", upload_first=True)
    assert outcome.uploaded is not None and outcome.uploaded.uploaded == 1
    assert outcome.lost == {"anna": {}}
    assert ("sent",) in await merge_shop.execute("anna", "select phone from phones")
    await merge_shop.execute("anna", "create table own (id int references customer)")
    with pytest.raises(SubscriptionError, match="of the Subscriber's own refers to"):
        await merge_shop.reinitialise("anna")
    await merge_shop.execute("anna", "drop table own")
    assert (await merge_shop.sync("anna")).uploaded == 0
