"""The judge of an encounter: an administrator, then a handler, then a resolver. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from twopc.merge.decision import Side, Verdict
from twopc.merge.encounters import MergeEncounter, Resolution, Row, checked, standing
from twopc.merge.handlers import MergeHandler, asked, resolution
from twopc.merge.resolvers import MergeResolver

JUDGE_FAILED = "P0001"
"""SQLSTATE of a change for which a resolver or a handler raised an exception, or returned an invalid answer."""
REJECTED = "27000"
"""SQLSTATE of a change that a resolver or a handler has rejected: triggered_data_change_violation."""

Fault = tuple[str, str]
"""SQLSTATE and reason."""
_UNJUDGED = (Verdict.SKIP, Verdict.DEFER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """The judge of the rows of one article, in one direction."""

    is_upload: bool
    resolver: MergeResolver | None = None
    """The resolver; for uploads only."""
    handler: MergeHandler | None = None
    compensates: bool = False
    answers: dict[UUID, tuple[MergeEncounter, Resolution]] = field(default_factory=dict)
    """Answers of an administrator, each with the encounter as it was shown; an answer counts for that encounter
    only.
    """
    settled: dict[UUID, Row | None] = field(default_factory=dict)
    """Rows of an upload as the handler left them: the handler is not called again when they are downloaded to the
    node from which they came, to undo there the changes that it rejected.
    """

    @property
    def is_asked(self) -> bool:
        """Whether rows must be judged before they are applied."""
        return self.resolver is not None or self.handler is not None or bool(self.answers)

    def rule(self, encounter: MergeEncounter) -> Resolution | None:
        """Return the resolution of an encounter; None for the default.

        Raises:
            Exception: whatever a user's code raises; ValueError if its answer is not valid.
        """
        if encounter.default.verdict in _UNJUDGED:
            return None
        shown, answer = self.answers.get(encounter.rowguid, (None, None))
        if shown == encounter:
            return checked(answer, encounter)
        if self.handler is not None and not self._is_settled(encounter):
            made = checked(resolution(asked(self.handler, encounter)), encounter)
            if made is not None:
                return self._settle(encounter, made)
        if self.resolver is not None and (encounter.conflict is not None or self.resolver.asks_all):
            return checked(self.resolver.decide(encounter), encounter)
        return None

    def rule_failure(self, encounter: MergeEncounter, fault: Fault) -> Resolution | None:
        """Return the resolution of a change that has failed; None if it is retried in each session."""
        if self.handler is not None:
            made = checked(resolution(self.handler.failed_change(encounter, *fault)), encounter)
            if made is not None and (made.winner is Side.HELD or made.row is not None):
                return self._settle(encounter, made)
        if not self.compensates:
            return None
        return self._settle(encounter, Resolution(winner=Side.HELD))

    def _is_settled(self, encounter: MergeEncounter) -> bool:
        """Return whether no judgement is needed: the row does not change, or was decided when it was uploaded."""
        if encounter.is_same and encounter.conflict is None:
            return True
        is_left = not encounter.is_upload and encounter.rowguid in self.settled
        return is_left and self.settled[encounter.rowguid] == encounter.incoming

    def _settle(self, encounter: MergeEncounter, ruling: Resolution) -> Resolution:
        if encounter.is_upload:
            winner = ruling.winner or encounter.winner
            row = encounter.held if winner is Side.HELD else encounter.incoming
            if ruling.row is not None:
                row = {**standing(encounter, winner)[1], **ruling.row}
            self.settled[encounter.rowguid] = row
        return ruling


@dataclass(frozen=True, slots=True, kw_only=True)
class Judgement:
    """Resolutions of the rows of a slice."""

    resolutions: Mapping[UUID, Resolution] = field(default_factory=dict)
    faults: Mapping[UUID, Fault] = field(default_factory=dict)
    """Rows for which the judge failed, which are not applied."""


def judged(judge: Judge, encounters: Sequence[MergeEncounter]) -> Judgement:
    """Judge each row; an exception concerns that row alone."""
    resolutions: dict[UUID, Resolution] = {}
    faults: dict[UUID, Fault] = {}
    for encounter in encounters:
        try:
            ruling = judge.rule(encounter)
        except Exception as error:
            faults[encounter.rowguid] = JUDGE_FAILED, _reason(error)
        else:
            if ruling is not None:
                resolutions[encounter.rowguid] = ruling
    return Judgement(resolutions=resolutions, faults=faults)


def _reason(error: Exception) -> str:
    return f"a resolver or handler failed: {type(error).__name__}: {error}"


def is_rejected(encounter: MergeEncounter, ruling: Resolution) -> bool:
    """Return whether a change that would have been applied is undone without a conflict that records it."""
    return (
        ruling.winner is Side.HELD
        and ruling.row is None
        and encounter.conflict is None
        and encounter.default.verdict in (Verdict.APPLY, Verdict.MERGE)
    )


def is_fault_of_row(sqlstate: str | None) -> bool:
    """Return whether an error concerns the row that was written, not a time limit, a resource or the server."""
    return (
        sqlstate is not None
        and sqlstate[:2] not in {"40", "53", "57", "58", "XX", "08"}
        and sqlstate != "55P03"
    )
