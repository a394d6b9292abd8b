"""The variants of two-phase commit, as data: who logs, who forces, who acknowledges.

The machines read these flags and know no variant by name.

Sources: presumed abort and presumed commit, and the read-only vote, are those of R* (C. Mohan,
B. Lindsay, R. Obermarck: *Transaction Management in the R\\* Distributed Database Management
System*, 1986); last agent as in G. Samaras, K. Britton, A. Citron, C. Mohan: *Two-Phase Commit
Optimizations in a Commercial Distributed Environment*, 1995. What is called presumed nothing is
their plain two-phase commit: both outcomes are logged and acknowledged. It does presume one thing,
and had to: what the log knows nothing of was aborted (B. Lampson, D. Lomet: *A New Presumed Commit
Optimization for Two Phase Commit*, 1993, name this).
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
    """What an inquiry is answered when the coordinator's log knows nothing."""
    collects: bool = False
    """The coordinator forces the participants' names before it asks for the first vote."""
    logs_abort: bool = False
    """The coordinator writes an abort decision."""
    forces_abort: bool = False
    """... and forces it before telling anybody."""
    commit_acked: bool = True
    """A participant forces its commit record and acknowledges; then the coordinator forgets."""
    abort_acked: bool = False
    """The same for abort."""
    answers_always: bool = False
    """Participants force and acknowledge both outcomes, whatever the variant asks for."""
    read_only_votes: bool = True
    """A branch that changed nothing leaves with its vote."""
    last_agent: bool = False
    """The last participant commits in one phase; its commit record is the decision."""

    @property
    def awaits_commit(self) -> bool:
        """The coordinator sends commit until it is acknowledged."""
        return self.commit_acked or self.answers_always

    @property
    def awaits_abort(self) -> bool:
        """The coordinator sends abort until it is acknowledged."""
        return self.abort_acked or self.answers_always

    def on_postgres(self) -> Variant:
        """The variant with PostgreSQL as participant.

        COMMIT PREPARED and ROLLBACK PREPARED both flush the WAL and both answer, so a coordinator
        that lives can settle aborted branches itself, without waiting for them to ask.
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

#: By the name used in scenario files and on the command line.
VARIANTS: Final = {
    variant.name: variant
    for variant in (PRESUMED_ABORT, PRESUMED_COMMIT, PRESUMED_NOTHING, LAST_AGENT)
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """What a machine is made with; one value serves any number of machines."""

    variant: Variant = PRESUMED_ABORT
    vote_timeout_s: float = 30.0
    """How long the coordinator waits for votes (for the last agent's answer) before it gives up."""
    resend_s: float = 1.0
    """After how long what was not acknowledged is sent, or read back, again."""
    inquiry_s: float = 1.0
    """After how long a prepared branch asks, again and again."""
    idle_timeout_s: float = 60.0
    """After how long an unprepared branch that hears nothing rolls back."""
    answer_early: bool = True
    """True: the application is answered at the decision; False: once every branch is settled, or
    an acknowledgement is overdue. The answer is the same."""
    finish_in_turn: bool = False
    """True: a branch is told to commit when the one before has acknowledged (or the timer fired),
    so that nobody sees a later participant committed and an earlier one still prepared."""
