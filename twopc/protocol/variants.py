r"""The variants of two-phase commit, as data: which records are written, which are forced, and which messages are
acknowledged.

The machines read these flags and do not refer to any variant by name.

Sources: presumed abort and presumed commit, and the read-only vote, are those of R* (C. Mohan, B. Lindsay, R.
Obermarck: *Transaction Management in the R\* Distributed Database Management System*, 1986); last agent as in G.
Samaras, K. Britton, A. Citron, C. Mohan: *Two-Phase Commit Optimizations in a Commercial Distributed Environment*,
1995. The variant called presumed nothing is their plain two-phase commit: both outcomes are logged and
acknowledged. It makes one presumption nevertheless, and cannot avoid it: a transaction without records was aborted
(B. Lampson, D. Lomet: *A New Presumed Commit Optimization for Two Phase Commit*, 1993, name this).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from twopc.protocol.effects import Outcome


@dataclass(frozen=True, slots=True, kw_only=True)
class Variant:
    """One variant of the protocol."""

    name: str
    presumes: Outcome
    """Answer to an inquiry about a transaction of which the coordinator's log has no record."""
    collects: bool = False
    """Whether the coordinator forces the participants' names before it asks for the first vote."""
    logs_abort: bool = False
    """Whether the coordinator writes a record of an abort decision."""
    forces_abort: bool = False
    """Whether the coordinator forces the record of an abort before it sends the decision."""
    commit_acked: bool = True
    """Whether participants force their commit record and acknowledge; then the coordinator forgets."""
    abort_acked: bool = False
    """Whether participants force their abort record and acknowledge; then the coordinator forgets."""
    answers_always: bool = False
    """Whether participants force and acknowledge both outcomes, even if the variant does not require it."""
    read_only_votes: bool = True
    """Whether a branch that changed nothing ends with its vote."""
    last_agent: bool = False
    """Whether the last participant commits in one phase; its commit record is the decision."""

    @property
    def awaits_commit(self) -> bool:
        """Whether the coordinator sends a commit until it is acknowledged."""
        return self.commit_acked or self.answers_always

    @property
    def awaits_abort(self) -> bool:
        """Whether the coordinator sends an abort until it is acknowledged."""
        return self.abort_acked or self.answers_always

    def on_postgres(self) -> Variant:
        """Return the variant for participants that are PostgreSQL servers.

        COMMIT PREPARED and ROLLBACK PREPARED both flush the WAL and both return a result, so a coordinator that is
        alive can settle aborted branches itself, without waiting for their inquiries.
        """
        return replace(self, answers_always=True)


PRESUMED_ABORT: Final = Variant(name="presumed_abort", presumes=Outcome.ABORTED)

PRESUMED_COMMIT: Final = Variant(
    name="presumed_commit",
    presumes=Outcome.COMMITTED,
    collects=True,
    logs_abort=True,
    commit_acked=False,
    abort_acked=True,
)

PRESUMED_NOTHING: Final = Variant(
    name="presumed_nothing",
    presumes=Outcome.ABORTED,
    logs_abort=True,
    forces_abort=True,
    abort_acked=True,
    read_only_votes=False,
)

LAST_AGENT: Final = Variant(name="last_agent", presumes=Outcome.ABORTED, last_agent=True)

#: Variants by the name used in scenario files and on the command line.
VARIANTS: Final = {
    variant.name: variant
    for variant in (PRESUMED_ABORT, PRESUMED_COMMIT, PRESUMED_NOTHING, LAST_AGENT)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """Settings of a machine; one value serves any number of machines."""

    variant: Variant = PRESUMED_ABORT
    vote_timeout_s: float = 30.0
    """Time that the coordinator waits for votes, or for the last agent's answer, before it aborts or fences the
    agent.
    """
    resend_s: float = 1.0
    """Interval at which unacknowledged messages are sent again, or the log is read back again."""
    inquiry_s: float = 1.0
    """Interval at which a prepared branch inquires."""
    idle_timeout_s: float = 60.0
    """Time after which an unprepared branch that receives no message rolls back."""
    answer_early: bool = True
    """Whether the application is answered at the decision. If not, it is answered once every branch is settled, or
    an acknowledgement is overdue. The answer is the same.
    """
    finish_in_turn: bool = False
    """Whether a branch is sent the commit only when the one before has acknowledged (or the timer fired), so that
    no client sees a later participant committed and an earlier one still prepared.
    """
