"""Progress of a run: a panel on a terminal, otherwise a line whenever nothing else was printed for a while."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING

from twopc.sim.report import progress

if TYPE_CHECKING:
    from rich.console import Console

    from twopc.sim.cli.show_run import Show
    from twopc.sim.report.history import History
    from twopc.sim.scenario.model import Scenario

#: Interval at which a panel is drawn.
_DRAW_EVERY_S = 0.2
#: Maximum number of recent records examined: an order has fewer, and a load may have arbitrarily many.
_RECENT_MAX = 1000


@asynccontextmanager
async def ticking(
    history: History, show: Show, console: Console, *, scenario: Scenario, panel: bool
) -> AsyncIterator[None]:
    """Show the progress of a run while the block runs.

    Args:
        panel: whether to draw a panel that is updated; otherwise lines are printed.
    """
    over = asyncio.Event()
    ticker = asyncio.ensure_future(
        _draw(history, show, console, scenario, over)
        if panel
        else _beat(history, show, console, scenario, over)
    )
    try:
        yield
    finally:
        over.set()
        await ticker


async def _is_over(over: asyncio.Event, limit_s: float) -> bool:
    with suppress(TimeoutError):
        await asyncio.wait_for(over.wait(), limit_s)
    return over.is_set()


def _now(history: History, scenario: Scenario) -> progress.RunProgress:
    """Return the state of the order that wrote last, as far as recent records show it."""
    recent = history.records[-_RECENT_MAX:]
    order = next((each.order for each in reversed(recent) if each.order), "")
    records = [each for each in recent if each.order == order]
    return progress.standing(records, scenario.topology.subscribers)


async def _draw(
    history: History, show: Show, console: Console, scenario: Scenario, over: asyncio.Event
) -> None:
    from rich.live import Live

    began = asyncio.get_running_loop().time()
    with Live(console=console, auto_refresh=False, transient=True) as live:
        while not await _is_over(over, _DRAW_EVERY_S):
            elapsed_s = asyncio.get_running_loop().time() - began
            drawn = progress.live(
                _now(history, scenario), scenario=scenario.name, done=show.done, failed=show.failed,
                elapsed_s=elapsed_s,
            )  # fmt: skip
            live.update(drawn, refresh=True)


async def _beat(
    history: History, show: Show, console: Console, scenario: Scenario, over: asyncio.Event
) -> None:
    began = asyncio.get_running_loop().time()
    printed = show.groups
    while not await _is_over(over, progress.HEARTBEAT_S):
        if show.groups == printed:
            elapsed_s = asyncio.get_running_loop().time() - began
            line = progress.heartbeat(
                _now(history, scenario), scenario=scenario.name, done=show.done, elapsed_s=elapsed_s
            )
            console.print(line, markup=False, soft_wrap=True)
        printed = show.groups
