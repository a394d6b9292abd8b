"""Explanations of failed checks: the cause, and a counterpoint.

They are derived from the history alone: the row versions that met, the transactions that made them, the waits and
the deliveries. Nothing is stated unless it is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from twopc.sim.report.breaches import REASONS, Reasons, behind, lost_text, lost_update
from twopc.sim.report.changes import changed_text
from twopc.sim.report.dependencies import across_nodes, is_locking_read
from twopc.sim.report.events import (
    STILL_OPEN,
    AgentDelivery,
    DoubtfulStep,
    PassedTransaction,
    Remark,
    StepEnd,
    StepError,
    StepRefusal,
    StepRollback,
    StepTimeout,
    UnsentStep,
)
from twopc.sim.report.fold import Fold
from twopc.sim.report.merge_sessions import conflict_text
from twopc.sim.report.phrases import result_text
from twopc.sim.report.sentences import counted, listed, refused_because, transaction_of, waited_for
from twopc.sim.report.transactions import Author

#: Maximum number of rows described for one table.
_ROWS_TOLD = 2
_NOTHING: Reasons = ("", "")


def because_of(fold: Fold, failure: Mapping[str, Any]) -> Reasons:
    """Return the cause of a failed check and a counterpoint; empty if nothing is known.

    Args:
        fold: the order.
        failure: as in its verdict: `check`, `message`, `expected`, `actual`.
    """
    check = str(failure.get("check") or _guessed(failure, fold))
    family, _, name = check.partition(".")
    because, however = _NOTHING
    if family in _NAMED:
        because, however = _NAMED[family](fold, name)
    elif check == "twin":
        because, however = _twin(fold, str(failure.get("message", "")))
    elif check in _PLAIN:
        because, however = _PLAIN[check](fold)
    text = str(failure.get("message", ""))
    return "" if because in text else because, "" if however in text else however


def _guessed(failure: Mapping[str, Any], fold: Fold) -> str:
    """Return the check of a failure in a history that does not name the check."""
    if failure.get("kind") == "liveness":
        return "stuck"
    words = str(failure.get("message", "")).replace(":", " ").split()
    first = words[0] if words else ""
    if first in fold.ended:
        return f"steps.{first}"
    if first in fold.outcomes:
        return f"sessions.{first}"
    return f"tables.{first}" if fold.changes.rows_of(first) else ""


# -- steps and sessions ------------------------------------------------------------------------------


def _step(fold: Fold, name: str) -> Reasons:
    ended, wait = fold.ended.get(name), fold.waits.get(name)
    if ended is None:
        return _stuck(fold)
    if isinstance(ended, StepRefusal):
        return refused_because(ended, fold), _not_synced(fold, ended)
    if isinstance(ended, UnsentStep):
        earlier = [each for each in fold.refusals(ended.session) if each.seq < ended.seq]
        why = refused_because(earlier[-1], fold) if earlier else ""
        return ended.message, why
    if isinstance(ended, (StepError, DoubtfulStep, StepTimeout, StepRollback)):
        waited = f"{name} {waited_for(wait.wait)}" if wait is not None else ""
        return ended.message, waited
    if ended.tag == "SYNC":
        return _synced(fold, ended)
    author = fold.last_of(ended.session)
    for stale in fold.stale(author) if author is not None and name in author.steps else ():
        return lost_text(fold, stale)
    if wait is not None:
        return f"{name} {waited_for(wait.wait)}", _then(fold, ended)
    if ended.rows is not None:
        return _read(fold, ended)
    return _accepted(fold, ended)


def _synced(fold: Fold, ended: StepEnd) -> Reasons:
    """Describe what the agents delivered and did not send back in one sync, or the rows that merge sessions
    propagated.
    """
    if ended.merge:
        return _carried(ended), ""
    begun = [each.invoked.seq for each in fold.steps if each.invoked.step == ended.step]
    during = [
        done for seq, done in fold.deliveries.items() if min(begun, default=0) < seq < ended.seq
    ]
    brought = [each for each in during if isinstance(each, AgentDelivery)]
    nodes = listed(list(dict.fromkeys(each.node for each in brought)) or ["any Subscriber"])
    because = f"the agents delivered {counted(len(brought), 'transaction')} to {nodes}"
    own = dict.fromkeys(
        transaction_of(each.gid, each.origin, fold.changes.authors)
        + f" came from {each.node} itself"
        for each in during
        if isinstance(each, PassedTransaction)
    )
    return because, f"{listed(list(own))}, and is not sent back" if own else ""


def _carried(ended: StepEnd) -> str:
    """Describe the rows that merge sessions propagated: ``a_sync carried 1 row up from anna and 3 rows down``."""
    return "; ".join(
        f"{ended.step} carried {counted(each['uploaded'], 'row')} up from {each['subscriber']} "
        f"and {counted(each['downloaded'], 'row')} down"
        for each in ended.merge
    )


def _then(fold: Fold, ended: StepEnd) -> str:
    """Describe how a step continued after its wait."""
    holder = fold.waits[ended.step].wait
    outcome = fold.outcomes.get(str(holder.get("session")), "")
    ends = f"{holder.get('session')} was {outcome}, and " if outcome == "rolled back" else ""
    return f"{ends}{ended.step} went on {result_text(ended)}".replace("→ ", "and read ")


def _not_synced(fold: Fold, refused: StepEnd) -> str:
    """Explain why the deliveries before a refusal had not refreshed the stale copy."""
    kinds = ("version_mismatch", "delete_stale", "row_missing", "insert_exists")
    if refused.refused_as not in kinds:
        return ""
    if fold.brought(refused.node, before=refused.seq):
        return f"what the agents delivered to {refused.node} before was older than that"
    return f"nothing had been brought to {refused.node} by then: its copy was as at first"


def _read(fold: Fold, ended: StepEnd) -> Reasons:
    """Explain a read by the row versions that its node held."""
    for row in fold.changes.rows():
        here = fold.changes.held(ended.node, row[0].table, row[0].key, before=ended.seq)
        there = [each for each in row if each.number and each.seq < ended.seq]
        if here is not None and there and here.version != there[-1].version:
            maker = fold.step_of(there[-1])
            by = f", by {maker}" if maker else ""
            return (
                f"{ended.node} held {here.label} of {here.name} when {ended.step} read it",
                f"the Publisher had {there[-1].label} by then{by} ({changed_text(there[-1])})",
            )
    because = f"that is what {ended.node} held when {ended.step} read it"
    return because, _locked_here(fold, ended)


def _locked_here(fold: Fold, ended: StepEnd) -> str:
    """Explain that a row lock taken at a Subscriber does not block sessions of other nodes."""
    if ended.node in fold.nodes[:1] or not is_locking_read(fold.sql_of.get(ended.step, "")):
        return ""
    return f"its lock is on the copy at {ended.node} alone: only a change is sent to the Publisher"


def _accepted(fold: Fold, ended: StepEnd) -> Reasons:
    """Explain why a step was accepted: it was not blocked and its copy was up to date."""
    unseen = across_nodes(fold)
    if any(unseen):
        return unseen
    if ended.tag == "COMMIT":
        return f"every statement of {ended.session} was accepted", ""
    before = [each for each in fold.changes.authors if each.seq < ended.seq]
    others = [each for each in before if each.session != ended.session]
    text = (
        f"no other transaction held what {ended.step} needed, and none had changed its rows before"
    )
    if not others:
        return text, ""
    last = others[-1]
    return (
        f"no other transaction held what {ended.step} needed when it was sent",
        f"{last.session} had committed by then, at {listed(_nodes(fold, last))}",
    )


def _nodes(fold: Fold, author: Author) -> list[str]:
    return [*fold.effects.get(author.gid, ())] or [author.node]


def _session(fold: Fold, name: str) -> Reasons:
    if fold.outcomes.get(name) == "in doubt":
        return _in_doubt(fold, name)
    refused = fold.refusals(name)
    if fold.outcomes.get(name) == "rolled back" and refused:
        last = refused[-1]
        why = refused_because(last, fold)
        return f"{last.step} was refused: {why}", _not_synced(fold, last)
    if fold.outcomes.get(name) == "rolled back":
        left = [each for each in fold.of(Remark) if each.session == name]
        if any(each.message.startswith(STILL_OPEN) for each in left):
            return f"{name}'s transaction was still open at the end of the order", ""
        return f"nothing of {name} was refused: it was rolled back on purpose", ""
    author = fold.last_of(name)
    for stale in fold.stale(author) if author is not None else ():
        return lost_text(fold, stale)
    if author is not None:
        unseen = across_nodes(fold)
        return (
            unseen
            if any(unseen)
            else (f"every statement of {name} was accepted, and it committed", "")
        )
    return _NOTHING


def _in_doubt(fold: Fold, name: str) -> Reasons:
    """Explain why a session did not receive its transaction's outcome, and name the outcome."""
    last = [
        each
        for each in fold.ended.values()
        if each.session == name and isinstance(each, DoubtfulStep)
    ]
    if not last:
        return _NOTHING
    message = (
        last[-1].message.removeprefix(f"{last[-1].gid}: ") if last[-1].gid else last[-1].message
    )
    because = f"no answer came to {last[-1].step}: {message}" if message else ""
    nodes = fold.effects.get(last[-1].gid, ()) if last[-1].gid else ()
    took = f"its transaction has taken effect, at {listed([*nodes])}" if nodes else ""
    return because, _settled(fold, last[-1].gid) or took


