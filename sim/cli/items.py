"""An order's items as they stand in a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from twopc.sim.scenario.accept import flow

if TYPE_CHECKING:
    from twopc.sim.scenario.model import OrderItem


def item_text(item: OrderItem) -> str:
    """``a_write``, ``{rollback: alice}``, ``{sync: [sub1, sub2]}``."""
    if item.step is not None:
        return item.step
    keys = type(item).keys()
    return flow({key: value for key in keys if (value := getattr(item, key, None)) is not None})
