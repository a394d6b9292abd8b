"""Descriptions of protections, of the consequences without them, and of invariants.

scenarios.md and the explorer's page take these texts from here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple


class ProtectionMeaning(NamedTuple):
    """Description of a protection; both texts are without a capital and a full stop."""

    ensures: str
    without: str
    """What fails if the protection is switched off, in an order that depends on it."""


#: Protections by their names in twins.
PROTECTIONS: Mapping[str, ProtectionMeaning] = {
    "version_check": ProtectionMeaning(
        "the Publisher refuses to change a row whose version is not the one of the Subscriber's copy",
        "a change that the writer has never seen is overwritten: a lost update",
    ),
    "marker": ProtectionMeaning(
        "a branch names the Subscriber that it came from",
        "changes come back to the Subscriber that made them, as an echo",
    ),
    "savepoint_mirror": ProtectionMeaning(
        "the Publisher's branch follows rollbacks to savepoints",
        "what was rolled back at the Subscriber is committed at the Publisher",
    ),
    "not_for_replication": ProtectionMeaning(
        "agents do not fire our triggers",
        "what an agent delivers is sent to the Publisher as a new change",
    ),
    "fence": ProtectionMeaning(
        "recovery prevents a late PREPARE from taking effect",
        "a branch is prepared after recovery has settled its transaction, and is never finished",
    ),
    "command_tag": ProtectionMeaning(
        "a vote is a command tag",
        "a PREPARE that was answered by ROLLBACK counts as a yes, and the other branches commit",
    ),
    "decision_before_finish": ProtectionMeaning(
        "no branch is finished before the decision is durable",
        "after a crash recovery rolls back the remaining branches of a transaction that is committed elsewhere",
    ),
    "decision_kept": ProtectionMeaning(
        "the decision is forgotten when the last site has answered, not at the first answer",
        "a branch that is still prepared is rolled back, as the commit is no longer recorded",
    ),
    "sites_asked": ProtectionMeaning(
        "recovery asks the other sites before it presumes an outcome",
        "it rolls back a transaction that the last agent has committed",
    ),
    "missing_looked_up": ProtectionMeaning(
        "a missing branch (42704) is looked up",
        "a branch that was never prepared, or was rolled back, is taken for a committed one",
    ),
    "every_vote": ProtectionMeaning(
        "a single no aborts",
        "the other branches commit although one of them cannot",
    ),
    "vote_heard": ProtectionMeaning(
        "a vote that does not arrive is not a yes",
        "a transaction commits although one of its branches is not prepared",
    ),
    "one_subscription": ProtectionMeaning(
        "two Subscribers may write in one transaction only if that is allowed",
        "they may do so without being allowed",
    ),
    "epoch": ProtectionMeaning(
        "a process that was presumed dead can no longer decide",
        "it commits what its successor has rolled back",
    ),
    "snapshot_rule": ProtectionMeaning(
        "a call whose snapshot has not seen all earlier commits is sent as rows",
        "the call works on other rows at the Subscriber, and the copies differ",
    ),
    "isolation_check": ProtectionMeaning(
        "a call that is not serializable is sent as rows",
        "its statements may have seen different moments, and the copies may differ",
    ),
    "xact_abort": ProtectionMeaning(
        "an error ends the caller's statement, and the call is not sent",
        "the error is a warning, and the call is sent and fails at the Subscriber",
    ),
    "calls": ProtectionMeaning(
        "a call is delivered as one command",
        "each row that it changes is a command of its own",
    ),
    "deferral": ProtectionMeaning(
        "a download leaves a row that the Subscriber has changed since its upload",
        "that change is overwritten before any other node has it",
    ),
    "lineage": ProtectionMeaning(
        "an upload of a version that was superseded at the Publisher changes nothing",
        "an older row replaces a newer one",
    ),
    "generation_snapshot": ProtectionMeaning(
        "a transaction that commits late belongs to the next generation",
        "its changes belong to a generation that was sent already, and are never sent",
    ),
    "column_versions": ProtectionMeaning(
        "two rows are merged by the columns that each has changed",
        "one of the two changes is lost, although they are of different columns",
    ),
    "priority": ProtectionMeaning(
        "the changes of a server subscription have its priority",
        "a change of a lower priority can win against it",
    ),
    "resolver": ProtectionMeaning(
        "a table's own resolver decides its conflicts",
        "the default one decides, by priority",
    ),
    "compensation": ProtectionMeaning(
        "where a table compensates for errors, a change that fails is undone where it was made",
        "it stays there, and the copies differ",
    ),
    "losers": ProtectionMeaning(
        "the row that has lost a conflict is recorded",
        "its values cannot be seen any more",
    ),
    "key_checks": ProtectionMeaning(
        "foreign keys are checked for merge agents, too",
        "rows arrive whose parents do not exist",
    ),
    "guid_check": ProtectionMeaning(
        "a merge session detects that a node was restored from a backup, and compares everything",
        "what the restored node has lost is not sent to it again",
    ),
    "schema": ProtectionMeaning(
        "a merge session makes schema changes at the Subscriber before it sends any row",
        "rows arrive with columns that its table does not have",
    ),
    "past_mappings": ProtectionMeaning(
        "a row that has left a Subscriber's partition leaves the Subscriber",
        "it stays there as it was, and gets no more changes",
    ),
    "past_touched": ProtectionMeaning(
        "a row that a Subscriber has sent, and that does not belong to it, leaves it again",
        "it stays there, and gets no more changes",
    ),
    "children_follow": ProtectionMeaning(
        "the rows below a row that enters a partition, or leaves it, follow it",
        "a row is at a node without the rows that belong to it",
    ),
    "file_commit": ProtectionMeaning(
        "the rows of a file of a snapshot, and the record of its delivery, are one commit",
        "after a crash a file is delivered again, or never",
    ),
    "snapshot_generation": ProtectionMeaning(
        "a Subscriber begins with the generation of its snapshot",
        "it does not get the changes made since the snapshot",
    ),
    "identity_ranges": ProtectionMeaning(
        "each node draws the identity values of merged tables from ranges of its own",
        "two nodes assign the same value to different rows",
    ),
}

#: Invariants by their names in `expect`.
INVARIANTS: Mapping[str, str] = {
    "atomic": "every global transaction took effect at all its participants or at none",
    "prepared_left": "no prepared branch is left",
    "versions_move_forward": "no row returns to an earlier version",
    "converged": "each Subscriber holds exactly the Publisher's rows that belong to it, in the same versions",
    "echoed": "no transaction was delivered to the Subscriber that made it",
    "no_lost_update": "no transaction overwrote a change that its Subscriber had not seen",
    "each_change_applied_once": "every change reached every Subscriber that it belongs to, once",
    "nothing_lost": "every committed change is in the Publisher's row, was replaced later by a change that includes it,"
    " or is recorded with a conflict",
}
