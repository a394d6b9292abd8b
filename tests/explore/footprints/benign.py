"""Accesses of concurrent events whose order has no effect.

An entry names a class, an attribute, or a part of it (see `accesses.name_of`). To restrict it to some accesses it also
names one function, or both: ``Class.attribute | function | other function``. A function may be the one that makes the
access, or its caller.
"""

from __future__ import annotations

#: Entries with their reasons.
BENIGN = {
    "StatementPlans": "a cache",
    "ShortPaths": "a cache",
    "ModelNode.sessions[#]": "compared with a limit that no program reaches, and by `_notify_branch`, which only notifies the search",
    "ModelNode._retired": "versions that no transaction can see any more",
    "DecisionLedger.flushes": "statistics",
    "LogHost | DecisionLedger.write | System.restart_node": "a write from before the crash fails in any case",
    "Wal | Wal.trim": "removes only records that are durable and that every reader has passed",
    "TopXact.state | prepare": "other events only read whether the transaction has ended",
    "ModelNode.branches[#] | _notify_branch": "the search is notified as soon as slots could run out",
    "Event.callbacks | Interruption._interrupt | Process._resume": "removing one waiter does not change the order of the others",
    "SessionNames._by_name | SessionNames.add | SessionNames.add": "either event may create the empty entry",
    "ModelNode.branches[*] | ModelNode.prepared | prepare": "branches that are not valid yet are skipped",
    "ModelNode.branches[*] | ModelNode.prepared_by | prepare": "branches that are not valid yet are skipped",
    "Network.wires | Network.node_lost": "wires of other nodes are skipped; users of a node's wire notify the search",
    "Engine.active | CoordinatorEngine._end": "only `stop` waits until no transaction is left",
    "Engine.active | Keeper._active": "`_Open` notifies the search of each transaction that is looked up",
    "Transaction.ids | Keeper._active": "`_Open` notifies the search of each transaction that is looked up",
    "SeveralTransaction.ids | Keeper._active": "`_Open` notifies the search of each transaction that is looked up",
    "DecisionLedger | LedgerSession.fence | LedgerSession.open_epoch": "a session that opens an epoch holds it",
    "DecisionLedger.decisions[*] | LedgerSession.decided": "decisions of other epochs are skipped",
    "DecisionLedger | Evidence._decided": "evidence for the invariants, which no event reads",
    "HeapRow.versions | HeapTable.committed": "uncommitted versions are skipped; a commit changes the transaction",
    "HeapTable.all_rows | HeapTable.committed": "uncommitted rows are skipped",
    "HeapTable.locks | Locks.release_table": "weak locks conflict only with strong ones, which notify the search",
    "HeapTable.waiting | Locks.release_table": "weak locks conflict only with strong ones, which notify the search",
    "ModelLog._forgotten | ModelLog.forget | ModelLog.forget": "their order has no effect",
    "ModelNode.commit_no | NodeSession.begin": "a bound for the removal of old versions",
    "Network.wires | Network.client_lost": "wires of other clients are skipped",
    "MarkerRetention._settled": "added entries are in the order of time, and due after a minute",
}
