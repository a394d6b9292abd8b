"""Events in plain words, for readers who do not know replication conflicts."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from twopc.names import VERSION_COLUMN
from twopc.sim.report.events import (
    Backup,
    Deadlock,
    DoubtfulStep,
    FaultEffect,
    HistoryEvent,
    InfeasibleOrder,
    NodeIncident,
    NoticeArrival,
    Outage,
    Pause,
    QueuedStep,
    Remark,
    Standstill,
    StepEnd,
    StepError,
    StepRefusal,
    StepRollback,
    StepStart,
    StepSuccess,
    StepTimeout,
    UnsentStep,
    WaitStart,
)
from twopc.sim.report.fold import Settlement
from twopc.sim.report.merge_reports import summary

_ROWS_SHOWN = 3
#: Steps that are named by their SQL rather than by their names.
WORDS = ("begin", "commit", "rollback")


def row_text(row: Mapping[str, Any]) -> str:
    """Return a row as in scenario files, without its version."""
    shown = (f"{name}: {_cell(value)}" for name, value in row.items() if name != VERSION_COLUMN)
    return "{" + ", ".join(shown) + "}"


def rows_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as in scenario files; of many rows only the first."""
    if not rows:
        return "no rows"
    more = f" and {len(rows) - _ROWS_SHOWN} more" if len(rows) > _ROWS_SHOWN else ""
    return ", ".join(row_text(row) for row in rows[:_ROWS_SHOWN]) + more


def shorten(message: str, width: int) -> str:
    """Return a server's message on one line of at most `width` characters, cut between words.

    It is never cut at a hyphen: the place of a cut within a row version would depend on its digits.
    """
    return textwrap.shorten(message, width, placeholder=" …", break_on_hyphens=False)


def moment_text(t_us: int) -> str:
    """Return a time for a column headed ``ms``, in at most six characters: from ten seconds on in seconds, with the
    unit.
    """
    if t_us < 9_999_950:
        return f"{t_us / 1000:.1f}"
    seconds = t_us / 1_000_000
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 9_999.5 else f"{seconds / 3600:.0f} h"


def took_text(elapsed_us: float) -> str:
    """Return a duration: ``41 ms``, from ten seconds on ``12.3 s``."""
    if elapsed_us < 9_999_500:
        return f"{elapsed_us / 1000:.0f} ms"
    return f"{elapsed_us / 1_000_000:,.1f} s"


def result_text(ended: StepEnd) -> str:
    """Return the result of a successful statement, in a few words."""
    if ended.rows is not None and ended.tag.startswith("SELECT"):
        if len(ended.rows) == 1:
            cells = [f"{name}={_cell(value)}" for name, value in ended.rows[0].items()]
            return "→ " + ", ".join(cells)
        return f"→ {rows_text(ended.rows)}"
    if ended.rowcount is not None and ended.rowcount >= 0:
        return f"✓ {counted(ended.rowcount, 'row')}"
    return "✓"


def call_text(invoked: StepStart) -> str:
    """Return a step as it is sent: its name and its SQL on one line."""
    sql = " ".join(invoked.sql.split())
    if not invoked.step or sql in WORDS:
        return sql
    return f"{invoked.step}: {sql}" if sql else invoked.step


def done_text(ended: StepEnd, nodes_of: Mapping[str, Sequence[str]]) -> str:
    """Return the result of a successful step; of a commit the nodes at which it took effect, from `nodes_of`."""
    if ended.tag == "BEGIN":
        return ""
    if ended.tag == "COMMIT":
        nodes = nodes_of.get(ended.gid, ())
        return f"✓ at {' and '.join(nodes)}" if nodes else "✓"
    if ended.merge:
        return f"✓ {summary(ended)}"
    return "✓" if ended.tag == "ROLLBACK" else result_text(ended)


def style_of(ended: StepEnd) -> str:
    """Return the style of a step's end: good, bad, faint or plain."""
    if isinstance(ended, StepSuccess):
        return "good" if ended.tag == "COMMIT" else ""
    return "faint" if isinstance(ended, UnsentStep) else "bad"


_FAILURES: Mapping[type[StepEnd], str] = {
    DoubtfulStep: "? in doubt",
    StepTimeout: "✗ no end in time",
    UnsentStep: "– not sent",
    StepRollback: "✗ rolled back",
}


def refusal(ended: StepEnd) -> str:
    """Return how a step failed, in at most three words."""
    if isinstance(ended, StepRefusal):
        return f"✗ refused: {ended.conflict.get('kind')}"
    if isinstance(ended, StepError):
        return f"✗ error {ended.sqlstate}"
    return _FAILURES.get(type(ended), ended.kind)


