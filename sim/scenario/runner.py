"""Plays a whole case: every item, one after the other, and how everything stands after it."""

from __future__ import annotations

from twopc.sim.report.history import OrderHistory
from twopc.sim.scenario.player import InfeasibleError, Player
from twopc.sim.scenario.stage import Stage
from twopc.sim.scenario.values import Case, CaseLesson


class Runner:
    """One case on one stage.

    It takes time from the running loop alone, and looks at waits through the stage alone: on a loop whose
    clock is virtual it plays in virtual time.
    """

    def __init__(
        self, case: Case, stage: Stage, history: OrderHistory, *, step_timeout_ms: int | None = None
    ) -> None:
        self._case = case
        self._player = Player(case, stage, history, step_timeout_ms=step_timeout_ms)

    async def play(self) -> CaseLesson:
        """Play the case; what it shows about others of its group is returned."""
        player = self._player
        try:
            await player.begin()
            try:
                for item in self._case.items:
                    await player.item(item)
            except InfeasibleError:
                pass  # it is over at this place; nobody is to blame
            return await player.finish()
        finally:
            await player.close()
