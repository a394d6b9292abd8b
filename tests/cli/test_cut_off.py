"""Tests of commands that were cut off: what they left does not interfere with a second attempt."""

from __future__ import annotations

from typing import Any

import pytest

from tests.cli.shops import HERE, THREE, Shop
from twopc.publisher import publication
from twopc.publisher.distribution import registry
from twopc.sim import operate
from twopc.sim.topology.nodes import Nodes
from twopc.sim.topology.removal import SubscriptionRemoval


class CutError(Exception):
    """Stops the code at a place, as if the process had been killed there."""


async def cut(*_: Any, **__: Any) -> None:
    """Raise `CutError` in place of a function."""
    raise CutError


def opened(shop: Shop) -> None:
    """Create a Publisher with a published table."""
    shop.does("install", "shop", at=HERE)
    shop.does("publish", "account", at=HERE)


@pytest.mark.sample(1, by=("point",))
@pytest.mark.parametrize("mode", [(), ("--read-only",)], ids=["writes", "reads"])
@pytest.mark.parametrize("point", ["snapshot.copied", "snapshot.started"])
def test_a_subscription_that_was_cut_off_goes(
    shop: Shop, mode: tuple[str, ...], point: str
) -> None:
    """`unsubscribe` removes a subscription that was cut off, and its slot.

    The Subscriber has nothing of it, but the slot would keep the Publisher's log forever.
    """
    opened(shop)
    shop.cut_off(point, "subscribe", "store", *mode)
    shop.refuses(4, "`twopc unsubscribe store`", "subscribe", "store", *mode, at=THREE)
    shop.refuses(4, "`twopc unsubscribe store`", "refresh", "store", at=THREE)

    shop.does("unsubscribe", "store", at=THREE)

    assert shop.slots() == []
    shop.does("subscribe", "store", *mode, at=THREE)


@pytest.mark.sample(1, by=("after",))
@pytest.mark.parametrize("mode", ["sync tran", "read only"])
@pytest.mark.parametrize("after", ["its end", "the slot"])
async def test_a_subscriber_that_left_half_way_leaves(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, mode: Any, after: str
) -> None:
    """Another process completes an `unsubscribe` that was cut off.

    That had removed the Subscriber's end only, or the slot, too.
    """
    nodes = {name: shop.dsns[name] for name in THREE}
    await operate.install("shop", {name: shop.dsns[name] for name in HERE})
    async with await operate.attach(nodes, newcomers=["store"]) as topology:
        await topology.publish("account")
        await topology.subscribe("store", update_mode=mode)
        with monkeypatch.context() as patch, pytest.raises(CutError):
            if after == "its end":
                patch.setattr(SubscriptionRemoval, "_forget_left", cut)
            else:
                patch.setattr(registry, "forget_publisher", cut)
            await topology.unsubscribe("store")
    async with await operate.attach(nodes, newcomers=["store"]) as topology:
        await topology.unsubscribe("store")

        assert shop.slots() == []
        assert await topology.registration.update_modes() == {}
        shop.sql("store", "drop table account")
        await topology.subscribe("store", update_mode=mode)
        await topology.assert_converged()


@pytest.mark.sample(1, by=("point",))
@pytest.mark.parametrize("mode", [(), ("--read-only",)], ids=["writes", "reads"])
@pytest.mark.parametrize("point", ["snapshot.copied", "snapshot.started"])
def test_a_refresh_that_was_cut_off_is_made_again(
    shop: Shop, mode: tuple[str, ...], point: str
) -> None:
    """`refresh` copies a table that an earlier one has announced, but not copied."""
    opened(shop)
    shop.does("subscribe", "store", *mode, at=THREE)
    shop.does("publish", "note", at=THREE)
    shop.sql("pub", "insert into note values (1, 'one')")
    shop.cut_off(point, "refresh", at=THREE)
    shop.sql("pub", "insert into note values (2, 'two')")

    assert shop.does("refresh", at=THREE) == "store: note\n"

    shop.does("sync", at=THREE)
    assert shop.sql("store", "select id from note order by id") == [(1,), (2,)]


async def test_an_installation_that_was_cut_off_is_made_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An installation that was cut off can be repeated: it makes a Publisher at its end."""
    nodes = {name: shop.dsns[name] for name in HERE}
    for place in ("install", "admit_log_reader"):
        with monkeypatch.context() as patch, pytest.raises(CutError):
            patch.setattr(publication, place, cut)
            await operate.install("shop", nodes)

        assert await operate.install("shop", nodes) == "pub", place
        async with await operate.attach(nodes) as topology:
            await topology.leaving.dissolve()
        assert shop.sql("pub", "select rolname from pg_roles where rolname ~ '^msrepl_'") == []


@pytest.mark.parametrize("place", [(Nodes, "drop_roles"), (publication, "uninstall")])
async def test_an_uninstallation_that_was_cut_off_is_made_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, place: tuple[Any, str]
) -> None:
    """An `uninstall` that was cut off can be repeated: the database is a Publisher until then."""
    nodes = {name: shop.dsns[name] for name in HERE}
    await operate.install("shop", nodes)
    async with await operate.attach(nodes) as topology:
        with monkeypatch.context() as patch, pytest.raises(CutError):
            patch.setattr(*place, cut)
            await topology.leaving.dissolve()
    async with await operate.attach(nodes) as topology:
        await topology.leaving.dissolve()

    assert shop.sql("pub", "select rolname from pg_roles where rolname ~ '^msrepl_'") == []
    for name in HERE:
        assert shop.sql(name, "select nspname from pg_namespace where nspname = 'msrepl'") == []


def test_uninstalling_needs_every_database_with_our_roles(shop: Shop) -> None:
    """`uninstall` is refused at the beginning if a role has rights in another database."""
    opened(shop)
    shop.does("subscribe", "desk")
    shop.does("unsubscribe", "desk")
    shop.sql("desk", "grant usage on schema public to msrepl_app_" + _end(shop))
    shop.does("unpublish", "account", at=HERE)

    shop.refuses(4, "'desk'", "uninstall", at=HERE)

    shop.does("uninstall")


def _end(shop: Shop) -> str:
    [(role,)] = shop.sql("pub", "select rolname::text from pg_roles where rolname ~ '^msrepl_app_'")
    return str(role).rpartition("_")[2]


async def test_uninstalling_leaves_no_slot(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """`uninstall` removes the slot of a subscription that was cut off before it was recorded."""
    await operate.install("shop", {name: shop.dsns[name] for name in HERE})
    nodes = {name: shop.dsns[name] for name in THREE}
    async with await operate.attach(nodes, newcomers=["store"]) as topology:
        await topology.publish("account")
        await topology.registration.register()
        assert shop.slots() != []
        await topology.unpublish("account")

        await topology.leaving.dissolve()

    assert shop.slots() == []
