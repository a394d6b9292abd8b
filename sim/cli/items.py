"""Text form of an order's items."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twopc.sim.scenario.accept import flow

if TYPE_CHECKING:
    from twopc.sim.scenario.model import OrderItem


def item_text(item: OrderItem) -> str:
    """Return an item as a file has it: ``a_write``, ``{rollback: alice}``, ``{sync: [sub1, sub2]}``."""
    if item.step is not None:
        return item.step
    keys = type(item).keys()
    return flow({key: value for key in keys if (value := getattr(item, key, None)) is not None})
