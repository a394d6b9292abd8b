"""Bugs of recovery: wrong assumptions about dead processes and missing answers, and passes that stop too early."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import psycopg

from twopc.drivers.keeper import Keeper
from twopc.drivers.ports import Key, ParticipantPort
from twopc.drivers.recovery import Recovery, SettledBranch
from twopc.drivers.settlement import Branches
from twopc.names import PREFIX, BranchId
from twopc.protocol.effects import Outcome
from twopc.protocol.recovery import Action, BranchFacts, BranchVerdict
from twopc.protocol.variants import Variant
from twopc.sim.model.explore.results import Budget, PlantedBug
from twopc.sim.model.sites import ModelSite
from twopc.sim.model.wiring import replacing


class TakesBusy(Keeper):
    """A keeper that recovers prepared, undecided branches even if a driver of its process is working on them."""

    def _active(self) -> set[Key]:
        return set()


class RecoversOnce(Keeper):
    """A keeper that runs recovery only at the start."""

    async def watch(self, goes_on: Callable[[], bool]) -> None:
        """See `Keeper`."""


class Sweeps(Recovery):
    """A recovery that also rolls back the branches of other coordinators."""

    async def run(
        self, *, own: Iterable[int] = (), unsettled: set[Key] | None = None,
        active: Callable[[], set[Key]] = set,
    ) -> list[SettledBranch]:  # fmt: skip
        """See `Recovery`; afterwards, roll back every branch of another coordinator."""
        result = await super().run(own=own, unsettled=unsettled, active=active)
        for site in self._participants.values():
            try:
                for gid in await site.prepared(f"{PREFIX}:"):
                    branch = BranchId.parse(gid)
                    if branch is not None and branch.global_id.coordinator != self._coordinator:
                        await site.settle(gid, Outcome.ABORTED, [])
            except psycopg.Error:
                continue
        return result


class LooksOnce(Recovery):
    """A recovery that rolls back all prepared branches without a decision in one reading of the log."""

    async def run(
        self, *, own: Iterable[int] = (), unsettled: set[Key] | None = None,
        active: Callable[[], set[Key]] = set,
    ) -> list[SettledBranch]:  # fmt: skip
        """Make one pass, without regard to running transactions."""
        every = await self._decisions.epochs(self._coordinator)
        known = await self._decisions.decisions([one.epoch for one in every], [])
        for site in self._participants.values():
            try:
                for gid in await site.prepared(f"{PREFIX}:{self._coordinator}:"):
                    branch = BranchId.parse(gid)
                    if branch is None:
                        continue
                    key = branch.global_id.epoch, branch.global_id.sequence
                    outcome = Outcome.COMMITTED if key in known else Outcome.ABORTED
                    await site.settle(gid, outcome, [])
            except psycopg.Error:
                continue
        return []


class ListsWholeServer(Recovery):
    """A recovery that finishes branches in the wrong database, as pg_prepared_xacts lists those of all."""

    async def _prepared(
        self, participants: Iterable[ParticipantPort], seen: Any
    ) -> dict[str, tuple[str, BranchId]]:
        """Return all branches as if each were in the last database that was asked."""
        asked = [*participants]
        result = await super()._prepared(self._participants.values(), seen)
        return {gid: (asked[-1].name, branch) for gid, (_, branch) in result.items() if asked}


class PresumesCommit(Recovery):
    """A recovery that commits every prepared branch, because it has voted yes."""

    def _judge(self, facts: BranchFacts, variant: Variant) -> BranchVerdict:
        return BranchVerdict(action=Action.COMMIT, reason="it has voted yes")


class PresumesForAgent(Recovery):
    """A recovery that presumes abort without asking the last agent."""

    def _judge(self, facts: BranchFacts, variant: Variant) -> BranchVerdict:
        return BranchVerdict(action=Action.ABORT, reason="no decision was logged")

    async def _settle_undecided(self, seen: Any, gid: str, node: str, branch: BranchId) -> None:
        await self._finish(seen, gid, node, Outcome.ABORTED, "no decision was logged")


class AsksWithoutFence(ModelSite):
    """A node access that takes a missing branch for rolled back, without a fence."""

    async def fence(self, gid: str, sites: list[str]) -> Outcome | None:
        """Return the outcome, without a fence against a late PREPARE TRANSACTION."""
        if await self.owner_of(gid) is not None:
            return None
        known = await self.markers([gid])
        if gid in known:
            return Outcome.ABORTED if known[gid] else Outcome.COMMITTED
        return Outcome.ABORTED

    async def end_sessions(self, names: list[str]) -> list[int]:
        """End no sessions, so that they may still prepare."""
        return []

    async def end_session(self, pid: int, started: str) -> None:
        """End no session, so that it may still prepare."""


class MissingTaken(Branches):
    """A node access that takes a missing branch for finished with the wanted outcome."""

    async def settle(self, gid: str, outcome: Outcome, sites: list[str]) -> Outcome:
        """Finish the branch if it exists, and return the wanted outcome."""
        owner = await self.owner_of(gid)
        if owner is not None:
            await self.finish(gid, owner, outcome)
        return outcome


class TakesMissing(MissingTaken, ModelSite):
    """`MissingTaken` in the model."""


class TakesUnreachable(ModelSite):
    """A node access that takes a branch at an unreachable node for settled."""

    async def settle(self, gid: str, outcome: Outcome, sites: list[str]) -> Outcome:
        """Settle the branch, and ignore a lost connection."""
        try:
            return await super().settle(gid, outcome, sites)
        except psycopg.Error:
            return outcome


_KILLED = Budget(of=("coordinator",), deviations=0)

PLANTS = (
    PlantedBug(
        name="sweeps_by_prefix",
        why="another coordinator's branches are called alike, and it is alive",
        source="Citus #1030",
        plant=replacing(recovery=Sweeps),
        program="beside another coordinator",
        budget=Budget(faults=0, deviations=0),
        breaks=("I6",),
    ),
    PlantedBug(
        name="one_pass_recovery",
        why="between two looks a transaction goes on, and its coordinator may be alive",
        source="Citus #1696",
        plant=replacing(recovery=LooksOnce),
        program="transfer",
        budget=Budget(of=("another",), deviations=0),
        breaks=("I1", "I3"),
    ),
    PlantedBug(
        name="takes_what_is_busy",
        why="what a driver of the same process is committing is not left over",
        source="C. Mohan, B. Lindsay, R. Obermarck: recovery is for transactions without a process",
        plant=replacing(keeper=TakesBusy),
        program="transfer, and later",
        budget=Budget(of=("pause",), deviations=1),
        breaks=("I1", "I5"),
    ),
    PlantedBug(
        name="recovers_once",
        why="what is over is forgotten by later passes, and what a driver could not settle is settled by them",
        source="Citus' maintenance daemon: recovery at intervals",
        plant=replacing(keeper=RecoversOnce),
        program="transfer",
        budget=Budget(faults=0, deviations=0),
        breaks=("I5",),
    ),
    PlantedBug(
        name="wrong_database_gid",
        why="a prepared transaction can be finished in its own database only",
        source="Citus #6548",
        plant=replacing(recovery=ListsWholeServer),
        program="transfer",
        budget=_KILLED,
        breaks=("I5",),
    ),
    PlantedBug(
        name="missing_is_commit",
        why="a branch without a decision is aborted: others may not have voted",
        source="C. Mohan, B. Lindsay, R. Obermarck: presumed abort",
        plant=replacing(recovery=PresumesCommit),
        program="transfer",
        budget=_KILLED,
        breaks=("I1", "I2", "I3", "I8"),
    ),
    PlantedBug(
        name="presumes_for_agent",
        why="where the last agent decides, its branch has to be asked",
        source="X/Open's last resource gambit",
        plant=replacing(recovery=PresumesForAgent),
        program="transfer by last agent",
        budget=_KILLED,
        breaks=("I1", "I3"),
    ),
    PlantedBug(
        name="fence",
        why="what was sent before the crash may arrive after recovery",
        source="Greenplum #10393",
        plant=replacing(site=AsksWithoutFence),
        program="transfer by last agent",
        budget=replace(_KILLED, deviations=1),
        breaks=("I1", "I3"),
    ),
    PlantedBug(
        name="missing_is_committed",
        why="that a branch is not there (42704) does not say how it ended",
        source="pgdog #1271",
        plant=replacing(site=TakesMissing),
        program="transfer",
        budget=Budget(of=("hand",), deviations=0),
        breaks=("I1", "I3"),
    ),
    PlantedBug(
        name="stops_at_first_error",
        why="who could not be told is to be told later: the decision is needed until then",
        source="Citus' recovery of distributed transactions",
        plant=replacing(site=TakesUnreachable),
        program="transfer",
        budget=Budget(of=("subscriber away",), deviations=0),
        breaks=("I1", "I3"),
    ),
)
