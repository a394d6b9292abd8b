"""Plays a complete case: every item, one after the other, with a record of the state after each."""

from __future__ import annotations

from twopc.sim.report.history import OrderHistory
from twopc.sim.scenario.player import InfeasibleError, Player
from twopc.sim.scenario.stage import Stage
from twopc.sim.scenario.values import Case, CaseLesson


async def play_case(
    case: Case, stage: Stage, history: OrderHistory, *, step_timeout_ms: int | None = None
) -> CaseLesson:
    """Play a case on a stage and return what its result implies for other cases of its group.

    The only clock is that of the running loop, and the only source of waits is the stage: on a loop with a virtual
    clock, it plays in virtual time.
    """
    player = Player(case, stage, history, step_timeout_ms=step_timeout_ms)
    try:
        await player.begin()
        try:
            for item in case.items:
                await player.item(item)
        except InfeasibleError:
            pass  # the case ends at this item, which is not an error
        return await player.finish()
    finally:
        await player.close()