def _settled(fold: Fold, gid: str = "") -> str:
    """Describe the recovery of a transaction, or the last recovery of any, with its reason; empty if there was
    none.
    """
    done = [each for each in fold.settlements.values() if gid in ("", each.gid)]
    if not done or done[-1].author is None:
        return ""
    verb = "committed" if done[-1].outcome == "committed" else "rolled back"
    return f"recovery {verb} {done[-1].author.name} at {listed(done[-1].nodes)}: {done[-1].reason}"


# -- tables and rows ---------------------------------------------------------------------------------


def _table(fold: Fold, name: str) -> Reasons:
    """Describe the last changes of a table, and the last refusal."""
    if fold.is_merging:
        return _merged_table(fold, name)
    lasts = [row[-1] for row in fold.changes.rows_of(name) if row[-1].author is not None]
    made = [
        f"{each.name} is {each.label if each.row is not None else 'gone'} at the Publisher, as "
        f"{fold.step_of(each)} left it ({changed_text(each)})"
        for each in lasts[-_ROWS_TOLD:]
    ]
    because = "; ".join(made) or f"no transaction changed {name}"
    refused = [each for each in fold.refusals() if name in fold.sql_of.get(each.step, "")]
    if refused:
        last = refused[-1]
        return because, f"{_who(last)} {last.step} was refused, and changed nothing"
    author = lasts[-1].author if lasts else None
    recovery = _settled(fold, author.gid if author is not None else "")
    return because, behind(fold, name) or across_nodes(fold)[0] or recovery


