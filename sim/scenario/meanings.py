"""What each protection ensures, and what goes wrong without it; what each invariant says.

The one source of these words: scenarios.md and the explorer's page have them from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ProtectionMeaning(NamedTuple):
    """A protection in words, both parts without a capital and a full stop."""

    ensures: str
    without: str
    """What goes wrong where it is switched off, if the order comes to that."""


#: By the names under which twins switch them off.
PROTECTIONS: Mapping[str, ProtectionMeaning] = {
    name: ProtectionMeaning(ensures, without)
    for name, ensures, without in (
        (
            "version_check",
            "the Publisher refuses to change a row whose version is not the one of the Subscriber's copy",
            "a change that the writer has never seen is overwritten: a lost update",
        ),
        (
            "marker",
            "a branch names the Subscriber that it came from",
            "changes come back to the Subscriber that made them, as an echo",
        ),
        (
            "savepoint_mirror",
            "the Publisher's branch follows rollbacks to savepoints",
            "what was rolled back at the Subscriber is committed at the Publisher",
        ),
        (
            "not_for_replication",
            "agents do not fire our triggers",
            "what an agent delivers is sent to the Publisher as a new change",
        ),
        (
            "fence",
            "recovery prevents a late PREPARE from taking effect",
            "a branch is prepared after recovery has settled its transaction, and nobody finishes it",
        ),
        (
            "command_tag",
            "a vote is a command tag",
            "a PREPARE that was answered by ROLLBACK counts as a yes, and the other branches commit",
        ),
        (
            "decision_before_finish",
            "no branch is finished before the decision is durable",
            "after a crash recovery rolls back what is left of a transaction that is committed elsewhere",
        ),
        (
            "decision_kept",
            "the decision is forgotten when the last site has answered, not at the first answer",
            "a branch that is still prepared is rolled back, as nobody remembers the commit",
        ),
        (
            "sites_asked",
            "recovery asks the other sites before it presumes an outcome",
            "it rolls back a transaction that the last agent has committed",
        ),
        (
            "missing_looked_up",
            "a missing branch (42704) is looked up",
            "a branch that was never prepared, or was rolled back, is taken for a committed one",
        ),
        (
            "every_vote",
            "a single no aborts",
            "the other branches commit although one of them cannot",
        ),
        (
            "vote_heard",
            "a vote that does not arrive is not a yes",
            "a transaction commits although one of its branches is not prepared",
        ),
        (
            "one_subscription",
            "two Subscribers may write in one transaction only if that is allowed",
            "they may do so unasked",
        ),
        (
            "epoch",
            "a process that was presumed dead can no longer decide",
            "it commits what its successor has rolled back",
        ),
        (
            "snapshot_rule",
            "a call whose snapshot has not seen all earlier commits is sent as rows",
            "the call works on other rows at the Subscriber, and the copies differ",
        ),
        (
            "isolation_check",
            "a call that is not serializable is sent as rows",
            "its statements may have seen different moments, and the copies may differ",
        ),
        (
            "xact_abort",
            "an error ends the caller's statement, and the call is not sent",
            "the error is a warning, and the call is sent and fails at the Subscriber",
        ),
        (
            "calls",
            "a call is delivered as one command",
            "each row that it changes is a command of its own",
        ),
        (
            "deferral",
            "a download leaves a row that the Subscriber has changed since its upload",
            "that change is overwritten before anybody else has it",
        ),
        (
            "lineage",
            "an upload that brings what was superseded at the Publisher changes nothing",
            "an older row takes the place of a newer one",
        ),
        (
            "generation_snapshot",
            "a transaction that commits late belongs to the next generation",
            "its changes belong to a generation that was sent already, and travel never",
        ),
        (
            "column_versions",
            "of two rows that are merged each gives the columns that it has changed",
            "one of the two changes is lost, although they are of different columns",
        ),
        (
            "priority",
            "the changes of a server subscription have its priority",
            "a change of a lower priority can win against it",
        ),
        (
            "resolver",
            "a table's own resolver decides its conflicts",
            "the default one decides, by priority",
        ),
        (
            "compensation",
            "where a table compensates for errors, a change that fails is undone where it was made",
            "it stays there, and the copies differ",
        ),
        (
            "losers",
            "the row that has lost a conflict is kept",
            "nobody can see what it was",
        ),
        (
            "key_checks",
            "foreign keys are checked for merge agents, too",
            "rows come in whose parents are not there",
        ),
        (
            "guid_check",
            "a merge session notices that an end was restored from a backup, and compares everything",
            "what the restored node has lost is not sent to it again",
        ),
        (
            "schema",
            "a merge session has the Subscriber make schema changes before any row travels",
            "rows come with columns that its table does not have",
        ),
        (
            "past_mappings",
            "a row that has left a Subscriber's partition leaves the Subscriber",
            "it stays there as it was, and gets no more changes",
        ),
        (
            "past_touched",
            "what a Subscriber has sent, and does not belong to it, leaves it again",
            "it stays there, and gets no more changes",
        ),
        (
            "children_follow",
            "the rows below a row that comes into a partition, or leaves it, follow it",
            "a row is at a node without the rows that belong to it",
        ),
        (
            "file_commit",
            "the rows of a file of a snapshot, and the note that it has been delivered, are one commit",
            "after a crash a file is delivered again, or never",
        ),
        (
            "snapshot_generation",
            "a Subscriber begins with the generation that its snapshot is",
            "it does not get what has changed since the snapshot",
        ),
        (
            "identity_ranges",
            "each node draws the identity values of merged tables from ranges of its own",
            "two nodes give the same value to different rows",
        ),
    )
}

#: By the names under which scenarios ask for them.
INVARIANTS: Mapping[str, str] = {
    "atomic": "every global transaction took effect at all its participants or at none",
    "prepared_left": "no prepared branch is left",
    "versions_move_forward": "no row returns to an earlier version",
    "converged": "each Subscriber holds exactly the Publisher's rows that belong to it, in the same versions",
    "echoed": "no transaction was delivered to the Subscriber that made it",
    "no_lost_update": "no transaction overwrote a change that its Subscriber had not seen",
    "each_change_applied_once": "every change reached every Subscriber that it belongs to, once",
    "nothing_lost": "every committed change is in the Publisher's row, was changed later by somebody who had it, or is"
    " kept with a conflict",
}
