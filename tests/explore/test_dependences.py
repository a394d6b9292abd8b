"""Dependences that the model records: of generated programs none is missing, and any that is left out is missed."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from random import Random

import pytest

from tests.explore.commuting import Runs
from tests.explore.generated import differences, generated
from twopc.sim.model.choosers import ChoiceKernel
from twopc.sim.model.explore.programs import Script, ScriptRun
from twopc.sim.model.explore.results import Budget
from twopc.sim.model.explore.search import exhaust
from twopc.sim.model.wiring import Wiring

#: Functions that only pass on what others record.
_PASSED_ON = frozenset({"_notify", "_notify_branch", "_notify_change", "_notify_session", "_notify_undo", "_record_access",
    "notify_access", "notify_change", "notify_commit", "notify_rows_read", "notify_rows_written"})  # fmt: skip
#: Seeds of programs that every run plays; 300 has the answers of a transaction's two branches come in both orders.
_SEEDS = (*range(16), 300)
#: So many runs of the search without reduction are played at most.
_RUNS_MAX = 60


class MutedKernel(ChoiceKernel):
    """A kernel that is not notified of what one function reads and changes."""

    def __init__(self, place: str) -> None:
        super().__init__()
        self._place = place

    def _record_access(self, what: str, changed: bool) -> None:
        frame = sys._getframe(1)
        while frame.f_code.co_name in _PASSED_ON and frame.f_back is not None:
            if frame.f_code.co_qualname == self._place:
                return
            frame = frame.f_back
        if frame.f_code.co_qualname != self._place:
            super()._record_access(what, changed)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tail:
    """A program from a moment of one of its runs on."""

    script: Script
    names: tuple[int, ...]
    """Of what has happened before."""

    @property
    def name(self) -> str:
        """See `twopc.sim.model.explore.single.Program`."""
        return self.script.name

    def start(self, kernel: ChoiceKernel, wiring: Wiring, budget: Budget) -> ScriptRun:
        """See `twopc.sim.model.explore.single.Program`."""
        run = self.script.start(kernel, wiring, budget)
        kernel.settle()
        for name in self.names:
            options = [*kernel.enabled(), *(run.strikes() if budget.of else ())]
            kernel.fire(next(one for one in options if one.name == name))
            run.look()
        return run


@pytest.mark.parametrize("seed", _SEEDS)
def test_what_is_independent_may_be_exchanged(seed: int) -> None:
    """Neighbours of drawn runs: the rest of the run and its ending stay the same."""
    assert [*differences(seed, 3)] == []


@pytest.mark.parametrize("seed", _SEEDS[:5])
def test_no_ending_is_left_out(seed: int) -> None:
    """The last events of a drawn run: as many as the search without reduction can follow to their end."""
    program = generated(seed)
    events, _ = Runs(program.script, program.kinds).drawn(Random(f"tail {seed}"))
    budget = Budget(of=program.kinds, faults=0, runs=_RUNS_MAX)
    compared = 0
    for length in (1, 3, 6, 9):
        names = tuple(one.name for one in events[:-length])
        tail = Tail(script=program.script, names=names)
        every = exhaust(tail, Wiring(), budget, reduced=False)  # type: ignore[arg-type]
        if not every.exhausted:
            break
        some = exhaust(tail, Wiring(), budget)  # type: ignore[arg-type]
        assert some.endings == every.endings
        assert some.orders <= every.orders
        compared += 1
    assert compared


#: Functions, each with the seed of a program that shows that what it records is needed: a sample, and a check of what
#: `tests/explore/test_footprints.py` says of all of them.
_MUTED = {
    "ModelAnyClients._is_work_left": 7, "ModelAnyClients.ends": 7, "ModelLog._send": 5,
    "ModelLog.append": 5, "ModelNode.finish": 6, "ModelNode.markers": 6, "ModelNode.prepared": 6,
    "ModelSessions.take_idle": 22, "NodeSession.execute": 48, "PreparedTransaction._logged": 6,
    "PreparedTransaction.notify_change": 6, "Distribution._driven": 58, "Wal._flushed": 5,
    "Wal._wake": 114, "Wire._notify_work": 16, "Wire.ask": 1, "Wire.close": 34,
    "_Subscriber.hold.<locals>.take": 69, "notify_answer": 300, "prepare": 7,
}  # fmt: skip


@pytest.mark.parametrize("place", _MUTED)
def test_a_dependence_that_is_not_recorded_is_missed(place: str) -> None:
    """Without what one function records, events that do not commute are taken to be independent."""
    assert missed(place, _MUTED[place])


def missed(place: str, seed: int, draws: int = 12) -> str:
    """Neighbours in runs of a program that are independent only without what a function records, and do not commute.

    Empty: there are none.
    """
    program = generated(seed)
    muted = Runs(program.script, program.kinds, lambda: MutedKernel(place))
    whole = Runs(program.script, program.kinds)
    for draw in range(draws):
        events, run = muted.drawn(Random(f"{seed} {draw}"))
        recorded, _ = whole.again([one.name for one in events])
        known = whole.independent(recorded)
        wrong = [at for at in muted.independent(events) if at not in known]
        for what in muted.exchanged(events, run, wrong[:6]):
            return what
    return ""
