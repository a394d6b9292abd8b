"""Uses of state by concurrent events whose order nobody can see.

An entry names a class, an attribute, or a part of it (see `accesses.name_of`), and if only some uses are meant, one
function, or both: ``Class.attribute | function | other function``. A function may be that which uses it, or its caller.
"""

from __future__ import annotations

#: Entries with their reasons.
BENIGN = {
    "StatementPlans": "a cache",
    "ShortPaths": "a cache",
    "ModelNode.sessions[#]": "their number is compared with limits that no program reaches",
    "ModelNode._retired": "versions that no transaction sees any more",
    "DecisionLedger.flushes": "statistics",
    "LogHost | DecisionLedger.write | System.restart_node": "a write from before the crash fails in any case",
    "Wal | Wal.trim": "it takes away what is durable and every reader has passed",
    "TopXact.state | prepare": "others ask only whether it has ended",
    "ModelNode.branches[#] | _note_branch": "whether slots run out is asked with one to spare for each session",
    "Event.callbacks | Interruption._interrupt | Process._resume": "who is taken out does not change the order of others",
    "SessionNames._by_name | SessionNames.add | SessionNames.add": "who comes first makes the list",
    "ModelNode.branches[*] | ModelNode.prepared | prepare": "what is not valid yet is passed over",
    "ModelNode.branches[*] | ModelNode.prepared_by | prepare": "likewise",
    "Network.wires | Network.node_lost": "it passes over the wires of other nodes; what uses a node's wire tells that",
    "Engine.active | CoordinatorEngine._end": "only `stop` waits until no transaction is left",
    "Engine.active | Keeper._active": "`_Open` tells of each transaction that is looked for",
    "Transaction.ids | Keeper._active": "likewise",
    "SeveralTransaction.ids | Keeper._active": "likewise",
    "DecisionLedger | LedgerSession.fence | LedgerSession.open_epoch": "who opens an epoch holds it",
    "DecisionLedger.decisions[*] | LedgerSession.decided": "it passes over the decisions of other epochs",
    "DecisionLedger | Evidence._decided": "evidence, of which no event takes notice",
    "HeapRow.versions | HeapTable.committed": "what is not committed is passed over; commits change the transaction",
    "HeapTable.all_rows | HeapTable.committed": "what is not committed is passed over",
    "HeapTable.locks | Locks.release_table": "weak locks exclude only strong ones, whose release and wait are told",
    "HeapTable.waiting | Locks.release_table": "weak locks exclude only strong ones, whose release and wait are told",
    "ModelLog._forgotten | ModelLog.forget | ModelLog.forget": "their order is irrelevant",
    "ModelNode.commit_no | NodeSession.begin": "a bound for the removal of old versions",
    "Network.wires | Network.client_lost": "it passes over the wires of other clients",
    "MarkerRetention._settled": "what is added is not due for a minute, and in the order of time",
}
