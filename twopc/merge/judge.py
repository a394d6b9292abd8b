"""Who is asked about a row on its way, and in which order: an administrator, a handler, a resolver. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from uuid import UUID

from twopc.merge.decision import Side, Verdict
from twopc.merge.encounters import MergeEncounter, Resolution, Row, checked, standing
from twopc.merge.handlers import MergeHandler, asked, resolution
from twopc.merge.resolvers import MergeResolver

JUDGE_FAILED = "P0001"
"""SQLSTATE of a change about which a resolver or a handler has raised an exception, or talked nonsense."""
REJECTED = "27000"
"""SQLSTATE of a change that a resolver or a handler has rejected: triggered_data_change_violation."""

Fault = tuple[str, str]
"""SQLSTATE and reason."""
_LEFT = (Verdict.SKIP, Verdict.DEFER)


@dataclass(frozen=True, slots=True, kw_only=True)
class Judge:
    """What is asked about the rows of one article, in one direction."""

    is_upload: bool
    resolver: MergeResolver | None = None
    """On the way up alone."""
    handler: MergeHandler | None = None
    compensates: bool = False
    answers: dict[UUID, tuple[MergeEncounter, Resolution]] = field(default_factory=dict)
    """What somebody has said of rows as they were shown to him; it counts for those alone."""
    settled: dict[UUID, Row | None] = field(default_factory=dict)
    """What the handler has left of rows on the way up: it is not asked about them again when they go down to where
    they came from, and undo there what it has rejected."""

    @property
    def is_asked(self) -> bool:
        """Somebody must be asked about rows before they are applied."""
        return self.resolver is not None or self.handler is not None or bool(self.answers)

    def rule(self, encounter: MergeEncounter) -> Resolution | None:
        """What becomes of a row; None: as by default.

        Raises:
            Exception: whatever a user's code raises; ValueError if its answer makes no sense.
        """
        if encounter.default.verdict in _LEFT:
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
        """What becomes of a change that has failed; None: it is tried again in each session."""
        if self.handler is not None:
            made = checked(resolution(self.handler.failed_change(encounter, *fault)), encounter)
            if made is not None and (made.winner is Side.HELD or made.row is not None):
                return self._settle(encounter, made)
        if not self.compensates:
            return None
        return self._settle(encounter, Resolution(winner=Side.HELD))

    def _is_settled(self, encounter: MergeEncounter) -> bool:
        """Nothing is left to ask about: the row does not change, or is one that was decided about on its way up."""
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
    """What becomes of the rows of a slice."""

    resolutions: Mapping[UUID, Resolution] = field(default_factory=dict)
    faults: Mapping[UUID, Fault] = field(default_factory=dict)
    """Rows about which the judge has failed: they are not applied."""


def judged(judge: Judge, encounters: Sequence[MergeEncounter]) -> Judgement:
    """Ask about each row; what is raised concerns that row alone."""
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
    """A change that would have been applied is undone, without a conflict that says so."""
    return (
        ruling.winner is Side.HELD
        and ruling.row is None
        and encounter.conflict is None
        and encounter.default.verdict in (Verdict.APPLY, Verdict.MERGE)
    )


def is_fault_of_row(sqlstate: str | None) -> bool:
    """Whether an error concerns the row that was written: not time, room or the server."""
    return (
        sqlstate is not None
        and sqlstate[:2] not in {"40", "53", "57", "58", "XX", "08"}
        and sqlstate != "55P03"
    )
