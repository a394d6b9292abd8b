"""Choices that PostgreSQL leaves open: which session is the victim of a deadlock, and which serializable
transaction is refused.

The victim of a deadlock is the session that checks first after `deadlock_timeout`, a matter of milliseconds. Which
of several serializable transactions is refused, and at which statement, also depends on query plans. Two runs that
differ only in these choices agree. The functions are pure and take records.
"""

from __future__ import annotations

from collections.abc import Sequence

from twopc.sim.report.history import HistoryRecord

#: By kind of refusal, a description of the choice.
_CHOSEN = {
    "deadlock": "the victim of a deadlock",
    "serialization_failure": "which serializable transaction it refuses",
}
#: Part of the message of a failure that only SERIALIZABLE raises; a concurrent change of one row always fails the second.
_DEPENDENCIES = "read/write dependencies"


def chosen(records: Sequence[HistoryRecord]) -> dict[str, dict[str, str]]:
    """Return, by kind of refusal, the refused steps of one order, with their sessions, where others might have been
    refused.
    """
    order = next((each.data or {} for each in records if each.kind == "order"), {})
    serializable = {
        name
        for name, node in (order.get("sessions") or {}).items()
        if (order.get("isolation") or {}).get(node) == "serializable"
    }
    # the victim of such a deadlock was chosen by the player
    own = {each.step for each in records if each.kind == "deadlock"}
    results: dict[str, dict[str, str]] = {}
    for each in records:
        kind = str((each.conflict or {}).get("kind"))
        if each.kind != "rejected" or kind not in _CHOSEN or each.step in own:
            continue
        if kind == "deadlock" or (each.session in serializable and _DEPENDENCIES in each.message):
            results.setdefault(kind, {})[each.step] = each.session
    return results


def note(records: Sequence[HistoryRecord]) -> str:
    """Return a note on the choices of PostgreSQL on which an order's result depends; empty if there are none."""
    return "; ".join(f"PostgreSQL may choose either: {_CHOSEN[kind]}" for kind in chosen(records))


def either(one: Sequence[HistoryRecord], other: Sequence[HistoryRecord]) -> str:
    """Return a description of the different choices in two runs of an order; empty if there is no difference, or
    not among the same candidates.
    """
    own, others = chosen(one), chosen(other)
    for kind in own.keys() & others.keys():
        here, there = own[kind], others[kind]
        if here.keys() == there.keys() or len(here) != len(there):
            continue
        if kind == "deadlock" and not (
            {*there.values()} <= _waiting(one) and {*here.values()} <= _waiting(other)
        ):
            continue
        return f"{_CHOSEN[kind]}: {', '.join(here)}, or {', '.join(there)}"
    return ""


def _waiting(records: Sequence[HistoryRecord]) -> set[str]:
    """Return the sessions that waited, and those for which they waited."""
    waits = [each for each in records if each.kind == "blocked"]
    return {each.session for each in waits} | {
        str((each.wait or {}).get("session")) for each in waits
    }