def _merged_table(fold: Fold, name: str) -> Reasons:
    """Describe the conflicts of a table at nodes that merge; without conflicts, the rows that sessions propagated."""
    met = [
        conflict_text(conflict)
        for conflicts in fold.merge_conflicts.values()
        for conflict in conflicts
        if conflict.table == name
    ]
    carried = [_carried(each) for each in fold.ended.values() if each.session and each.merge]
    return "; ".join(met[-_ROWS_TOLD:] or carried), ""


def _committed(fold: Fold) -> Reasons:
    done = [name for name, outcome in fold.outcomes.items() if outcome == "committed"]
    left = [f"{name} was {how}" for name, how in fold.outcomes.items() if how == "rolled back"]
    because = f"{listed(done)} committed" if done else "no session committed"
    lost = lost_update(fold)[0]
    refused = fold.refusals()
    if not lost and refused:
        why = refused_because(refused[-1], fold)
        return because, f"{_who(refused[-1])} {refused[-1].step} was refused: {why}"
    return because, lost or (listed(left) if left else across_nodes(fold)[0])


def _rejected(fold: Fold, kind: str) -> Reasons:
    of_kind = [each for each in fold.refusals() if (each.refused_as or each.sqlstate) == kind]
    others = [each for each in fold.refusals() if each not in of_kind]
    if of_kind:
        steps = [f"{_who(each)} {each.step}" for each in of_kind]
        was = "was" if len(steps) == 1 else "were"
        because = f"{listed(steps)} {was} refused as {kind}"
        return because, refused_because(of_kind[-1], fold)
    if others:
        last = others[-1]
        how = last.refused_as or last.sqlstate
        because = f"{_who(last)} {last.step} was refused as {how}"
        return because, refused_because(last, fold)
    for reasons in (lost_update(fold), across_nodes(fold)):
        if any(reasons):
            return reasons
    return "no step was refused", ""


def _who(ended: StepEnd) -> str:
    return f"{ended.session}'s" if ended.session else "the agents'"


def _stuck(fold: Fold) -> Reasons:
    if fold.stuck is not None:
        return fold.stuck.message, ""
    late = fold.of(StepTimeout)
    return (late[-1].message, "") if late else _NOTHING


def _twin(fold: Fold, message: str) -> Reasons:
    """Explain the unexpected failure of a check that the message names, or else the check that must fail."""
    must = str(fold.twin.get("must_fail", ""))
    named = [name for name in _PLAIN if name in message and name != must]
    for name in (*named, must, "no_lost_update"):
        reasons = _PLAIN[name](fold) if name in _PLAIN else _NOTHING
        if any(reasons):
            return reasons
    protections = sorted(fold.twin.get("protections", ())) or ["a protection"]
    verb = "was" if len(protections) == 1 else "were"
    return f"{listed(protections)} {verb} switched off and nothing came of it", ""


_NAMED: Mapping[str, Callable[[Fold, str], Reasons]] = {
    "steps": _step,
    "sessions": _session,
    "tables": _table,
    "rejected": _rejected,
}
_PLAIN: Mapping[str, Callable[[Fold], Reasons]] = {
    **REASONS,
    "committed": _committed,
    "stuck": _stuck,
}
