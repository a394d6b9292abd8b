"""Why an invariant does not hold, from what happened alone.

Each function returns what brought it about, and what speaks against that; both empty where nothing is known
for sure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twopc.names import BranchId
from twopc.sim.report.history import Record
from twopc.sim.report.known import Known, Reasons
from twopc.sim.report.played import took_effect_at
from twopc.sim.report.sentences import counted, listed
from twopc.sim.report.words import rows_text, shorten

_NOTHING: Reasons = ("", "")
#: Characters of a server's message.
_MESSAGE_MAX = 240


def behind(known: Known, name: str = "") -> str:
    """The first row of which a Subscriber has another version than the Publisher at the end."""
    final = [
        record
        for record in known.records
        if record.kind == "state" and (record.data or {}).get("moment") == "final"
    ]
    for row in known.changes.rows():
        now = row[-1]
        if name not in ("", now.table):
            continue
        for record in final:
            if (record.data or {}).get("table") != now.table:
                continue
            here = known.changes.held(record.node, now.table, now.key)
            if here is not None and now.row is None:
                return f"{record.node} still has {now.name}"
            if here is not None and here.version != now.version:
                return (
                    f"{record.node} holds {here.label} of {now.name}, and the Publisher {now.label}"
                )
    return ""


def converged(known: Known) -> Reasons:
    """What stopped an agent, or which row a Subscriber has otherwise."""
    stopped = [
        record
        for record in known.records
        if not record.session and record.step and record.kind in ("error", "timed_out", "stuck")
    ]
    late = behind(known)
    if stopped:
        node = str((stopped[-1].data or {}).get("at") or stopped[-1].node)
        message = stopped[-1].message.removeprefix(f"{node}: ")
        told = shorten(message, _MESSAGE_MAX)
        return f"the agent of {node or 'a Subscriber'} stopped: {told}", _own(known, node) or late
    for author in known.changes.authors:
        for stale in known.stale(author):
            return late or known.said(stale)[0], known.said(stale)[1]
    if not late:
        return _NOTHING
    node = late.partition(" ")[0]
    brought = [each for each in known.records if each.kind == "deliver" and each.node == node]
    return late, f"the agents have brought {counted(len(brought), 'transaction')} to {node}"


def _own(known: Known, node: str) -> str:
    """Without the mark of where it began, a Subscriber is given its own transaction again."""
    own = [each.session for each in known.changes.authors if each.node == node]
    if "marker" not in known.twin.get("protections", ()) or not own:
        return ""
    return f"{own[0]}'s transaction began at {node} itself, and with marker off it comes back there"


def lost_update(known: Known) -> Reasons:
    """The first row that was changed on a copy that was out of date."""
    for author in known.changes.authors:
        for stale in known.stale(author):
            return known.said(stale)
    return _NOTHING


def summed(known: Known) -> Reasons:
    """A lost update, or several that are each right and together are not."""
    lost, however = lost_update(known)
    if lost:
        return lost, however
    writers = [each for each in known.changes.authors if known.changes.made_by(each)]
    if not writers:
        return _NOTHING
    each_is = "each transaction was accepted by itself: no row had changed under it"
    return f"{listed([each.session for each in writers])} changed the rows that are summed", each_is


def atomic(known: Known) -> Reasons:
    """A transaction that is at one end only."""
    effects = took_effect_at(known.records)
    for author in known.changes.authors:
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


def prepared(known: Known) -> Reasons:
    """Whose branch is left, and what its session was told."""
    for record in known.records:
        for gid in (record.data or {}).get("gids", ()) if record.kind == "prepared" else ():
            branch = BranchId.parse(str(gid))
            whose = str(branch.global_id) if branch is not None else ""
            session = next((each.session for each in known.records if each.gid == whose), "")
            outcome = known.outcomes.get(session, "")
            however = f"{session} was told that it is {outcome}" if outcome else ""
            owner = f", of {session}'s transaction," if session else ""
            return f"the branch at {record.node}{owner} is still prepared", however
    return _NOTHING


def echoed(known: Known) -> Reasons:
    """A transaction that was brought to where it began."""
    at = {each.gid: each for each in known.changes.authors if each.gid}
    for record in known.records:
        author = at.get(record.gid) if record.kind == "deliver" else None
        if author is not None and author.node == record.node:
            commands = "; ".join((record.data or {}).get("commands", ())) or "it"
            return (
                f"{author.session}'s transaction began at {author.node} and was committed there",
                f"the agent brought {commands} back to {record.node}",
            )
    return _NOTHING


def once(known: Known) -> Reasons:
    """A transaction that was brought to one Subscriber twice."""
    seen: dict[tuple[str, str], Record] = {}
    for record in known.records:
        key = (record.node, str((record.data or {}).get("seqno", "")))
        if record.kind != "deliver" or not key[1]:
            continue
        if key in seen:
            commands = "; ".join((record.data or {}).get("commands", ()))
            return f"the agent brought {commands} to {record.node} twice", ""
        seen[key] = record
    return _NOTHING


def query(known: Known) -> Reasons:
    """The rows that a question of the scenario returned."""
    for record in known.records:
        if record.kind == "query" and record.rows:
            return f"the question returned {rows_text(record.rows)} at {record.node}", ""
    return _NOTHING


#: By the names of invariants.
REASONS: Mapping[str, Callable[[Known], Reasons]] = {
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
