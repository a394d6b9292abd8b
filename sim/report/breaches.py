"""Explanations of failed invariants, from the history alone.

Each function returns the cause and a counterpoint; both are empty if nothing is certain.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twopc.names import BranchId
from twopc.sim.report.changes import changed_text
from twopc.sim.report.dependencies import across_nodes
from twopc.sim.report.events import AgentDelivery, QueryAnswer, StepEnd
from twopc.sim.report.fold import Fold, StaleChange
from twopc.sim.report.phrases import rows_text, shorten
from twopc.sim.report.sentences import counted, listed

#: The cause and a counterpoint; empty if nothing is certain.
Reasons = tuple[str, str]
_NOTHING: Reasons = ("", "")
#: Maximum length of a server's message.
_MESSAGE_MAX = 240


def behind(fold: Fold, name: str = "") -> str:
    """Describe the first row whose final version at a Subscriber differs from the Publisher's."""
    final = fold.looks("final")
    for row in fold.changes.rows():
        now = row[-1]
        if name not in ("", now.table):
            continue
        for look in final:
            if look.table != now.table:
                continue
            here = fold.changes.held(look.node, now.table, now.key)
            if here is not None and now.row is None:
                return f"{look.node} still has {now.name}"
            if here is not None and here.version != now.version:
                return (
                    f"{look.node} holds {here.label} of {now.name}, and the Publisher {now.label}"
                )
    return ""


def lost_text(fold: Fold, stale: StaleChange) -> Reasons:
    """Describe a lost update."""
    step = fold.step_of(stale.made)
    off = listed(sorted(fold.twin.get("protections", ())) or [""])
    without = f", with {off} switched off" if off else ""
    held, lost = stale.held.label, stale.lost.label
    because = (
        f"the Publisher's row {stale.made.name} was {lost} when {step} arrived with {held}, and it "
        f"was accepted{without}"
    )
    maker = fold.step_of(stale.lost)
    if not maker:
        return because, ""
    what = f"{held} → {lost}: {changed_text(stale.lost)}"
    return because, f"{maker} ({what}) had been committed before: that change is lost"


def converged(fold: Fold) -> Reasons:
    """Describe what stopped an agent, or the first row of a Subscriber that differs from the Publisher's."""
    stopped = fold.stopped
    late = behind(fold)
    if stopped is not None:
        node = (stopped.at if isinstance(stopped, StepEnd) else "") or stopped.node
        message = stopped.message.removeprefix(f"{node}: ")
        text = shorten(message, _MESSAGE_MAX)
        return f"the agent of {node or 'a Subscriber'} stopped: {text}", _own(fold, node) or late
    for author in fold.changes.authors:
        for stale in fold.stale(author):
            return late or lost_text(fold, stale)[0], lost_text(fold, stale)[1]
    if not late:
        return _NOTHING
    node = late.partition(" ")[0]
    return late, f"the agents have delivered {counted(fold.brought(node), 'transaction')} to {node}"


def _own(fold: Fold, node: str) -> str:
    """Explain that a Subscriber receives its own transaction again, as the protection `marker` is switched off."""
    own = [each.session for each in fold.changes.authors if each.node == node]
    if "marker" not in fold.twin.get("protections", ()) or not own:
        return ""
    return f"{own[0]}'s transaction began at {node} itself, and with marker off it comes back there"


def lost_update(fold: Fold) -> Reasons:
    """Describe the first row that was changed on a copy that was out of date."""
    for author in fold.changes.authors:
        for stale in fold.stale(author):
            return lost_text(fold, stale)
    return _NOTHING


def summed(fold: Fold) -> Reasons:
    """Describe a lost update, or several transactions each of which was valid but whose combination is not."""
    for reasons in (lost_update(fold), across_nodes(fold)):
        if any(reasons):
            return reasons
    writers = [each for each in fold.changes.authors if fold.changes.made_by(each)]
    if not writers:
        return _NOTHING
    each_is = "each transaction was accepted by itself: no row had changed under it"
    return f"{listed([each.session for each in writers])} changed the rows that are summed", each_is


def atomic(fold: Fold) -> Reasons:
    """Describe a transaction that took effect at one end only."""
    effects = fold.effects
    for author in fold.changes.authors:
        nodes = effects.get(author.gid)
        if author.gid and nodes is not None and author.node not in nodes:
            return (
                f"{author.session}'s transaction took effect at {listed(nodes)}",
                f"its own branch at {author.node} did not",
            )
        if author.gid and nodes == [author.node] and author.steps:
            return (
                f"{author.session}'s transaction took effect at {author.node}",
                "its branch at the Publisher did not",
            )
    return _NOTHING


def prepared(fold: Fold) -> Reasons:
    """Describe a branch that was left prepared, and the outcome that its session received."""
    for node, gid in fold.left_prepared:
        branch = BranchId.parse(gid)
        whose = str(branch.global_id) if branch is not None else ""
        session = next((each.session for each in fold.events if each.gid == whose), "")
        outcome = fold.outcomes.get(session, "")
        however = f"{session} was told that it is {outcome}" if outcome else ""
        owner = f", of {session}'s transaction," if session else ""
        return f"the branch at {node}{owner} is still prepared", however
    return _NOTHING


def echoed(fold: Fold) -> Reasons:
    """Describe a transaction that was delivered to the node where it began."""
    at = {each.gid: each for each in fold.changes.authors if each.gid}
    for done in fold.deliveries.values():
        author = at.get(done.gid) if isinstance(done, AgentDelivery) else None
        if author is not None and author.node == done.node:
            return (
                f"{author.session}'s transaction began at {author.node} and was committed there",
                f"the agent brought {done.text} back to {done.node}",
            )
    return _NOTHING


def once(fold: Fold) -> Reasons:
    """Describe a transaction that was delivered to one Subscriber twice."""
    seen: set[tuple[str, str]] = set()
    for done in fold.deliveries.values():
        if not isinstance(done, AgentDelivery) or not done.seqno:
            continue
        if (done.node, done.seqno) in seen:
            return f"the agent brought {done.text} to {done.node} twice", ""
        seen.add((done.node, done.seqno))
    return _NOTHING


def query(fold: Fold) -> Reasons:
    """Describe the rows that a query of the scenario returned."""
    for answer in fold.of(QueryAnswer):
        if answer.rows:
            return f"the question returned {rows_text(answer.rows)} at {answer.node}", ""
    return _NOTHING


#: Explanations by the name of the invariant.
REASONS: Mapping[str, Callable[[Fold], Reasons]] = {
    "atomic": atomic,
    "prepared_left": prepared,
    "versions_move_forward": lost_update,
    "converged": converged,
    "echoed": echoed,
    "no_lost_update": lost_update,
    "sum": summed,
    "each_change_applied_once": once,
    "sql": query,
}
