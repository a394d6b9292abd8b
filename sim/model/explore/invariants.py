"""Invariants of every run, judged by its evidence: each check returns the violations as texts.

The numbered names are those of the same rules in the crash matrix; the other names are of checks of tables.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from twopc.names import BranchId
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import Message, RecordKind
from twopc.sim.model.explore.evidence import COMMITTED, FENCED, PREPARED, Evidence


def atomic(evidence: Evidence) -> list[str]:
    """I1: at the end, every branch of a transaction is committed, or none is."""
    committed = evidence.committed()
    lines = [
        f"{gid} is committed, and {other} is not"
        for gid, others in evidence.participants.items()
        if gid in committed
        for other in others
        if other not in committed and other not in _read_only(evidence, gid)
        if not _has_damage(evidence, (gid, other))
    ]
    damage = [one for one in evidence.damage if one.gid not in evidence.by_hand]
    return [
        *lines,
        *[f"{one.gid} is {one.outcome}: {one.decided} was decided" for one in damage],
    ]


def _has_damage(evidence: Evidence, gids: tuple[str, ...]) -> bool:
    """Return whether an operator has finished one of these branches, and the coordinator has recorded the damage."""
    noted = {one.gid for one in evidence.damage}
    return any(gid in noted for gid in gids if gid in evidence.by_hand)


def _read_only(evidence: Evidence, gid: str) -> set[str]:
    """Return the branches that ended with a read-only vote."""
    return {
        f"{note.gid}:{note.what.participant}"
        for note in evidence.trace
        if isinstance(note.what, e.VotedReadOnly) and gid.startswith(f"{note.gid}:")
    }


def voted(evidence: Evidence) -> list[str]:
    """I2: a participant is told to commit only after a yes vote."""
    yes: set[tuple[str, str]] = set()
    lines = []
    for note in evidence.trace:
        what = note.what
        if isinstance(what, e.VotedYes):
            yes.add((note.gid, what.participant))
        elif isinstance(what, x.Send) and what.message is Message.COMMIT:
            if (note.gid, what.to) not in yes:
                lines.append(f"{note.gid}: {what.to} was told to commit without its vote")
        elif isinstance(what, x.Log) and what.record.kind is RecordKind.COMMIT:
            missing = [one for one in what.record.participants if (note.gid, one) not in yes]
            lines += [
                f"{note.gid}: commit was decided without the vote of {one}" for one in missing
            ]
    return lines


def answered_truly(evidence: Evidence) -> list[str]:
    """I3: the outcome that the application was told is the actual one; in doubt may be either."""
    committed: dict[str, set[str]] = {}
    for gid in evidence.committed():
        branch = BranchId.parse(gid)
        if branch is not None:
            committed.setdefault(str(branch.global_id), set()).add(branch.branch)
    wrote = {
        str(branch.global_id)
        for moment in evidence.moments
        for gid in moment.stands
        if (branch := BranchId.parse(gid)) is not None
    }
    lines = []
    for one in evidence.outcomes:
        if one.outcome in ("refused", "rolled back") and one.gid in committed:
            where = ", ".join(sorted(committed[one.gid]))
            lines.append(
                f"{one.session} was told that {one.gid} is {one.outcome}, and it is committed at {where}"
            )
        if one.outcome == "committed" and one.gid in wrote and one.gid not in committed:
            lines.append(f"{one.session} was told that {one.gid} is committed, and it is not")
    return lines


def never_flips(evidence: Evidence) -> list[str]:
    """I4: the final state of a branch does not change."""
    final: dict[str, str] = {}
    lines = []
    for moment in evidence.moments:
        for gid, how in moment.stands.items():
            before = final.get(gid)
            if before is not None and how != before:
                lines.append(f"{gid} was {before} and then {how}")
            if how in (COMMITTED, FENCED):
                final[gid] = how
    return list(dict.fromkeys(lines))


def nothing_left(evidence: Evidence) -> list[str]:
    """I5: after recovery no branch is prepared, and no decision remains to be delivered."""
    rest = evidence.rests[-1]
    lines = [
        f"{gid} is still prepared at {node}"
        for node, gids in rest.prepared.items()
        for gid in gids
        if gid not in evidence.foreign
    ]
    by_hand = {
        (result.global_id.epoch, result.global_id.sequence)
        for gid in evidence.by_hand
        if (result := BranchId.parse(gid)) is not None
    }
    left = [one for one in rest.decisions if one[0] not in by_hand]  # kept as evidence
    return [*lines, *[f"the decision log still holds {one}" for one in left]]


def others_untouched(evidence: Evidence) -> list[str]:
    """I6: prepared transactions of other programs are still prepared."""
    left = {gid for gids in evidence.rests[-1].prepared.values() for gid in gids}
    return [f"{gid} was not ours, and is gone" for gid in evidence.foreign if gid not in left]


def decided_first(evidence: Evidence) -> list[str]:
    """I7: no participant is told to commit before the decision is durable."""
    texts: set[str] = set()
    lines = []
    for note in evidence.trace:
        what = note.what
        if not isinstance(what, x.Send) or what.message is not Message.COMMIT:
            continue
        if note.gid not in texts and not note.decided:
            lines.append(f"{what.to} was told to commit {note.gid} before the decision was durable")
        texts.add(note.gid)
    return lines


def remembered(evidence: Evidence) -> list[str]:
    """I8: while one branch is committed and another prepared, the decision can be found."""
    lines = []
    for moment in evidence.moments:
        by: dict[tuple[int, int], dict[str, str]] = {}
        for gid, how in moment.stands.items():
            branch = BranchId.parse(gid)
            if branch is not None and gid not in evidence.foreign:
                key = branch.global_id.epoch, branch.global_id.sequence
                by.setdefault(key, {})[branch.branch] = how
        for key, stands in by.items():
            if not {COMMITTED, PREPARED} <= set(stands.values()) or key in moment.decided:
                continue
            agents = [one for one, how in stands.items() if how == COMMITTED and evidence.agent_of]
            if not agents:
                lines.append(f"{key} is {stands}, and the decision is forgotten")
    return list(dict.fromkeys(lines))


def settled_once(evidence: Evidence) -> list[str]:
    """I9: repeated recovery changes nothing."""
    once, twice = evidence.rests[-2:]
    return [] if once == twice else [f"recovering again changed {once} to {twice}"]


def converged(evidence: Evidence) -> list[str]:
    """Every node has the same rows, with the same row versions except at read-only Subscribers."""
    rest, text = evidence.rests[-1], []
    only_read = {one.name for one in evidence.system.spec.subscribers if one.update == "read only"}
    for table, nodes in rest.versions.items():
        exact = {node: held for node, held in nodes.items() if node not in only_read}
        for result in (exact, rest.rows[table] if only_read else {}):
            if len(set(result.values())) > 1:
                shown = "; ".join(f"{node} has {list(held)}" for node, held in result.items())
                text.append(f"{table}: {shown}")
                break
    return text


def same_rows(evidence: Evidence) -> list[str]:
    """The Publisher and all nodes that were used have the same rows, apart from row versions."""
    lines: list[str] = []
    if evidence.by_hand:
        return lines  # the difference is damage, which `atomic` checks
    nodes_used = {evidence.system.spec.publisher} | {
        branch.branch.partition("/")[0]
        for result in evidence.rests[-1].markers.values()
        for gid in result
        if (branch := BranchId.parse(gid)) is not None
    }
    for table, nodes in evidence.rests[-1].rows.items():
        held = {node: rows for node, rows in nodes.items() if node in nodes_used}
        if len(set(held.values())) > 1:
            shown = "; ".join(f"{node} has {list(rows)}" for node, rows in held.items())
            lines.append(f"{table}: {shown}")
    return lines


def echoed(evidence: Evidence) -> list[str]:
    """No Subscriber receives its own change.

    A transaction that changes rows at several Subscribers is delivered to each of them, for the changes of the
    others.
    """
    at = {one.gid: one.node for one in evidence.outcomes if one.gid and not one.also}
    return [
        f"{one.node} was brought {', '.join(one.commands)}, which came from there"
        for one in evidence.deliveries
        if not one.suppressed and one.node in (one.origin, at.get(one.gid))
    ]


def stored_once(evidence: Evidence) -> list[str]:
    """The distribution database has each transaction once, in the order of the Publisher's log."""
    distribution = evidence.system.distribution
    seqnos = (
        [] if distribution is None else [each.seqno for each in distribution.store.transactions]
    )
    return [
        f"the transaction at {after} is stored after that at {before}"
        for before, after in pairwise(seqnos)
        if after <= before
    ]


Check = Callable[[Evidence], list[str]]

#: Checks of every run.
INVARIANTS: Mapping[str, Check] = {
    "I1": atomic,
    "I2": voted,
    "I3": answered_truly,
    "I4": never_flips,
    "I5": nothing_left,
    "I6": others_untouched,
    "I7": decided_first,
    "I8": remembered,
    "I9": settled_once,
}
#: Checks of runs whose programs request them.
FURTHER: Mapping[str, Check] = {
    "converged": converged,
    "echoed": echoed,
    "same_rows": same_rows,
    "stored_once": stored_once,
}


def broken(evidence: Evidence, further: Sequence[str] = ()) -> list[tuple[str, str]]:
    """Return all violations: the invariant, and a text that describes the violation."""
    checks = [*INVARIANTS.items(), *[(name, FURTHER[name]) for name in further]]
    return [(name, message) for name, check in checks for message in check(evidence)]
