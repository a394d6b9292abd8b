"""Bugs of transactions at several Subscribers, each of which must have its own vote and its own mark."""

from __future__ import annotations

from twopc.drivers.several import SeveralDriver
from twopc.protocol import events as e
from twopc.sim.model.explore.results import Budget, PlantedBug
from twopc.sim.model.replication.articles import link_role
from twopc.sim.model.wiring import replacing, ruled_by


class AsksOne(SeveralDriver):
    """A driver that takes the votes of one Subscriber for those of all."""

    __slots__ = ()

    async def _collect_votes(self) -> None:
        await super()._collect_votes()
        first = self._ballots[0]
        if all(isinstance(self._votes[one], e.VotedYes) for one in (first.publisher, first.subscriber)):  # fmt: skip
            for name in self._votes:
                self._votes[name] = e.VotedYes(participant=name)


_PROGRAM = "transfer between Subscribers"

PLANTS = (
    PlantedBug(
        name="one_vote_for_all",
        why="each branch has a vote of its own",
        source="J. Gray, A. Reuter, Transaction Processing, 10.4",
        plant=replacing(several=AsksOne),
        program=_PROGRAM,
        budget=Budget(of=("backend",), deviations=0),
        breaks=("I1", "I3"),
    ),
    PlantedBug(
        name="one_mark",
        why="where a transaction has one mark of where it came from, the last Subscriber's overwrites the others'",
        source="the original's restriction: two subscription databases in one transaction",
        # as in the original: the last Subscriber's mark overwrites the others
        plant=ruled_by(marker=lambda _: link_role("sub2")),
        program=_PROGRAM,
        budget=Budget(faults=0, deviations=0),
        breaks=("echoed", "converged"),
    ),
)
