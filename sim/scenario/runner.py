"""Runner of a complete case: plays every item, one after the other, and records the state after each."""

from __future__ import annotations

from twopc.sim.report.history import OrderHistory
from twopc.sim.scenario.player import InfeasibleError, Player
from twopc.sim.scenario.stage import Stage
from twopc.sim.scenario.values import Case, CaseLesson


class Runner:
    """Player of one case on one stage.

    Its only clock is that of the running loop, and its only source of waits is the stage: on a loop with a virtual
    clock, it plays in virtual time.
    """

    def __init__(
        self, case: Case, stage: Stage, history: OrderHistory, *, step_timeout_ms: int | None = None
    ) -> None:
        self._case = case
        self._player = Player(case, stage, history, step_timeout_ms=step_timeout_ms)

    async def play(self) -> CaseLesson:
        """Play the case and return what its result implies for other cases of its group."""
        player = self._player
        try:
            await player.begin()
            try:
                for item in self._case.items:
                    await player.item(item)
            except InfeasibleError:
                pass  # the case ends at this item, which is not an error
            return await player.finish()
        finally:
            await player.close()
