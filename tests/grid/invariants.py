"""The invariants that must hold after any fault, checked on the evidence of one global transaction.

Each checker returns descriptions of violations. Checkers depend only on the evidence: not on a
database, a fault, or an expected outcome.

Evidence consists of what the process reported before it ended (its machines' trace, its answer),
and of the states of both sites observed afterwards, at several moments.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tests.grid.program import Answered, Traced
from tests.grid.rig import SITES, State
from twopc.names import branch_gid
from twopc.protocol import effects as x
from twopc.protocol import events as e
from twopc.protocol.effects import Message, RecordKind

COMMITTED = "committed"
PREPARED = "prepared"
FENCED = "fenced"
ABSENT = "absent"


@dataclass(frozen=True, slots=True, kw_only=True)
class Evidence:
    """Everything known about one global transaction."""

    gid: str
    """Gid without a branch; empty if no transaction was begun."""
    last_agent: str = ""
    """The participant whose commit is the decision; empty if the decision log holds it."""
    trace: tuple[Traced, ...] = ()
    answer: Answered | None = None
    states: tuple[State, ...]
    """States before the transaction, after the fault, and after recovery, oldest first.

    There may be several after the fault; the last two are after recovery and after a
    second recovery.
    """
    others: tuple[Any, ...] = ()
    """Other prepared transactions, before."""
    others_after: tuple[Any, ...] = ()


def branch(evidence: Evidence, state: State, site: str) -> str:
    """Return the state of a branch: `COMMITTED`, `PREPARED`, `FENCED` or `ABSENT`."""
    gid = branch_gid(evidence.gid, site)
    held = state.sites[site]
    markers = dict(held.markers)
    if gid in markers:
        return FENCED if markers[gid] else COMMITTED
    return PREPARED if gid in held.prepared else ABSENT


def _stands(evidence: Evidence, state: State) -> dict[str, str]:
    return {site: branch(evidence, state, site) for site in SITES}


def atomic(evidence: Evidence) -> list[str]:
    """I1: In the end every branch is committed or none is, and the rows match."""
    first, last = evidence.states[0], evidence.states[-1]
    stands = _stands(evidence, last)
    committed = [site for site, how in stands.items() if how == COMMITTED]
    broken = []
    if committed and len(committed) < len(SITES):
        broken.append(f"committed at {committed} only: {stands}")
    rows = {site: last.sites[site].row for site in SITES}
    if len(set(rows.values())) > 1:
        broken.append(f"the sites' rows differ: {rows}")
    for site in SITES:
        changed = last.sites[site].row != first.sites[site].row
        if changed != (site in committed):
            broken.append(
                f"{site} is {stands[site]} and its row {'changed' if changed else 'did not'}"
            )
    return broken


def voted(evidence: Evidence) -> list[str]:
    """I2: Every participant that commits, or is part of a commit decision, has voted yes before."""
    yes: set[str] = set()
    asked = False
    broken = []
    for note in evidence.trace:
        what = note.what
        if isinstance(what, e.VotedYes):
            yes.add(what.participant)
        elif isinstance(what, x.Send) and what.message in (Message.PREPARE, Message.DECIDE):
            asked = True
        elif isinstance(what, x.Send) and what.message is Message.COMMIT and what.to not in yes:
            broken.append(f"{what.to} was told to commit without its vote")
        elif isinstance(what, x.Log) and what.record.kind is RecordKind.COMMIT:
            missing = set(what.record.participants) - yes
            if missing:
                broken.append(f"commit was decided without the votes of {sorted(missing)}")
    if COMMITTED in _stands(evidence, evidence.states[-1]).values() and not asked:
        broken.append("it is committed, and nobody was asked to vote")
    return broken


def answered_truly(evidence: Evidence) -> list[str]:
    """I3: The application's answer matches the outcome; in doubt matches both."""
    answer = evidence.answer
    if answer is None or answer.outcome == "in_doubt":
        return []
    stands = _stands(evidence, evidence.states[-1])
    committed = set(stands.values()) == {COMMITTED}
    if answer.outcome == "committed" and evidence.gid and not committed:
        return [f"it was answered 'committed', and is {stands}"]
    if answer.outcome == "aborted" and COMMITTED in stands.values():
        return [f"it was answered 'aborted' ({answer.error}: {answer.message}), and is {stands}"]
    return []


def never_flips(evidence: Evidence) -> list[str]:
    """I4: A final state of a branch never changes, and one committed branch implies all."""
    broken = []
    for site in SITES:
        seen = [branch(evidence, state, site) for state in evidence.states]
        final = ""
        for how in seen:
            if final and how != final:
                broken.append(f"the branch at {site} was {final} and then {how}")
            if how in (COMMITTED, FENCED):
                final = how
    every = [how for state in evidence.states for how in _stands(evidence, state).values()]
    if COMMITTED in every and set(_stands(evidence, evidence.states[-1]).values()) != {COMMITTED}:
        broken.append("it was committed at a site once, and is not at all in the end")
    return broken


def nothing_left(evidence: Evidence) -> list[str]:
    """I5: After recovery nothing is prepared, and the decision log holds nothing."""
    broken = []
    for state in evidence.states[-2:]:
        for site, held in state.sites.items():
            broken += [f"{gid} is still prepared at {site}" for gid in held.prepared]
        broken += [f"the decision log still holds {decision}" for decision in state.decisions]
    return list(dict.fromkeys(broken))


def others_untouched(evidence: Evidence) -> list[str]:
    """I6: Other prepared transactions stay prepared: the same transaction, owner and time."""
    if evidence.others == evidence.others_after:
        return []
    return [f"others were {evidence.others} and are {evidence.others_after}"]


def decided_first(evidence: Evidence) -> list[str]:
    """I7: No participant is told to commit before the decision is durable."""
    decided = False
    for note in evidence.trace:
        what = note.what
        if isinstance(what, e.Logged | e.LogFound):
            decided = decided or what.record.kind is RecordKind.COMMIT
        elif isinstance(what, e.BranchCommitted):
            decided = decided or what.participant == evidence.last_agent
        elif isinstance(what, x.Send) and what.message is Message.COMMIT and not decided:
            return [f"{what.to} was told to commit before the decision was durable"]
    return []


def remembered(evidence: Evidence) -> list[str]:
    """I8: While one branch is committed and another prepared, the decision can be found."""
    broken = []
    for state in evidence.states:
        stands = _stands(evidence, state)
        if set(stands.values()) >= {COMMITTED, PREPARED}:
            agent = evidence.last_agent
            key = tuple(int(part) for part in evidence.gid.split(":")[-2:])
            logged = any((*key, "commit") == decision for decision in state.decisions)
            if not logged and not (agent and stands[agent] == COMMITTED):
                broken.append(f"it is {stands}, and the decision is forgotten")
    return broken


def settled_once(evidence: Evidence) -> list[str]:
    """I9: A second recovery changes nothing."""
    once, twice = evidence.states[-2:]
    return [] if once == twice else [f"the second recovery changed {once} to {twice}"]


#: The invariants by their names in the matrix.
INVARIANTS: Mapping[str, Callable[[Evidence], list[str]]] = {
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


def broken(evidence: Evidence) -> list[str]:
    """Return all violations, each with the invariant's name."""
    return [f"{name}: {what}" for name, check in INVARIANTS.items() for what in check(evidence)]