def because(ended: StepEnd) -> str:
    """Return why a step was refused; empty if there is nothing to add to `refusal`."""
    facts = ended.conflict
    what = f"{_article(facts)} {_key(facts)}".strip()
    now = facts.get("publisher_row")
    now_text = f"; there it is {row_text(now)}" if isinstance(now, Mapping) else ""
    sentences = {
        "version_mismatch": f"{what} has changed at the Publisher since this copy was made{now_text}",
        "delete_stale": f"{what} has changed at the Publisher since this copy was made{now_text}",
        "row_missing": f"{what} is not at the Publisher any more",
        "insert_exists": f"{what} is at the Publisher already{now_text}",
        "update_exists": f"another row at the Publisher has the new key of {what}{now_text}",
        "multiple_unique": f"{what} clashes with several rows at the Publisher",
        "not_in_partition": f"{what} is outside this Subscriber's partition",
        "serialization_failure": _unserializable(ended),
        "publisher_unreachable": "the Publisher did not answer; nothing was left there",
        "lock_timeout": "the lock was not given in time",
        "fk_violation": ended.message,
    }
    kind = ended.refused_as
    if kind == "deadlock":
        return "; ".join(ended.cycle) or ended.message
    if kind in ("version_mismatch", "delete_stale", "row_missing", "insert_exists") and not what:
        return ended.message
    return sentences.get(kind, ended.message)


def happening(event: NodeIncident) -> str:
    """Describe an event of a node or an agent, with a sign if it is adverse."""
    node = event.node
    match event:
        case Outage(is_on=True):
            return f"✗ {node} accepts no connections"
        case Outage():
            return f"{node} accepts connections again"
        case Pause():
            return f"the agent of {node} is {'paused' if event.is_on else 'resumed'}"
        case Backup():
            return f"{node} is {'restored from its backup' if event.is_restored else 'backed up'}"
        case FaultEffect():
            what, at = f"fault {event.id}" if event.id else "fault", event.at or event.message
            if event.no_effect:
                return f"{what} has no effect at {at}: {event.no_effect}"
            return f"✗ {what} strikes at {at}"
    return event.kind


def happening_style(event: NodeIncident) -> str:
    """Return the style of an event of a node or an agent."""
    return "bad" if happening(event).startswith("✗") else "note"


def settled_text(done: Settlement) -> str:
    """Describe how recovery finished a transaction: ``✓ commits alice's transaction``."""
    whose = done.author.name if done.author is not None else f"transaction {done.gid}"
    return f"✓ commits {whose}" if done.outcome == "committed" else f"rolls back {whose}"


def remarks(event: HistoryEvent) -> list[tuple[str, str]]:
    """Return lines, each with its style, for a session's events other than the start and end of its steps."""
    match event:
        case WaitStart():
            return [(f"⧗ waits for {holder(event.wait)}", "wait")]
        case QueuedStep():
            return [(f"({event.step} queued: {event.message})", "faint")]
        case Deadlock():
            edges = [(edge, "faint") for edge in event.cycle]
            return [("✗ deadlock across nodes; cancelled", "bad"), *edges]
        case Standstill():
            return [(f"✗ stuck: {event.message}", "bad")]
        case InfeasibleOrder():
            return [(f"– not playable: {event.message}", "faint")]
        case NoticeArrival():
            return [(f"» {notices(event)}", "note")]
        case Remark():
            return [(f"{event.step} {event.message}".strip(), "faint")]
    return []


def why(ended: StepEnd) -> str:
    """Return the explanation below a failed step; empty if there is nothing to add."""
    return because(ended) if isinstance(ended, (StepRefusal, StepError)) else ended.message


def notices(event: NoticeArrival) -> str:
    """Return ``2 notices``, or their text."""
    return event.message or counted(event.count or 1, "notice")


def holder(wait: Mapping[str, Any]) -> str:
    """Return the holder for which a step waits, and the node."""
    who = str(wait.get("session") or "")
    step = f" ({wait['step']})" if wait.get("step") else ""
    if not who:
        who = f"branch {wait['gid']}" if wait.get("gid") else nameless(wait)
    elif wait.get("gid"):
        step += ", prepared"
    return f"{who}{step} at {wait.get('node')}"


def nameless(wait: Mapping[str, Any]) -> str:
    """Return the holder of a lock that is neither a session nor a branch: a process, or a description of the lock."""
    process = f"process {wait['pid']}" if wait.get("pid") else ""
    if wait.get("application"):
        return f"{wait['application']} ({process})" if process else str(wait["application"])
    return process or str(wait.get("lock") or "something")


def is_of_dependencies(message: str) -> bool:
    """Return whether a serialization failure is due to read/write dependencies rather than to one row."""
    return "read/write dependencies" in message


def _unserializable(ended: StepEnd) -> str:
    if is_of_dependencies(ended.message):
        return (
            f"concurrent serializable transactions have read at {raised_at(ended)} what others of them changed, "
            "and one after the other they might not have ended so"
        )
    if "concurrent" in ended.message:
        return "a row had changed since this transaction's view of the data"
    return ended.message


def raised_at(ended: StepEnd) -> str:
    """Return the node that refused the step, which may be the Publisher."""
    return ended.at or ended.node


def _article(facts: Mapping[str, Any]) -> str:
    return str(facts.get("article") or "").removeprefix("public.")


def _key(facts: Mapping[str, Any]) -> str:
    key = facts.get("key")
    return ", ".join(f"{n}={v}" for n, v in key.items()) if isinstance(key, Mapping) else ""


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(value)


def counted(count: int, noun: str) -> str:
    """Return ``0 rows``, ``1 row``."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
